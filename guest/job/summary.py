"""From trial records to a job's scores: the document that `summary.json` holds and `dry-run --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal

from pydantic import BaseModel, ConfigDict

from guest.reason import Reason
from guest.trial.cgroup import CpuSource
from guest.trial.outcome import Outcome
from guest.trial.record import AgentIdentity, ImageIdentity, TrialRecord, Wall


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class CpuFigures(_Closed):
    """CPU seconds of both phases and where they come from."""

    agent_sec: float | None
    verifier_sec: float | None
    source: CpuSource


class TrialSummary(_Closed):
    """One trial as the job's document shows it."""

    trial_id: str
    outcome: Outcome
    reason_code: Reason | None
    message: str
    reward: float | None
    cpu: CpuFigures
    wall: Wall


class TaskSummary(_Closed):
    """One task: its trials and their mean, None as soon as one of them has no reward."""

    task_id: str
    image: ImageIdentity | None
    tree_digest: str
    isolation: Literal["isolated", "shared"]
    network: Literal["none", "agent", "verifier", "both"]
    trials: tuple[TrialSummary, ...]
    score: float | None


class JobSummary(_Closed):
    """A whole job. `job_score` is the mean of the task scores, None when `unscored_tasks` names any."""

    schema_version: Literal[1] = 1
    job_dir: str
    run_id: str
    attestation: Literal["off"] = "off"
    agent: AgentIdentity
    k: int
    n_concurrent: int
    tasks: tuple[TaskSummary, ...]
    job_score: float | None
    passed_tasks: int
    total_tasks: int
    unscored_tasks: tuple[str, ...]


def summarise_trial(record: TrialRecord) -> TrialSummary:
    """Reduce a record to what the job's document shows."""
    return TrialSummary(
        trial_id=record.trial_id,
        outcome=record.outcome,
        reason_code=record.reason_code,
        message=record.message,
        reward=record.reward,
        cpu=CpuFigures(agent_sec=record.cpu.agent_sec, verifier_sec=record.cpu.verifier_sec, source=record.cpu.source),
        wall=record.wall,
    )


def mean(values: Sequence[float | None]) -> float | None:
    """Give the exactly rounded mean, None when a value is missing or there is none.

    >>> mean([1.0, 0.0, 1.0]), mean([0.1] * 10), mean([1.0, None]), mean([])
    (0.6666666666666666, 0.1, None, None)
    """
    present = [Fraction(value) for value in values if value is not None]
    if not present or len(present) < len(values):
        return None
    return float(sum(present) / len(present))


def summarise_job(
    *,
    job_dir: str,
    run_id: str,
    agent: AgentIdentity,
    k: int,
    n_concurrent: int,
    records: Mapping[str, Sequence[TrialRecord]],
) -> JobSummary:
    """Add up a job from the records of each task, in the order of the plan."""
    tasks = tuple(_summarise_task(task_id, of_task) for task_id, of_task in records.items())
    return JobSummary(
        job_dir=job_dir,
        run_id=run_id,
        agent=agent,
        k=k,
        n_concurrent=n_concurrent,
        tasks=tasks,
        job_score=mean([task.score for task in tasks]),
        passed_tasks=sum(task.score == 1 for task in tasks),
        total_tasks=len(tasks),
        unscored_tasks=tuple(task.task_id for task in tasks if task.score is None),
    )


def _summarise_task(task_id: str, records: Sequence[TrialRecord]) -> TaskSummary:
    first = records[0]
    return TaskSummary(
        task_id=task_id,
        image=first.image,
        tree_digest=first.tree_digest,
        isolation=first.isolation,
        network=first.network,
        trials=tuple(summarise_trial(record) for record in records),
        score=mean([record.reward for record in records]),
    )
