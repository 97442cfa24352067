"""What quotes bind, and that one purpose never serves another."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from guest.reason import Reason
from guest.wire.binding import (
    KEY_RELEASE_DOMAIN,
    SCORE_DOMAIN,
    KeyReleaseBinding,
    ScoreBinding,
    check_key_release_binding,
    check_score_binding,
    key_release_binding_for,
    score_binding_for,
)
from guest.wire.plan import parse_plan
from guest.wire.refusal import WireRefused
from tests.conformance.vectors import baseline
from tests.guest.wire.records import plan, request
from tests.guest.wire.values import refusal_of

SCORE, KEY = baseline("score_binding"), baseline("key_release_binding")


def score_binding(given: dict[str, Any]) -> ScoreBinding:
    return ScoreBinding.parse({"domain": SCORE_DOMAIN, "schema_version": 2, **given})


def key_binding(given: dict[str, Any]) -> KeyReleaseBinding:
    return KeyReleaseBinding.parse({"domain": KEY_RELEASE_DOMAIN, "schema_version": 2, **given})


@pytest.mark.parametrize(
    ("make", "vector"),
    [(score_binding, v) for v in SCORE] + [(key_binding, v) for v in KEY],
    ids=[v["name"] for v in SCORE + KEY],
)
def test_published_bindings(make: Any, vector: dict[str, Any]) -> None:
    if "reject" in vector:
        assert refusal_of(lambda: make(vector["input"])) is not None
        return
    binding = make(vector["input"])
    assert binding.canonical().hex() == vector["expected"]["canonical_json_hex"]
    assert binding.canonical_digest() == vector["expected"]["digest_sha256"]
    assert binding.report_data() == vector["expected"]["report_data_hex"]


def test_the_plan_s_binding_is_what_its_result_carries() -> None:
    made = score_binding_for(parse_plan(plan()), request()["scores_digest"])
    assert made.report_data() == request()["execution_proof"]["attestation"]["report_data"]


def test_a_key_release_binds_the_key_that_asks() -> None:
    read = parse_plan(plan())
    made = key_release_binding_for(read, b"spki")
    assert made.ra_tls_spki_digest == sha256(b"spki").hexdigest()
    assert made.report_data() != key_release_binding_for(read, b"other").report_data()


@pytest.mark.parametrize("domain", [KEY_RELEASE_DOMAIN, "base-agent-challenge-v1 ", "", "base-agent-challenge-v2"])
def test_a_score_binding_of_another_domain_is_refused(domain: str) -> None:
    with pytest.raises(WireRefused) as refusal:
        score_binding({**SCORE[0]["input"], "domain": domain})
    assert (refusal.value.reason, refusal.value.pointer) == (Reason.BINDING_MALFORMED, "/domain")


def test_a_binding_of_no_task_or_no_key_is_refused_though_the_peer_takes_it() -> None:
    empty = next(v for v in SCORE if v["name"] == "empty_task_list")
    with pytest.raises(WireRefused, match="at least one task"):
        check_score_binding(score_binding(empty["input"]))
    unset = next(v for v in KEY if v["name"] == "empty_key_spki")
    with pytest.raises(WireRefused, match="not of no bytes"):
        check_key_release_binding(key_binding(unset["input"]))
    with pytest.raises(WireRefused, match="not of no bytes"):
        key_release_binding_for(parse_plan(plan()), b"")


def test_tasks_out_of_order_are_pointed_at() -> None:
    given = {**SCORE[0]["input"], "task_ids": ["b", "a"]}
    with pytest.raises(WireRefused) as refusal:
        score_binding(given)
    assert refusal.value.pointer == "/task_ids/1"
