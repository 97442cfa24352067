"""From trial records to a job's scores: the document that `summary.json` holds and `dry-run --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from guest.job.record_tree import root_of
from guest.reason import Reason
from guest.trial.cgroup import CpuSource
from guest.trial.outcome import Outcome
from guest.trial.record import AgentIdentity, ImageIdentity, TrialRecord, Wall
from guest.wire.f64 import decode_f64, mean
from guest.wire.policy import MEAN_OFF
from guest.wire.score_record import ScoreRecord, build_score_record


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
    """A whole job and its score record, whose digest (hex) is `scores_digest`.

    `records_root` is the root of the tree over the trial records; `probe_key` (hex) is what the probes were made with,
    told only now, when nothing runs any more.

    There is no record and no `job_score` when `unscored_tasks` names any: a missing score is never taken for 0.
    """

    schema_version: Literal[1] = 1
    job_dir: str
    run_id: str
    attestation: Literal["off"] = "off"
    agent: AgentIdentity
    k: int
    n_concurrent: int
    tasks: tuple[TaskSummary, ...]
    job_score: float | None
    score_record: ScoreRecord | None
    scores_digest: str | None
    records_root: str
    probe_key: str
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


def summarise_job(
    *,
    job_dir: str,
    run_id: str,
    agent: AgentIdentity,
    k: int,
    n_concurrent: int,
    probe_key: bytes,
    records: Mapping[str, Sequence[TrialRecord]],
) -> JobSummary:
    """Add up a job from the records of each task, in the order of the plan.

    The score record is for a run of this machine's own, `dry-run-` and the run id, since no plan was issued for it.
    """
    tasks = tuple(_summarise_task(task_id, of_task) for task_id, of_task in records.items())
    unscored = tuple(task.task_id for task in tasks if task.score is None)
    record = None
    if not unscored:
        trials = {task.task_id: _rewards(task.trials) for task in tasks}
        record = build_score_record(eval_run_id=f"dry-run-{run_id}", policy=MEAN_OFF, trials=trials)
    return JobSummary(
        job_dir=job_dir,
        run_id=run_id,
        agent=agent,
        k=k,
        n_concurrent=n_concurrent,
        tasks=tasks,
        job_score=decode_f64(record.final.job_score_f64be) if record else None,
        score_record=record,
        scores_digest=record.canonical_digest() if record else None,
        records_root=root_of(each for of_task in records.values() for each in of_task),
        probe_key=probe_key.hex(),
        passed_tasks=sum(task.score == 1 for task in tasks),
        total_tasks=len(tasks),
        unscored_tasks=unscored,
    )


def _summarise_task(task_id: str, records: Sequence[TrialRecord]) -> TaskSummary:
    first = records[0]
    trials = tuple(summarise_trial(record) for record in records)
    rewards = _rewards(trials)
    return TaskSummary(
        task_id=task_id,
        image=first.image,
        tree_digest=first.tree_digest,
        isolation=first.isolation,
        network=first.network,
        trials=trials,
        score=mean(rewards) if len(rewards) == len(trials) else None,
    )


def _rewards(trials: Sequence[TrialSummary]) -> list[float]:
    return [trial.reward for trial in trials if trial.reward is not None]
