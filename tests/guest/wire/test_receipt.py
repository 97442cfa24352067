"""Receipts: their closed form, and flags that must say what the phase says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from guest.reason import Reason
from guest.wire.receipt import Receipt, check_receipt
from scripts.conformance.vectors import mutate
from tests.guest.wire.records import leaves, valid, vectors, without
from tests.guest.wire.values import ANY_VALUES, refusal_of

SECTION: dict[str, Any] = vectors()["baseline"]["receipt"]


def receipt(**members: Any) -> dict[str, Any]:
    return {**valid("receipt"), **members}


def checked(value: dict[str, Any]) -> Any:
    read = Receipt.parse(value)
    return refusal_of(lambda: check_receipt(read, eval_run_id="eval-run-p1", body_sha256=receipt()["body_sha256"]))


@pytest.mark.parametrize("vector", SECTION["valid"], ids=lambda v: v["name"])
def test_published_receipts(vector: dict[str, Any]) -> None:
    assert Receipt.parse(vector["input"]).model_dump() == vector["input"]
    assert checked(vector["input"]) is None


@pytest.mark.parametrize("vector", SECTION["invalid"], ids=lambda v: v["name"])
def test_published_invalid_receipts(vector: dict[str, Any]) -> None:
    refusal = refusal_of(lambda: Receipt.parse(mutate(valid("receipt"), vector["mutation"])))
    assert refusal is not None
    assert refusal.reason is Reason.RECEIPT_MALFORMED
    assert refusal.pointer == "/" + "/".join(map(str, vector["mutation"]["path"]))


@pytest.mark.parametrize("version", [True, 1.0, 2, "1", None])
def test_only_1_is_version_1(version: object) -> None:
    assert refusal_of(lambda: Receipt.parse(receipt(schema_version=version))) is not None


def test_every_member_must_be_there() -> None:
    for path in leaves(receipt()):
        assert refusal_of(lambda path=path: Receipt.parse(without(receipt(), path))) is not None  # type: ignore[misc]


VERDICTS = [("received", False, False), ("verifying", False, False), ("verifier_unavailable", False, False)]
VERDICTS += [("verified", True, True), ("rejected", True, False)]


@pytest.mark.parametrize(("phase", "terminal", "verified"), VERDICTS)
def test_flags_must_fit_the_phase(phase: str, terminal: bool, verified: bool) -> None:
    assert checked(receipt(phase=phase, terminal=terminal, verified=verified)) is None
    wrong = checked(receipt(phase=phase, terminal=not terminal, verified=verified))
    assert (wrong.reason, wrong.pointer) == (Reason.RECEIPT_MALFORMED, "/terminal")
    wrong = checked(receipt(phase=phase, terminal=terminal, verified=not verified))
    assert (wrong.reason, wrong.pointer) == (Reason.RECEIPT_MALFORMED, "/verified")


def test_a_receipt_of_another_run_or_body_is_refused() -> None:
    assert checked(receipt(eval_run_id="other")).pointer == "/eval_run_id"
    assert checked(receipt(body_sha256="ab" * 32)).pointer == "/body_sha256"


@given(ANY_VALUES)
def test_no_value_crashes_it(value: Any) -> None:
    assert refusal_of(lambda: Receipt.parse(value)) is not None
