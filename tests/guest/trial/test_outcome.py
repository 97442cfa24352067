"""Whose failure a reason is."""

from __future__ import annotations

import pytest

from guest.reason import Reason, Stage
from guest.trial.outcome import INFRASTRUCTURE, Ending, Outcome, ending_for


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.stage in {Stage.TRIAL, Stage.GATE}])
def test_what_goes_wrong_in_a_trial_scores_0(reason: Reason) -> None:
    ending = ending_for(reason, "why")
    assert ending.outcome not in INFRASTRUCTURE
    assert (ending.reward, ending.reason, ending.message) == (0.0, reason, "why")


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.stage not in {Stage.TRIAL, Stage.GATE}])
def test_any_other_reason_leaves_no_score(reason: Reason) -> None:
    assert ending_for(reason, "why") == Ending(Outcome.INFRA_ERROR, None, reason, "why")


def test_an_ending_without_a_reward_is_infrastructure() -> None:
    with pytest.raises(ValueError, match="cannot have the reward"):
        Ending(Outcome.FAILED, None)
    with pytest.raises(ValueError, match="cannot have the reward"):
        Ending(Outcome.INFRA_ERROR, 0.0)
