"""Score records: what is built is accepted, and no bit of it can be changed."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire.f64 import decode_f64
from guest.wire.policy import MEAN_OFF, ScoringPolicy
from guest.wire.refusal import WireRefused
from guest.wire.score_record import ScoreRecord, build_score_record, check_score_record
from tests.conformance.vectors import baseline
from tests.guest.wire.records import changed, get, leaves
from tests.guest.wire.values import ANY_VALUES, refusal_of

VECTORS = baseline("score_record")

IDS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=8)
SCORES = st.sampled_from([0.0, 1.0, 0.1, 1 / 3, 2 / 3, 0.7, 5e-324, 1 - 2**-53]) | st.floats(0, 1).map(abs)
POLICIES = st.one_of(
    st.builds(
        lambda how: MEAN_OFF.model_copy(update={"per_task_aggregation": how}), st.sampled_from(["mean", "best_of_k"])
    ),
    st.builds(
        lambda n: MEAN_OFF.model_copy(update={"keep_policy": "drop_lowest_n", "drop_lowest_n": n}), st.integers(0, 9)
    ),
    st.builds(
        lambda score: MEAN_OFF.model_copy(
            update={"keep_policy": "threshold_band", "threshold_f64be": struct.pack(">d", score).hex()}
        ),
        SCORES,
    ),
)


@st.composite
def runs(draw: st.DrawFn) -> dict[str, list[float]]:
    k = draw(st.integers(1, 5))
    return draw(st.dictionaries(IDS, st.lists(SCORES, min_size=k, max_size=k), min_size=1, max_size=6))


def build(trials: dict[str, list[float]], policy: ScoringPolicy = MEAN_OFF) -> ScoreRecord:
    return build_score_record(eval_run_id="run", policy=policy, trials=trials)


def check(record: ScoreRecord, policy: ScoringPolicy, like: ScoreRecord) -> None:
    ids = [task.task_id for task in like.tasks]
    check_score_record(record, eval_run_id="run", policy=policy, k=like.k, task_ids=ids)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_published_records(vector: dict[str, Any]) -> None:
    given_, expected = vector["input"], vector.get("expected")

    def made() -> ScoreRecord:
        trials = {
            task: [struct.unpack(">d", bytes.fromhex(bits))[0] for bits in scores]
            for task, scores in given_["trial_scores_f64be_by_task"].items()
        }
        policy = ScoringPolicy.parse(given_["policy"])
        return build_score_record(eval_run_id=given_["eval_run_id"], policy=policy, trials=trials)

    if expected is None:
        assert refusal_of(made) is not None
    else:
        assert made().canonical().hex() == expected["canonical_json_hex"]
        assert made().canonical_digest() == expected["score_record_digest"]


@given(runs(), POLICIES)
def test_what_is_built_is_accepted_and_reads_back(trials: dict[str, list[float]], policy: ScoringPolicy) -> None:
    record = build(trials, policy)
    check(record, policy, record)
    assert ScoreRecord.parse(record.model_dump(mode="json")) == record
    assert record.trials == {task: trials[task] for task in sorted(trials)}


@given(runs(), POLICIES, st.data())
def test_any_changed_bit_is_refused(trials: dict[str, list[float]], policy: ScoringPolicy, data: st.DataObject) -> None:
    """A record states sums, counts and scores; a change of any one contradicts the others or the plan."""
    record = build(trials, policy)
    document = record.model_dump(mode="json")
    path = data.draw(st.sampled_from([p for p in leaves(document) if isinstance(get(document, p), str | int)]))
    old = get(document, path)
    new = flipped(old, data) if isinstance(old, str) else old ^ 1 << data.draw(st.integers(0, 40))
    mutated = changed(document, path, new)
    if path[-2:-1] == ("trial_scores_f64be",):
        # A trial's score is what the record is made of: another one is accepted only where every sum stays the same.
        assume(build_or_none(mutated, policy) != mutated)
    refusal = refusal_of(lambda: check(ScoreRecord.parse(mutated), policy, record))
    assert refusal is not None
    assert refusal.reason in {Reason.SCORE_RECORD_MALFORMED, Reason.SCORE_RECORD_WRONG}


def flipped(text: str, data: st.DataObject) -> str:
    at = data.draw(st.integers(0, len(text) * 7 - 1))
    raw = bytearray(text.encode())
    raw[at // 7] ^= 1 << at % 7
    return raw.decode()


def build_or_none(document: dict[str, Any], policy: ScoringPolicy) -> dict[str, Any] | None:
    try:
        trials = {t["task_id"]: [decode_f64(bits) for bits in t["trial_scores_f64be"]] for t in document["tasks"]}
    except WireRefused:
        return None
    return build(trials, policy).model_dump(mode="json")


@given(ANY_VALUES)
def test_no_value_crashes_the_parser(value: Any) -> None:
    for document in (value, changed(build({"a": [1.0]}).model_dump(mode="json"), ("tasks",), value)):
        refusal = refusal_of(lambda document=document: ScoreRecord.parse(document))  # type: ignore[misc]
        assert refusal is None or refusal.reason is Reason.SCORE_RECORD_MALFORMED


def test_a_record_that_fits_another_plan_is_refused() -> None:
    record = build({"a": [1.0, 0.0], "b": [1.0, 1.0]})
    for change, pointer in (
        ({"eval_run_id": "other"}, "/eval_run_id"),
        ({"policy": MEAN_OFF.model_copy(update={"per_task_aggregation": "best_of_k"})}, "/policy_digest"),
        ({"k": 1}, "/tasks/0/trial_scores_f64be"),
        ({"task_ids": ["a"]}, "/tasks"),
        ({"task_ids": ["a", "c"]}, "/tasks"),
    ):
        expected: dict[str, Any] = {"eval_run_id": "run", "policy": MEAN_OFF, "k": 2, "task_ids": ["a", "b"]}
        with pytest.raises(WireRefused) as refusal:
            check_score_record(record, **(expected | change))
        assert (refusal.value.reason, refusal.value.pointer) == (Reason.SCORE_RECORD_WRONG, pointer)


def test_a_plain_sum_is_refused() -> None:
    document = changed(
        build({"a": [1 / 3, 1.0, 1.0]}).model_dump(mode="json"),
        ("tasks", 0, "aggregate_score_f64be"),
        "3fe8e38e38e38e38",
    )
    with pytest.raises(WireRefused, match="'3fe8e38e38e38e39', as the trials give") as refusal:
        check(ScoreRecord.parse(document), MEAN_OFF, build({"a": [1 / 3, 1.0, 1.0]}))
    assert refusal.value.pointer == "/tasks/0/aggregate_score_f64be"


def test_a_mean_that_rounds_up_to_1_counts_as_passed() -> None:
    record = build({"a": [1.0, 1.0, 1.0, 1.0, 1 - 2**-53]})
    assert (record.tasks[0].passed_trials, record.final.passed_tasks) == (4, 1)
