"""`scripts/bench trials`: what a trial costs beyond agent and verifier, how many a second, and where the time goes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from guest.errors import EnvironmentFault
from guest.reason import Reason
from scripts.benches.calls import OUTPUT_WAIT
from scripts.benches.figures import Figure
from scripts.benches.one_job import Measured

CHECKOUT = Path(__file__).resolve().parents[2]
_SET_UP = 'set -euo pipefail; source "$0"; setup_venv; setup_machine'


def measure_trials(*, rounds: int = 4, trials: int = 10, many: int = 64, few: int = 16) -> list[Figure]:
    """Measure serial trials, then trials four at a time, each in turn with their floor; then the commands."""
    ours, bare = [], []
    for number in range(rounds):
        _say(f"round {number + 1} of {rounds}: {trials} trials one after the other, then {trials} bare ones")
        ours.append(run_process("one_job", trials, 1))
        bare.append(run_process("floor", trials, 1))
    fleet, bare_fleet = [], []
    for number in range(3):
        _say(f"round {number + 1} of 3: {many} trials four at a time, then {many} bare ones")
        fleet.append(run_process("one_job", many, 4))
        bare_fleet.append(run_process("floor", many, 4))
    small = run_process("one_job", few, 4)
    figures = serial_figures(ours, bare)
    figures += fleet_figures(fleet, bare_fleet, many)
    figures += [
        Figure(f"orchestrator_peak_rss_{many}_mb", "MB", [run.peak_rss_mb for run in fleet], "target: at most 150"),
        Figure(f"orchestrator_peak_rss_{few}_mb", "MB", [small.peak_rss_mb], f"flat: the same as for {many} trials"),
    ]
    return figures + _command_figures() + call_figures(ours, bare)


def serial_figures(ours: Sequence[Measured], bare: Sequence[Measured]) -> list[Figure]:
    """Compare rounds of trials one after the other with the rounds of bare ones that ran beside them."""
    ratios = [
        statistics.median(own.overheads) / statistics.median(floor.overheads)
        for own, floor in zip(ours, bare, strict=True)
    ]
    return [
        Figure("trial_overhead_s", "s", _all(run.overheads for run in ours), "target: at most 0.50"),
        Figure(
            "trial_floor_s",
            "s",
            _all(run.overheads for run in bare),
            "the calls it cannot do without, nothing of ours around",
        ),
        Figure("trial_overhead_to_floor", "ratio", ratios, "round by round"),
    ]


def fleet_figures(ours: Sequence[Measured], bare: Sequence[Measured], trials: int) -> list[Figure]:
    """Compare jobs of several trials at a time, holders and clean-up included, with bare ones."""
    rates = [trials / run.seconds for run in ours]
    floors = [trials / run.seconds for run in bare]
    return [
        Figure("trials_per_s", "1/s", rates, f"{trials} trials, 4 at a time; target: at least 4"),
        Figure("trials_per_s_floor", "1/s", floors, "the calls it cannot do without, nothing of ours around"),
        Figure("trials_per_s_to_floor", "ratio", [rate / floor for rate, floor in zip(rates, floors, strict=True)]),
    ]


def call_figures(ours: Sequence[Measured], bare: Sequence[Measured]) -> list[Figure]:
    """Say where the time of a trial goes: each kind of call, dearest first, and what is left beside the calls."""
    mine, floor = _merged(ours), _merged(bare)
    trials, floor_trials = (sum(len(run.walls) for run in runs) for runs in (ours, bare))
    left = [(sum(run.walls) * 1000 - sum(sum(times) for times in run.calls.values())) / len(run.walls) for run in ours]
    figures = [
        Figure("engine_calls_per_trial", "calls", [_calls(mine) / trials], f"floor: {_calls(floor) / floor_trials:g}"),
        Figure("beside_the_calls_ms", "ms", left, "a trial; our own doing: checks, archives, records"),
    ]
    for kind, times in sorted(mine.items(), key=lambda item: -sum(item[1])):
        bare_times = floor.get(kind)
        beside = f"; floor: {statistics.median(bare_times):.1f} ms" if bare_times else ""
        share = f"{len(times) / trials:g} a trial, {sum(times) / trials:.0f} ms of each"
        figures.append(Figure(kind, "ms", times, share + beside))
    return figures


def run_process(module: str, trials: int, at_once: int) -> Measured:
    """Run `one_job` or `floor` in a process of its own. Raises EnvironmentFault with its words when it fails."""
    command = [sys.executable, "-P", "-m", f"scripts.benches.{module}", str(trials), str(at_once)]
    return Measured(**json.loads(_run(command)))


def _command_figures(runs: int = 3) -> list[Figure]:
    """Time the warm commands: set-up that has nothing to do, and the whole main job."""
    set_up, dry_run, floors = [], [], []
    for number in range(runs):
        _say(f"run {number + 1} of {runs}: warm set-up, then the whole of ./scripts/dry-run")
        began = time.monotonic()
        _run(["bash", "-c", _SET_UP, str(CHECKOUT / "scripts" / "setup.sh")])
        set_up.append(time.monotonic() - began)
        with tempfile.TemporaryDirectory(prefix="evalguest-bench-") as folder:
            began = time.monotonic()
            document = _run([str(CHECKOUT / "scripts" / "dry-run"), "--json", "--job-dir", f"{folder}/job"])
            dry_run.append(time.monotonic() - began)
        floors.append(own_cpu_seconds(json.loads(document)) / (os.cpu_count() or 1))
    return [
        Figure("warm_set_up_s", "s", set_up, "target: under 2"),
        Figure("warm_dry_run_s", "s", dry_run, "every task of ours, with set-up; target: at most 15"),
        Figure("warm_dry_run_floor_s", "s", floors, "the tasks' own CPU seconds, spread over all CPUs"),
    ]


def own_cpu_seconds(document: Mapping[str, Any]) -> float:
    """Give the CPU seconds of all agents and verifiers of a dry run's document."""
    used = [trial["cpu"] for task in document["tasks"] for trial in task["trials"]]
    return sum((cpu["agent_sec"] or 0) + (cpu["verifier_sec"] or 0) for cpu in used)


def _run(command: Sequence[str]) -> str:
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        words = f"{' '.join(command[:4])} … ended with {ended.returncode}: {ended.stderr.strip()[-2000:]}"
        raise EnvironmentFault(Reason.TOOL_FAILED, words)
    return ended.stdout


def _merged(runs: Sequence[Measured]) -> dict[str, list[float]]:
    kinds = sorted({kind for run in runs for kind in run.calls})
    return {kind: _all(run.calls.get(kind, []) for run in runs) for kind in kinds}


def _calls(merged: dict[str, list[float]]) -> int:
    """Count the calls; waiting for output is none."""
    return sum(len(times) for kind, times in merged.items() if kind != OUTPUT_WAIT)


def _all(lists: Iterable[Sequence[float]]) -> list[float]:
    return [value for values in lists for value in values]


def _say(words: str) -> None:
    sys.stderr.write(f"bench: {words}\n")
