"""The bench for single trials, borrowed; each test here is one attack."""

from tests.guest.trial.conftest import run_trial, slot

__all__ = ["run_trial", "slot"]
