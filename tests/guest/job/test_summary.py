"""What a job's document says, and the score record in it."""

from __future__ import annotations

from guest.job.summary import JobSummary, summarise_job
from guest.reason import Reason
from guest.trial.outcome import Outcome
from guest.trial.record import AgentIdentity, Container, Cpu, Memory, TrialRecord, Wall
from guest.wire.policy import MEAN_OFF
from guest.wire.score_record import ScoreRecord, check_score_record

AGENT = AgentIdentity(kind="nop", sha256=None)

CPU = Cpu(
    agent_budget_sec=1.0,
    verifier_budget_sec=1.0,
    agent_sec=None,
    verifier_sec=None,
    source="cgroup1",
    final=True,
    throttled_periods=None,
    throttled_sec=None,
)


def record(task_id: str, repetition: int, reward: float | None) -> TrialRecord:
    return TrialRecord(
        run_id="00ff",
        trial_id=f"{task_id}__r{repetition}",
        task_id=task_id,
        repetition=repetition,
        agent=AGENT,
        tree_digest="0" * 64,
        image=None,
        isolation="isolated",
        network="none",
        gateway_filtered=None,
        outcome=Outcome.INFRA_ERROR if reward is None else Outcome.PASSED if reward == 1 else Outcome.FAILED,
        reason_code=Reason.ENGINE_FAULT if reward is None else None,
        message="",
        reward=reward,
        grading=None,
        probe=None,
        started_at="2026-01-01T00:00:00Z",
        cpu=CPU,
        wall=Wall(agent_sec=None, verifier_sec=None, overhead_sec=0.0),
        memory=Memory(limit_bytes=0, peak_bytes=None, oom_kills=None),
        container=Container(container_id=None, holder_id=None, running_at_end=None, removed=True),
        logs=(),
    )


def summary(**rewards: list[float | None]) -> JobSummary:
    return summarise_job(
        job_dir="jobs/x",
        run_id="00ff",
        agent=AGENT,
        k=len(next(iter(rewards.values()))),
        n_concurrent=1,
        probe_key=bytes(32),
        records={task: [record(task, at, reward) for at, reward in enumerate(of, 1)] for task, of in rewards.items()},
    )


def test_a_job_ends_in_a_score_record_that_a_validator_accepts() -> None:
    made = summary(b=[1 / 3, 1.0, 1.0], a=[0.1, 0.1, 0.1])
    assert made.score_record is not None
    check_score_record(made.score_record, eval_run_id="dry-run-00ff", policy=MEAN_OFF, k=3, task_ids=["a", "b"])
    assert made.scores_digest == made.score_record.canonical_digest()
    assert [task.task_id for task in made.tasks] == ["b", "a"]
    # 3fe8e38e38e38e39 is the compensated mean of 1/3, 1, 1; plain addition ends one bit lower.
    assert made.score_record.tasks[1].aggregate_score_f64be == "3fe8e38e38e38e39"
    assert made.tasks[0].score == float.fromhex("0x1.8e38e38e38e39p-1")
    assert (made.passed_tasks, made.total_tasks) == (0, 2)


def test_the_document_carries_the_record_that_its_digest_is_of() -> None:
    made = summary(a=[1.0], b=[0.0])
    document = made.model_dump(mode="json")
    assert ScoreRecord.parse(document["score_record"]).canonical_digest() == document["scores_digest"]
    assert document["job_score"] == 0.5


def test_one_missing_score_leaves_no_record_and_is_never_0() -> None:
    made = summary(a=[1.0, None], b=[1.0, 1.0])
    assert (made.score_record, made.scores_digest, made.job_score) == (None, None, None)
    assert made.unscored_tasks == ("a",)
    assert [task.score for task in made.tasks] == [None, 1.0]
