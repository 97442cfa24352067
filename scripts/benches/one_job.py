"""One job of trivial trials in a process of its own, measured from inside: `python -m scripts.benches.one_job K N`.

Prints one JSON object: wall seconds of the job, seconds of overhead of each trial, peak resident memory, and for each
kind of engine call how many there were and their median in milliseconds.
"""

from __future__ import annotations

import json
import re
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import requests

from guest.job.admission import Capacity
from guest.job.job import JobPlan, run_job
from guest.tasks.budgets import budget_for
from guest.tasks.cache import load_cache
from guest.trial.agent import OracleAgent
from guest.trial.engine import connect
from guest.trial.holder import HolderImage
from image.base.ensure import ensure_base
from image.task_images import bake
from scripts.cache_dir import cache_dir

CHECKOUT = Path(__file__).resolve().parents[2]
TRIVIAL = CHECKOUT / "tests" / "packs" / "smoke"
_NAMES = re.compile(r"[0-9a-f]{12,}|evalguest-[^/?]+")


def measure(trials: int, at_once: int) -> dict[str, Any]:
    """Run a job of `trials` repetitions of the trivial task, `at_once` at a time, and give what was measured."""
    engine = connect()
    cache = load_cache(TRIVIAL)
    (task,) = cache.select(["trivial"])
    base = ensure_base(engine.api, cache_dir(), lambda _: None)
    images = bake(engine.api, [task], pins={}, say=lambda *_: None, stop=threading.Event())
    budget = budget_for(task.definition, cache.budgets.get(task.task_id), attested=False, chosen=False)
    calls = _watch_calls()
    with tempfile.TemporaryDirectory(prefix="evalguest-bench-") as directory:
        plan = JobPlan(
            job_dir=Path(directory) / "job",
            tasks=[task],
            budgets={task.task_id: budget.model_copy(update={"isolation": "isolated"})},
            images=images,
            agent=OracleAgent(),
            k=trials,
            n=at_once,
            # The trials wait more than they compute, so the reservation of CPUs must not hold them back.
            capacity=Capacity(cpus=task.definition.cpus * at_once, memory_bytes=8 << 30),
            holder_image=HolderImage(base.ref),
        )
        began = time.monotonic()
        summary = run_job(engine, plan, threading.Event(), lambda *_: None)
        seconds = time.monotonic() - began
    ended = summary.tasks[0].trials
    if summary.job_score != 1:
        raise SystemExit(f"a trivial trial did not pass: {[trial.message for trial in ended if trial.reward != 1][:3]}")
    return {
        "seconds": seconds,
        "overheads": [trial.wall.overhead_sec for trial in ended],
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        / (1 << 20 if sys.platform == "darwin" else 1024),
        "calls": {
            kind: {"per_trial": len(times) / trials, "median_ms": statistics.median(times)}
            for kind, times in calls.items()
            if len(times) >= trials
        },
    }


def _watch_calls() -> dict[str, list[float]]:
    """Time every call to the engine from here on, by method and path without names."""
    calls: dict[str, list[float]] = defaultdict(list)
    send = requests.Session.send

    def timed(session: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # noqa: ANN401 - passed on
        began = time.perf_counter()
        answer = send(session, request, **options)
        path = _NAMES.sub("*", (request.url or "").split("localhost", 1)[-1].split("?")[0])
        kind = f"{request.method} {path.removeprefix('/v').split('/', 1)[-1]}"
        calls[kind].append((time.perf_counter() - began) * 1000)
        return answer

    # The one place that all calls pass.
    requests.Session.send = timed  # type: ignore[method-assign, assignment]
    return calls


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
