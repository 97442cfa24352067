"""Progress: its closed form, and that nothing in it could be taken for a result."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from guest.reason import Reason
from guest.wire.progress import FORBIDDEN, ProgressReceipt, ProgressRequest
from scripts.conformance.vectors import mutate
from tests.guest.wire.records import valid, vectors
from tests.guest.wire.values import ANY_VALUES, refusal_of

LATER: dict[str, Any] = vectors()["later_revision"]


def progress(**members: Any) -> dict[str, Any]:
    return {**valid("progress_request", revision="later_revision"), **members}


@pytest.mark.parametrize(
    ("kind", "vector"),
    [(ProgressRequest, v) for v in LATER["progress_request"]["valid"]]
    + [(ProgressReceipt, v) for v in LATER["progress_receipt"]["valid"]],
)
def test_published_progress(kind: Any, vector: dict[str, Any]) -> None:
    made = kind.parse(vector["input"]).model_dump()
    assert json.dumps(made) == json.dumps(vector["expected"]["normalised"])


@pytest.mark.parametrize(
    ("kind", "section", "vector"),
    [(ProgressRequest, "progress_request", v) for v in LATER["progress_request"]["invalid"]]
    + [(ProgressReceipt, "progress_receipt", v) for v in LATER["progress_receipt"]["invalid"]],
    ids=lambda v: v["name"] if isinstance(v, dict) else "",
)
def test_published_invalid_progress(kind: Any, section: str, vector: dict[str, Any]) -> None:
    value = mutate(valid(section, revision="later_revision"), vector["mutation"])
    refusal = refusal_of(lambda: kind.parse(value))
    assert refusal is not None
    assert refusal.pointer == "/" + "/".join(map(str, vector["mutation"]["path"]))


@pytest.mark.parametrize("name", sorted(FORBIDDEN))
def test_what_looks_like_a_result_has_a_reason_of_its_own(name: str) -> None:
    refusal = refusal_of(lambda: ProgressRequest.parse(progress(**{name: None})))
    assert refusal is not None
    assert (refusal.reason, refusal.pointer) == (Reason.PROGRESS_SCORE_FORBIDDEN, f"/{name}")


@pytest.mark.parametrize(
    ("member", "value", "fits"),
    [
        ("progress", 0, True),
        ("progress", 1, True),
        ("progress", 1.0, True),
        ("progress", None, True),
        ("progress", -0.1, False),
        ("progress", float("nan"), False),
        ("progress", float("inf"), False),
        ("message", "é" * 8192, True),
        ("message", "é" * 8193, False),
        ("message", "\ud800", False),
        ("message", 7, False),
        ("sequence", 2**63 - 1, True),
        ("sequence", 2**63, False),
        ("schema_version", 1.0, False),
        ("event_type", None, False),
    ],
)
def test_bounds(member: str, value: object, fits: bool) -> None:
    assert (refusal_of(lambda: ProgressRequest.parse(progress(**{member: value}))) is None) == fits


@given(ANY_VALUES)
def test_no_value_crashes_it(value: Any) -> None:
    assert refusal_of(lambda: ProgressRequest.parse(value)) is not None
    assert refusal_of(lambda: ProgressReceipt.parse(value)) is not None
    refusal_of(lambda: ProgressRequest.parse(progress(progress=value, message=value)))
