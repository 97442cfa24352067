"""Scoring policies: their closed form, and members that must fit the way tasks are kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from guest.reason import Reason
from guest.wire.policy import MEAN_OFF, ScoringPolicy
from tests.conformance.vectors import baseline
from tests.guest.wire.values import ANY_VALUES, refusal_of


@pytest.mark.parametrize("vector", baseline("scoring_policy"), ids=lambda v: v["name"])
def test_published_policies(vector: dict[str, Any]) -> None:
    if "reject" in vector:
        refusal = refusal_of(lambda: ScoringPolicy.parse(vector["input"]))
        assert refusal is not None
        assert refusal.reason is Reason.POLICY_MALFORMED
    else:
        policy = ScoringPolicy.parse(vector["input"])
        assert policy.canonical().hex() == vector["expected"]["canonical_json_hex"]
        assert policy.canonical_digest() == vector["expected"]["digest"]


def test_the_usual_policy_has_its_published_digest() -> None:
    assert MEAN_OFF.canonical_digest() == "cb400ff5278105d9b5fdfbd562385a962103108a6c70ccb1ed86ccdc60a5af84"


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"drop_lowest_n": 1}, "/drop_lowest_n"),
        ({"keep_policy": "threshold_band"}, "/threshold_f64be"),
        ({"threshold_f64be": "3fe0000000000000"}, "/threshold_f64be"),
        ({"keep_policy": "drop_lowest_n", "drop_lowest_n": True}, "/drop_lowest_n"),
        ({"schema_version": 1.0}, "/schema_version"),
        ({"per_task_aggregation": "best-of-k"}, "/per_task_aggregation"),
    ],
)
def test_a_refusal_names_the_member(members: dict[str, Any], pointer: str) -> None:
    refusal = refusal_of(lambda: ScoringPolicy.parse({**MEAN_OFF.model_dump(), **members}))
    assert refusal is not None
    assert refusal.pointer == pointer


@given(ANY_VALUES)
def test_no_value_crashes_it(value: Any) -> None:
    assert refusal_of(lambda: ScoringPolicy.parse(value)) is not None
