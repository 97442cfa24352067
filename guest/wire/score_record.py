"""The score record: every trial's score of a run, and what they add up to, bit for bit as the peer recomputes it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from guest.reason import Reason
from guest.wire.f64 import decode_f64, encode_f64, mean
from guest.wire.policy import ScoringPolicy
from guest.wire.refusal import WireRefused, broken, json_pointer, shown
from guest.wire.scalars import F64, Closed, Id, Int, PositiveInt, Sha256, Version1


class TaskScore(Closed):
    """One task: the score of each trial, in trial order, and their aggregate."""

    reason: ClassVar[Reason] = Reason.SCORE_RECORD_MALFORMED

    task_id: Id
    trial_scores_f64be: Annotated[tuple[F64, ...], Field(strict=False, fail_fast=True)]
    aggregate_score_f64be: F64
    passed_trials: Int


class FinalScore(Closed):
    """The job's score over the kept tasks, and how many of all tasks have exactly 1."""

    reason: ClassVar[Reason] = Reason.SCORE_RECORD_MALFORMED

    job_score_f64be: F64
    passed_tasks: Int
    total_tasks: Int


class ScoreRecord(Closed):
    """Score record v1. Its digest is what a quote binds."""

    reason: ClassVar[Reason] = Reason.SCORE_RECORD_MALFORMED

    schema_version: Version1
    eval_run_id: Id
    policy_digest: Sha256
    k: PositiveInt
    tasks: Annotated[tuple[TaskScore, ...], Field(strict=False, fail_fast=True, min_length=1)]
    final: FinalScore

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        check_ascending("tasks", [task.task_id for task in self.tasks])
        return self

    @property
    def trials(self) -> dict[str, list[float]]:
        """Each task's trial scores, by task id."""
        return {task.task_id: [decode_f64(text) for text in task.trial_scores_f64be] for task in self.tasks}


def check_ascending(member: str, task_ids: Sequence[str], leaf: str = "/task_id") -> None:
    """Raise what pydantic turns into a refusal, naming an item of `member`, unless ids strictly ascend."""
    for at, (before, after) in enumerate(itertools.pairwise(task_ids), 1):
        if before >= after:
            raise broken(f"{member}/{at}{leaf}", f"must come after {shown(before)} in code-point order", after)


def build_score_record(
    *, eval_run_id: str, policy: ScoringPolicy, trials: Mapping[str, Sequence[float]]
) -> ScoreRecord:
    """Add up a run. `trials` gives each task's scores from 0 to 1 in trial order, the same number k for every task.

    Raises WireRefused for no task, no trial, uneven numbers of trials, a score out of range and a malformed task id.
    """
    if not trials:
        raise WireRefused(Reason.SCORE_RECORD_MALFORMED, "/tasks", "must have at least one task", "none")
    k = len(next(iter(trials.values())))
    tasks = [_score_task(task_id, trials[task_id], k, policy) for task_id in sorted(trials)]
    aggregates = [decode_f64(str(task["aggregate_score_f64be"])) for task in tasks]
    kept = _keep(aggregates, policy)
    return ScoreRecord.parse(
        {
            "schema_version": 1,
            "eval_run_id": eval_run_id,
            "policy_digest": policy.canonical_digest(),
            "k": k,
            "tasks": tasks,
            "final": {
                "job_score_f64be": encode_f64(mean(kept) if kept else 0.0),
                "passed_tasks": aggregates.count(1.0),
                "total_tasks": len(tasks),
            },
        }
    )


def check_score_record(
    record: ScoreRecord, *, eval_run_id: str, policy: ScoringPolicy, k: int, task_ids: Sequence[str]
) -> None:
    """Rebuild a record from its trial scores and compare, trusting none of its sums.

    `task_ids` are the plan's. Raises WireRefused(SCORE_RECORD_WRONG) at the first member that differs.
    """
    if [task.task_id for task in record.tasks] != list(task_ids):
        raise WireRefused(Reason.SCORE_RECORD_WRONG, "/tasks", "must hold exactly the tasks of the plan")
    for at, task in enumerate(record.tasks):
        if len(task.trial_scores_f64be) != k:
            raise WireRefused(
                Reason.SCORE_RECORD_WRONG,
                f"/tasks/{at}/trial_scores_f64be",
                f"must have one score for each of the {k} trials",
                str(len(task.trial_scores_f64be)),
            )
    expected = build_score_record(eval_run_id=eval_run_id, policy=policy, trials=record.trials)
    _compare(record.model_dump(), expected.model_dump(), ())


def _score_task(task_id: str, scores: Sequence[float], k: int, policy: ScoringPolicy) -> dict[str, object]:
    if not scores or len(scores) != k:
        raise WireRefused(
            Reason.SCORE_RECORD_MALFORMED,
            json_pointer(("tasks", task_id, "trial_scores_f64be")),
            "must have as many scores as every other task, and at least one",
            str(len(scores)),
        )
    encoded = [encode_f64(score) for score in scores]
    exact = [decode_f64(text) for text in encoded]
    return {
        "task_id": task_id,
        "trial_scores_f64be": encoded,
        "aggregate_score_f64be": encode_f64(max(exact) if policy.per_task_aggregation == "best_of_k" else mean(exact)),
        "passed_trials": exact.count(1.0),
    }


def _keep(aggregates: Sequence[float], policy: ScoringPolicy) -> list[float]:
    if policy.keep_policy == "drop_lowest_n":
        by_score = sorted(range(len(aggregates)), key=lambda at: (aggregates[at], at))
        dropped = set(by_score[: min(policy.drop_lowest_n, len(aggregates) - 1)])
        return [aggregate for at, aggregate in enumerate(aggregates) if at not in dropped]
    if policy.threshold_f64be is not None:
        threshold = decode_f64(policy.threshold_f64be)
        return [aggregate for aggregate in aggregates if aggregate >= threshold]
    return list(aggregates)


def _compare(got: object, expected: object, path: tuple[str | int, ...]) -> None:
    if isinstance(expected, dict) and isinstance(got, dict):
        for name, member in expected.items():
            _compare(got[name], member, (*path, name))
    elif isinstance(expected, tuple) and isinstance(got, tuple):
        for at, item in enumerate(expected):
            _compare(got[at], item, (*path, at))
    elif got != expected:
        raise WireRefused(
            Reason.SCORE_RECORD_WRONG, json_pointer(path), f"must be {shown(expected)}, as the trials give", shown(got)
        )
