"""The bench for single trials and jobs, borrowed; each test here is one attack."""

from tests.guest.agent.conftest import run_agent, seat
from tests.guest.job.conftest import make_plan
from tests.guest.trial.conftest import run_trial, slot

__all__ = ["make_plan", "run_agent", "run_trial", "seat", "slot"]
