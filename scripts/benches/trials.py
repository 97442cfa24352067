"""`scripts/bench trials`: what a trial costs beyond agent and verifier, how many a second, and where it goes."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

from guest.trial.engine import connect
from guest.trial.holder import Holder, HolderImage
from image.base.ensure import ensure_base
from scripts.benches.figures import Figure
from scripts.benches.floor import measure_floor
from scripts.cache_dir import cache_dir

CHECKOUT = Path(__file__).resolve().parents[2]


def measure_trials(*, rounds: int = 4, trials: int = 10, many: int = 64) -> list[Figure]:
    """Measure serial trials against the floor in alternating rounds, then `many` trials four at a time."""
    engine = connect()
    image = HolderImage(ensure_base(engine.api, cache_dir(), lambda _: None).ref)
    overheads: list[float] = []
    floors: list[float] = []
    for number in range(rounds):
        _say(f"round {number + 1} of {rounds}: {trials} trials one after the other, then {trials} bare ones")
        serial = run_one_job(trials, 1)
        overheads += serial["overheads"]
        run_id = f"bench{secrets.token_hex(4)}"
        holder = Holder(engine, image, run_id, f"evalguest-{run_id}-holder", network=False)
        try:
            floors += measure_floor(engine.api, holder, image, trials)
        finally:
            holder.close()
    _say(f"{many // 4}, then three times {many} trials, four at a time")
    few = run_one_job(many // 4, 4)
    runs = [run_one_job(many, 4) for _ in range(3)]
    ratios = [ours / bare for ours, bare in zip(sorted(overheads), sorted(floors), strict=True)]
    figures = [
        Figure("trial_overhead_s", "s", overheads, "target: at most 0.50"),
        Figure("trial_floor_s", "s", floors, "the same engine calls with nothing of ours around"),
        Figure("trial_overhead_to_floor", "ratio", ratios, "quantile by quantile"),
        Figure("trials_per_s", "1/s", [many / run["seconds"] for run in runs], f"{many} trials, 4 at once; target: 4"),
        Figure("peak_rss_mb", "MB", [run["peak_rss_mb"] for run in runs], f"{many} trials; target: at most 150"),
        Figure("peak_rss_few_mb", "MB", [few["peak_rss_mb"]], f"{many // 4} trials; flat in the number of trials"),
        Figure("calls_per_trial", "calls", [sum(each["per_trial"] for each in serial["calls"].values())]),
    ]
    for kind, call in sorted(serial["calls"].items(), key=lambda item: -item[1]["per_trial"] * item[1]["median_ms"]):
        figures.append(Figure(kind, "ms", [call["median_ms"]], f"{call['per_trial']:.1f} a trial"))
    return figures


def run_one_job(trials: int, at_once: int) -> dict[str, Any]:
    """Run a job in a process of its own and give what it measured."""
    command = [sys.executable, "-m", "scripts.benches.one_job", str(trials), str(at_once)]
    ended = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    measured: dict[str, Any] = json.loads(ended.stdout)
    return measured


def _say(words: str) -> None:
    sys.stderr.write(f"bench: {words}\n")
