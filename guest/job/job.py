"""Run a job: every repetition of every task, as many at once as fit, and its files in the job directory.

Repetitions outside, tasks inside. One thread a running trial; the thread that called decides what starts next. When
`stop` is set nothing new starts, running trials end at once, and nothing of the run is left in the engine.
"""

from __future__ import annotations

import datetime
import json
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from guest.errors import EnvironmentFault, Refused, UsageFault
from guest.job.admission import Capacity, Reservations
from guest.job.job_directory import JobDirectory
from guest.job.summary import JobSummary, summarise_job
from guest.job.sweep import sweep_run
from guest.reason import Reason
from guest.tasks.budgets import Budget
from guest.tasks.task import Task
from guest.trial.agent import Agent, Seat
from guest.trial.course import TrialPlan
from guest.trial.engine import Engine
from guest.trial.holder import HolderImage
from guest.trial.image import ImageFailure, ResolvedImage
from guest.trial.lifecycle import Trial
from guest.trial.probe import KEY_BYTES, probe_value
from guest.trial.record import AgentIdentity, TrialRecord, write_json, write_log
from guest.trial.slot import Slot
from guest.wire.policy import MEAN_OFF

# Called with a trial's id, the state it enters, and its record once it is done.
Progress = Callable[[str, str, TrialRecord | None], None]
RUNNER_VERSION = 1
"""Raised when trials are run or scored in another way: a job is not resumed by another runner."""


@dataclass(frozen=True)
class JobPlan:
    """What a job is. `images` has an entry for every task; `capacity` bounds what runs at once, as does `n`."""

    job_dir: Path
    tasks: Sequence[Task]
    budgets: Mapping[str, Budget]
    images: Mapping[str, ResolvedImage | ImageFailure]
    agent: Agent
    k: int
    n: int
    capacity: Capacity
    holder_image: HolderImage
    resume: bool = False
    run_id: str = field(default_factory=lambda: secrets.token_hex(6))
    probe_key: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_BYTES), repr=False)

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.k < 1 or self.n < 1:
            raise UsageFault(Reason.USAGE, f"-k is {self.k} and -n is {self.n}; both must be at least 1")


def run_job(engine: Engine, plan: JobPlan, stop: threading.Event, progress: Progress) -> JobSummary:
    """Run all trials of the plan and give the job's summary, also written to `summary.json`.

    Raises UsageFault for a job directory that cannot be used, Refused: JOB_BUSY when another run works there,
    JOB_DIFFERS when what is to be resumed is another job, INTERRUPTED when stopped; EnvironmentFault when something
    could not be removed. In each case nothing of the run is left, as far as the engine lets us.
    """
    with JobDirectory(plan.job_dir, resume=plan.resume) as directory:
        if plan.resume:
            plan = replace(plan, run_id=directory.run_id(), probe_key=directory.probe_key())
            directory.check_same(identity_of(plan))
        else:
            directory.begin(identity_of(plan), plan.probe_key)
        kept = directory.finished({task.task_id: task.tree_digest for task in plan.tasks})
        return _run(engine, plan, kept, stop, progress)


def _run(
    engine: Engine, plan: JobPlan, kept: Mapping[str, TrialRecord], stop: threading.Event, progress: Progress
) -> JobSummary:
    events = _Events(plan.job_dir / "events.ndjson")

    def report(trial_id: str, state: str, record: TrialRecord | None) -> None:
        events.write(trial_id, state)
        progress(trial_id, state, record)

    done: dict[str, list[TrialRecord]] = {task.task_id: [] for task in plan.tasks}
    for record in kept.values():
        done[record.task_id].append(record)
        progress(record.trial_id, "recorded", record)
    with _slots(engine, plan) as slots:
        _prepare_agent(engine, plan, slots[0], stop)
        for record in _run_all(engine, plan, kept.keys(), slots, stop, report):
            done[record.task_id].append(record)
        if stop.is_set():
            raise Refused(
                Reason.INTERRUPTED,
                f"the run was stopped; finished trials are kept in {plan.job_dir}",
                f"go on with --resume --job-dir {plan.job_dir}",
            )
        summary = summarise_job(
            job_dir=str(plan.job_dir),
            run_id=plan.run_id,
            agent=AgentIdentity(kind=plan.agent.kind, sha256=plan.agent.sha256),
            k=plan.k,
            n_concurrent=plan.n,
            probe_key=plan.probe_key,
            records={task_id: sorted(records, key=lambda r: r.repetition) for task_id, records in done.items()},
        )
        # Before anything is closed: what cannot be removed must not cost the scores.
        write_json(plan.job_dir / "summary.json", summary)
    return summary


class _Events:
    """The job's append-only event list: numbered, one JSON object a line, never a reward."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        before = path.read_bytes() if path.exists() else b""
        if not before.endswith(b"\n"):  # torn when the run was killed
            before = before[: before.rfind(b"\n") + 1]
            path.write_bytes(before)
        self._next = before.count(b"\n") + 1

    def write(self, trial_id: str, state: str) -> None:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        with self._lock, self._path.open("a") as file:
            event = {"seq": self._next, "at": at, "trial_id": trial_id, "state": state}
            file.write(json.dumps(event, sort_keys=True) + "\n")
            self._next += 1


def identity_of(plan: JobPlan) -> dict[str, Any]:
    """Give what makes a job the one it is, as `job.json` tells it."""
    return {
        "schema_version": 1,
        "run_id": plan.run_id,
        "runner_version": RUNNER_VERSION,
        "attestation": "off",
        "agent": {"kind": plan.agent.kind, "sha256": plan.agent.sha256},
        "k": plan.k,
        "n_concurrent": plan.n,
        "scoring_policy_digest": MEAN_OFF.canonical_digest(),
        "tasks": {
            task.task_id: {
                "tree_digest": task.tree_digest,
                "budget": plan.budgets[task.task_id].model_dump(),
                "image": _image_id(plan.images[task.task_id]),
            }
            for task in plan.tasks
        },
    }


def _image_id(image: ResolvedImage | ImageFailure) -> str | None:
    return None if isinstance(image, ImageFailure) else image.image_id


def _prepare_agent(engine: Engine, plan: JobPlan, slot: Slot, stop: threading.Event) -> None:
    """Construct the agent once, so that a broken one costs this and no job; what it said is kept."""
    seat = Seat(engine, plan.run_id, "construct", slot.cgroup.parent, stop)
    try:
        plan.agent.prepare(seat)
    finally:
        if seat.log.size:
            write_log(plan.job_dir, "agent-construct.log", bytes(seat.log.kept))


@contextmanager
def _slots(engine: Engine, plan: JobPlan) -> Iterator[list[Slot]]:
    """Give the job's slots; afterwards close them and remove whatever else of this run still stands."""
    slots = [Slot(engine, plan.holder_image, plan.run_id, number) for number in range(plan.n)]
    try:
        # A run lives as long as one of its holders: the first one stands before anything else of the run does.
        slots[0].holder(network=False)
        yield slots
    finally:
        try:
            for slot in slots:
                slot.close()
        finally:
            sweep_run(engine, plan.run_id)


def _run_all(
    engine: Engine,
    plan: JobPlan,
    kept: Collection[str],
    slots: Sequence[Slot],
    stop: threading.Event,
    report: Progress,
) -> Iterator[TrialRecord]:
    """Yield each record as its trial ends; trials of which a record is `kept` are not run.

    The first trial that breaks the job stops the others and is raised.
    """
    waiting = [
        TrialPlan(
            run_id=plan.run_id,
            task=task,
            budget=plan.budgets[task.task_id],
            image=plan.images[task.task_id],
            repetition=repetition,
            directory=plan.job_dir / "trials" / f"{task.task_id}__r{repetition}",
            probe=_probe_of(plan, task, repetition),
        )
        for repetition in range(1, plan.k + 1)
        for task in plan.tasks
    ]
    waiting = [trial for trial in waiting if trial.trial_id not in kept]
    free = list(slots)
    reservations = Reservations(plan.capacity, plan.agent.memory_bytes)
    running: dict[Future[TrialRecord], tuple[TrialPlan, Slot]] = {}
    broken: BaseException | None = None
    with ThreadPoolExecutor(max_workers=plan.n, thread_name_prefix="trial") as pool:
        while running or (waiting and not stop.is_set()):
            held_back: list[TrialPlan] = []
            for trial in waiting:
                if stop.is_set() or not free or not reservations.reserve(trial.task.definition):
                    held_back.append(trial)
                    continue
                slot = free.pop(0)
                running[pool.submit(_run_trial, engine, slot, trial, plan.agent, stop, report)] = (trial, slot)
            waiting = held_back
            # The timeout lets a signal's handler run in this thread.
            finished, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in finished:
                trial, slot = running.pop(future)
                reservations.release(trial.task.definition)
                free.append(slot)
                error = future.exception()
                if error is None:
                    yield future.result()
                elif not (isinstance(error, Refused) and error.reason is Reason.INTERRUPTED):
                    broken = broken or error
                    stop.set()
    if broken is not None:
        raise broken


def _probe_of(plan: JobPlan, task: Task, repetition: int) -> str:
    if plan.agent.sha256 is None:
        return ""
    return probe_value(
        plan.probe_key, agent_hash=plan.agent.sha256, task_digest=task.tree_digest, repetition=repetition
    )


def _run_trial(
    engine: Engine, slot: Slot, trial: TrialPlan, agent: Agent, stop: threading.Event, report: Progress
) -> TrialRecord:
    try:
        record = Trial(engine, slot, trial, agent, stop).run(lambda state: report(trial.trial_id, state, None))
        report(trial.trial_id, "recorded", record)
    except OSError as error:
        raise EnvironmentFault(
            Reason.NO_SPACE,
            f"a file of {trial.trial_id} could not be written: {error}",
            "give a --job-dir with more room",
        ) from error
    return record
