"""Outcome classes of a trial, and which reason leads to which.

Once agent code has run, a failure counts against the agent unless there is evidence from outside the container;
otherwise an agent could turn a losing trial into one that does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from guest.reason import Reason


class Outcome(StrEnum):
    """How a trial ended."""

    PASSED = "passed"
    FAILED = "failed"
    AGENT_TIMEOUT = "agent_timeout"
    CPU_EXCEEDED = "cpu_exceeded"
    AGENT_ERROR = "agent_error"
    VERIFIER_TIMEOUT = "verifier_timeout"
    REWARD_ERROR = "reward_error"
    INFRA_ERROR = "infra_error"
    VERIFIER_INFRA = "verifier_infra"


INFRASTRUCTURE = frozenset({Outcome.INFRA_ERROR, Outcome.VERIFIER_INFRA})


@dataclass(frozen=True)
class Ending:
    """A trial's outcome with its cause: `reward` is in 0..1, and None exactly for infrastructure outcomes."""

    outcome: Outcome
    reward: float | None
    reason: Reason | None = None
    message: str = ""

    def __post_init__(self) -> None:
        """Hold the invariant that only an infrastructure outcome has no reward."""
        if (self.reward is None) != (self.outcome in INFRASTRUCTURE):
            raise ValueError(f"{self.outcome} cannot have the reward {self.reward}")


_BY_REASON = {
    Reason.AGENT_TIMEOUT: Outcome.AGENT_TIMEOUT,
    Reason.AGENT_FAILED: Outcome.AGENT_ERROR,
    Reason.AGENT_LOAD_FAILED: Outcome.AGENT_ERROR,
    Reason.AGENT_HOST_ENDED: Outcome.AGENT_ERROR,
    Reason.AGENT_CHANNEL_BROKEN: Outcome.AGENT_ERROR,
    Reason.CPU_BUDGET_EXCEEDED: Outcome.CPU_EXCEEDED,
    Reason.WALL_BACKSTOP_EXCEEDED: Outcome.AGENT_TIMEOUT,
    Reason.CPU_UNREADABLE: Outcome.AGENT_ERROR,
    Reason.PROBE_NOT_OBSERVED: Outcome.AGENT_ERROR,
    Reason.PROBE_MISMATCH: Outcome.AGENT_ERROR,
    Reason.EVIDENCE_MISSING: Outcome.AGENT_ERROR,
    Reason.EVIDENCE_MALFORMED: Outcome.AGENT_ERROR,
    Reason.EVIDENCE_PLANE_MISSING: Outcome.AGENT_ERROR,
    Reason.AGENT_LEFT_PROCESSES: Outcome.AGENT_ERROR,
    Reason.CONTAINER_ENDED: Outcome.AGENT_ERROR,
    Reason.VERIFIER_INPUTS_UNCLEAN: Outcome.AGENT_ERROR,
    Reason.VERIFIER_TIMEOUT: Outcome.VERIFIER_TIMEOUT,
    Reason.REWARD_MISSING: Outcome.REWARD_ERROR,
    Reason.REWARD_EMPTY: Outcome.REWARD_ERROR,
    Reason.REWARD_MALFORMED: Outcome.REWARD_ERROR,
    Reason.REWARD_AMBIGUOUS: Outcome.REWARD_ERROR,
    Reason.REWARD_NOT_REGULAR: Outcome.REWARD_ERROR,
    Reason.REWARD_UNREADABLE: Outcome.REWARD_ERROR,
    Reason.REWARD_CONFLICT: Outcome.REWARD_ERROR,
    Reason.REPORT_MALFORMED: Outcome.REWARD_ERROR,
}


def ending_for(reason: Reason, message: str) -> Ending:
    """Give the ending for a trial that a reason stopped: a cause of the agent scores 0, any other is infrastructure."""
    outcome = _BY_REASON.get(reason, Outcome.INFRA_ERROR)
    return Ending(outcome, None if outcome in INFRASTRUCTURE else 0.0, reason, message)
