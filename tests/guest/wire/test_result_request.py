"""A result: read strictly, byte for byte, and held against its plan."""

from __future__ import annotations

import copy
import json
import tracemalloc
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire import canonical
from guest.wire.execution_proof import AttestedMeasurement, manifest_sha256
from guest.wire.plan import EvalPlan, parse_plan
from guest.wire.policy import MEAN_OFF
from guest.wire.refusal import WireRefused
from guest.wire.result_check import check_attestation, check_result
from guest.wire.result_request import ResultRequest, parse_result_body
from guest.wire.score_record import build_score_record
from scripts.conformance.vectors import mutate
from tests.conformance.vectors import baseline
from tests.guest.wire.records import changed, get, leaves, request, vectors, without
from tests.guest.wire.values import ANY_VALUES, refusal_of

SECTION: dict[str, Any] = vectors()["baseline"]["result_request"]
VALID = SECTION["valid"][0]
ATTESTATION = ("execution_proof", "attestation")


def body_of(value: object) -> bytes:
    """Compact and sorted, but not normalised: what a careless sender would send."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def plan() -> EvalPlan:
    return parse_plan(copy.deepcopy(VALID["plan"]))


def refused(value: object, of_plan: EvalPlan | None = None) -> WireRefused | None:
    return refusal_of(lambda: check_result(parse_result_body(body_of(value)), of_plan or plan()))


def redigested(value: dict[str, Any]) -> dict[str, Any]:
    """The same result after its score record was changed, with the digest that fits."""
    return {**value, "scores_digest": canonical.digest(value["score_record"])}


def test_the_published_result() -> None:
    expected = VALID["expected"]
    body = expected["canonical_body_ascii"].encode()
    read = parse_result_body(body)
    check_result(read, plan())
    assert read == ResultRequest.parse(request())
    assert read.canonical() == body
    assert (len(body), sha256(body).hexdigest()) == (expected["body_bytes"], expected["body_sha256"])


@pytest.mark.parametrize("vector", SECTION["invalid"], ids=lambda v: v["name"])
def test_published_invalid_results(vector: dict[str, Any]) -> None:
    value = request()
    for mutation in vector["mutations"]:
        value = mutate(value, mutation)
    if vector["recompute_scores_digest_after"]:
        value = redigested(value)
    assert refused(value) is not None


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("schema_version",), 2, Reason.RESULT_MALFORMED),
        (("schema_version",), True, Reason.RESULT_MALFORMED),
        (("eval_run_id",), "eval-run-p9", Reason.RESULT_MALFORMED),
        (("scores_digest",), "0" * 64, Reason.RESULT_MALFORMED),
        (("submission_id",), "18", Reason.RESULT_MISMATCH),
        (("agent_hash",), "f" * 64, Reason.RESULT_MISMATCH),
        (("execution_proof", "tier"), "phala", Reason.RESULT_MALFORMED),
        (("execution_proof", "image_digest"), f"r/x@sha256:{'a' * 64}", Reason.RESULT_MISMATCH),
        (("execution_proof", "version"), True, Reason.RESULT_MALFORMED),
        ((*ATTESTATION, "report_data"), "ab" * 64, Reason.RESULT_MISMATCH),
        ((*ATTESTATION, "measurement", "mrtd"), "00" * 48, Reason.RESULT_MISMATCH),
        ((*ATTESTATION, "measurement", "rtmr3"), "00" * 48, Reason.RESULT_MISMATCH),
        ((*ATTESTATION, "vm_config", "os_image_hash"), "00" * 32, Reason.RESULT_MISMATCH),
        ((*ATTESTATION, "event_log", 0, "imr"), 9999, Reason.RESULT_MALFORMED),
    ],
)
def test_a_refusal_names_the_member(path: tuple[str | int, ...], value: object, reason: Reason) -> None:
    refusal = refused(changed(request(), path, value))
    assert refusal is not None
    where = "score_record/eval_run_id" if path == ("eval_run_id",) else "/".join(map(str, path))
    assert (refusal.reason, refusal.pointer) == (reason, f"/{where}")
    assert refusal.message.isascii()
    assert refusal.message.startswith(f"/{where} must be ")


def test_a_changed_score_is_refused_though_its_digest_fits() -> None:
    for path in leaves(request()["score_record"]):
        value = get(request()["score_record"], path)
        if isinstance(value, str) and len(value) == 16:
            other = redigested(changed(request(), ("score_record", *path), "3fe0000000000000"))
            assert value == "3fe0000000000000" or refused(other) is not None


@pytest.mark.parametrize("value", [True, None, "", -1, 1.5, "x", [], {}, 2**64, "a\u0301"])
def test_a_result_with_one_other_member_is_refused_or_another_result(value: object) -> None:
    for path in leaves(request()):
        if get(request(), path) == value:
            continue
        other = body_of(changed(request(), path, value))
        assert refusal_of(lambda other=other: parse_result_body(other)) or parse_result_body(other).canonical() == other  # type: ignore[misc]
        assert refusal_of(lambda other=other: check_result(parse_result_body(other), plan())) or is_free(path)  # type: ignore[misc]


def is_free(path: tuple[str | int, ...]) -> bool:
    """Nothing says what the machine's size is, nor what the events of the other registers are called."""
    if "event_log" in path:
        return bool(get(request(), path[:-1])["imr"] != 3 and path[-1] in {"event", "event_payload"})
    return path[-1] in {"vcpu", "memory_mb"} or path[-2:] == ("vm_config", "os_image_hash")


def test_a_result_without_one_member_is_refused() -> None:
    for path in leaves(request()):
        if isinstance(path[-1], str):
            assert refused(without(request(), path)) is not None, path


BODY = VALID["expected"]["canonical_body_ascii"].encode()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (BODY + b"\n", Reason.NOT_CANONICAL),
        (b" " + BODY, Reason.NOT_CANONICAL),
        (BODY.replace(b":", b": ", 1), Reason.NOT_CANONICAL),
        (json.dumps(request(), separators=(",", ":")).encode(), Reason.NOT_CANONICAL),
        (BODY.replace(b"eval", b"\\u0065val", 1), Reason.NOT_CANONICAL),
        (BODY.replace(b"registry", "re\u0301gistry".encode(), 1), Reason.NOT_CANONICAL),
        (b"\xef\xbb\xbf" + BODY, Reason.JSON_REFUSED),
        (BODY[:-1], Reason.JSON_REFUSED),
        (BODY + b"{}", Reason.JSON_REFUSED),
        (BODY[:-1] + b',"schema_version":1}', Reason.JSON_REFUSED),
        (BODY.replace(b'"schema_version":1,', b'"schema_version":1.0,'), Reason.JSON_REFUSED),
        (b"[" + BODY + b"]", Reason.JSON_REFUSED),
        (b"", Reason.JSON_REFUSED),
        (b" " * (16 * 1024 * 1024 + 1), Reason.JSON_REFUSED),
    ],
    ids=range(14),
)
def test_other_spellings_are_refused(body: bytes, reason: Reason) -> None:
    refusal = refusal_of(lambda: parse_result_body(body))
    assert refusal is not None
    assert refusal.reason is reason


OTHER_PLANS: dict[str, Any] = {
    "score_nonce": "another-nonce",
    "k": 4,
    "agent_hash": "ab" * 32,
    "submission_id": "18",
}


@pytest.mark.parametrize("member", OTHER_PLANS)
def test_a_result_of_another_plan_is_refused(member: str) -> None:
    other = parse_plan({**copy.deepcopy(VALID["plan"]), member: OTHER_PLANS[member]})
    assert refused(request(), other) is not None


@pytest.mark.parametrize("member", ["mrtd", "rtmr0", "rtmr1", "rtmr2", "os_image_hash", "key_provider"])
def test_a_result_of_another_machine_is_refused(member: str) -> None:
    given_ = copy.deepcopy(VALID["plan"])
    value = given_["eval_app"]["measurement"][member]
    given_["eval_app"]["measurement"][member] = "other" if member == "key_provider" else "ab" * (len(value) // 2)
    assert refused(request(), parse_plan(given_)) is not None


def test_a_result_of_other_tasks_another_run_or_another_compose_file_is_refused() -> None:
    given_ = copy.deepcopy(VALID["plan"])
    fewer = {**given_, "selected_tasks": given_["selected_tasks"][:2]}
    run = {**given_, "eval_run_id": "r2", "result_endpoint": "/evaluation/v1/runs/r2/result"}
    compose = changed(given_, ("eval_app", "compose_hash"), "ab" * 32)
    image = changed(given_, ("eval_app", "image_ref"), f"r/x@sha256:{'a' * 64}")
    for other in (fewer, run, compose, image):
        assert refused(request(), parse_plan(other)) is not None


@pytest.mark.parametrize("place", [0, 2, 4, 8, 12, 184, 376, 424, 472, 520, 568, 632])
def test_a_quote_that_says_something_else_is_refused(place: int) -> None:
    quote = bytearray.fromhex(request()["execution_proof"]["attestation"]["tdx_quote"])
    quote[place] ^= 0xFF
    refusal = refused(changed(request(), (*ATTESTATION, "tdx_quote"), quote.hex()))
    assert refusal is not None
    assert refusal.reason in {Reason.QUOTE_MALFORMED, Reason.RESULT_MISMATCH}


def test_more_tasks_than_a_result_may_have() -> None:
    many = request()
    task = many["score_record"]["tasks"][0]
    many["score_record"]["tasks"] = [{**task, "task_id": f"t{at:03}"} for at in range(513)]
    refusal = refused(redigested(many))
    assert refusal is not None
    assert refusal.pointer == "/score_record/tasks"


def test_registers_and_attestation_stand_by_themselves() -> None:
    attestation = ResultRequest.parse(request()).execution_proof.attestation
    check_attestation(attestation)
    measurement = attestation.measurement
    assert isinstance(measurement, AttestedMeasurement)
    assert measurement.canonical_measurement == plan().canonical_measurement


@pytest.mark.parametrize("vector", baseline("manifest_sha256"), ids=lambda v: v["name"])
def test_published_manifest_hashes(vector: dict[str, Any]) -> None:
    given_ = vector["input"]
    assert manifest_sha256(**given_) == vector["expected"]
    ids = ",".join(f'"{task_id}"' for task_id in sorted(given_["task_ids"]))
    text = f'{{"agent_hash":"{given_["agent_hash"]}","compose_hash":"{given_["compose_hash"]}","task_ids":[{ids}]}}'
    assert sha256(text.encode()).hexdigest() == vector["expected"]


@given(ANY_VALUES)
def test_no_value_crashes_the_record(value: Any) -> None:
    assert refusal_of(lambda: ResultRequest.parse(value)) is not None


@given(st.binary(max_size=200) | st.integers(0, len(BODY)).map(lambda at: BODY[:at]))
def test_no_bytes_crash_the_reader(body: bytes) -> None:
    refusal_of(lambda: parse_result_body(body))


@pytest.mark.parametrize(
    "fill",
    [
        lambda size: b'{"a":[' + b",".join([b'"x"'] * (size // 4)) + b"]}",
        lambda size: b'{"a":"' + "é".encode() * (size // 2) + b'"}',
        lambda size: b"{" + b",".join(b'"%d":0' % at for at in range(size // 10)) + b"}",
        lambda size: b'{"a":' * (size // 5),
        lambda size: BODY[:-1] + b',"x":"' + b"y" * size + b'"}',
    ],
    ids=["many values", "wide text", "many members", "deep", "one more member"],
)
def test_hostile_bodies_take_a_few_times_their_size(fill: Any) -> None:
    body = fill(1_000_000)
    tracemalloc.start()
    try:
        assert refusal_of(lambda: parse_result_body(body)) is not None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 14 * len(body), peak


def test_the_largest_result_that_the_peer_takes_is_read() -> None:
    """All tasks and all events it allows, each event as short as can be."""
    tasks = {f"t{at:03}": [((at + trial) % 3) / 2 for trial in range(30)] for at in range(512)}
    record = build_score_record(eval_run_id="eval-run-p1", policy=MEAN_OFF, trials=tasks)
    value = request()
    value["score_record"] = record.model_dump(mode="json")
    entry = {"imr": 0, "event_type": 1, "digest": "ab" * 48, "event": "x", "event_payload": ""}
    value["execution_proof"]["attestation"]["event_log"] = [entry] * 4096
    body = canonical.encode(redigested(value))
    read = parse_result_body(body)
    assert (len(read.score_record.tasks), len(read.execution_proof.attestation.event_log)) == (512, 4096)
    assert read.canonical() == body
