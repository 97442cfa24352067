"""One job of trivial trials in a process of its own, measured from inside: `python -m scripts.benches.one_job K N`.

K repetitions, N at a time. Prints one JSON object, see `Measured`.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from guest.errors import EnvironmentFault
from guest.job.admission import Capacity
from guest.job.job import JobPlan, run_job
from guest.reason import Reason
from guest.trial import exec as trial_exec
from guest.trial.agent import OracleAgent
from scripts.benches.calls import OUTPUT_WAIT, watch_calls
from scripts.benches.trivial_task import TrivialTask, trivial_task


@dataclass(frozen=True)
class Measured:
    """What a process measured.

    seconds: the whole job, with what it makes and removes once. overheads: each trial's seconds beyond agent and
    verifier. walls: each trial's seconds in all. peak_rss_mb: of the process. calls: see `watch_calls`.
    """

    seconds: float
    overheads: list[float]
    walls: list[float]
    peak_rss_mb: float
    calls: dict[str, list[float]]


def measure(trivial: TrivialTask, trials: int, at_once: int) -> Measured:
    """Run a job of `trials` repetitions, `at_once` at a time. Raises EnvironmentFault when one does not pass."""
    calls = watch_calls()
    _watch_waiting(calls)
    task_id = trivial.task.task_id
    with tempfile.TemporaryDirectory(prefix="evalguest-bench-") as directory:
        plan = JobPlan(
            job_dir=Path(directory) / "job",
            tasks=[trivial.task],
            budgets={task_id: trivial.budget.model_copy(update={"isolation": "isolated"})},
            images={task_id: trivial.image},
            agent=OracleAgent(),
            k=trials,
            n=at_once,
            # The trials wait more than they compute, so the reservation of CPUs must not hold them back.
            capacity=Capacity(cpus=trivial.task.definition.cpus * at_once, memory_bytes=8 << 30),
            holder_image=trivial.holder_image,
        )
        began = time.monotonic()
        summary = run_job(trivial.engine, plan, threading.Event(), lambda *_: None)
        seconds = time.monotonic() - began
    ended = summary.tasks[0].trials
    if summary.job_score != 1:
        words = [trial.message or str(trial.outcome) for trial in ended if trial.reward != 1]
        raise EnvironmentFault(Reason.TOOL_FAILED, f"{len(words)} trivial trials did not pass, the first: {words[0]}")
    walls = [trial.wall for trial in ended]
    return Measured(
        seconds=seconds,
        overheads=[wall.overhead_sec for wall in walls],
        walls=[wall.overhead_sec + (wall.agent_sec or 0) + (wall.verifier_sec or 0) for wall in walls],
        peak_rss_mb=peak_rss_mb(),
        calls=dict(calls),
    )


def peak_rss_mb() -> float:
    """Give the most memory this process has had resident, in MB of 2^20 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _watch_waiting(calls: dict[str, list[float]]) -> None:
    """Time how long commands' output is waited for, too: the commands themselves, no call to the engine."""
    pump = trial_exec._pump  # noqa: SLF001 - the one place where all of them wait

    def timed(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - passed on
        began = time.perf_counter()
        ended = pump(*arguments, **named)
        calls[OUTPUT_WAIT].append((time.perf_counter() - began) * 1000)
        return ended

    trial_exec._pump = timed  # noqa: SLF001 - as above


if __name__ == "__main__":
    print(json.dumps(asdict(measure(trivial_task(), int(sys.argv[1]), int(sys.argv[2])))))
