"""Many trials in a row leak nothing."""

import resource
import threading
from pathlib import Path

import pytest

from guest.job.job import run_job
from guest.trial.engine import Engine
from tests.guest.job.conftest import MakePlan
from tests.tasks_made import BUDGET, make_task

PASSES = make_task("passes", test="echo 1 > /logs/verifier/reward.txt")
NETWORKED = make_task("networked", test="echo 1 > /logs/verifier/reward.txt")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.engine
@pytest.mark.soak
def test_two_hundred_trials_leak_no_network_descriptor_or_memory(
    engine: Engine, make_plan: MakePlan, stop: threading.Event, run_id: str, tmp_path: Path
) -> None:
    budgets = {"passes": BUDGET, "networked": BUDGET.model_copy(update={"network": "both"})}

    def trials(number: int, name: str) -> None:
        plan = make_plan([PASSES, NETWORKED], k=number // 2, budgets=budgets, job_dir=tmp_path / name)
        assert run_job(engine, plan, stop, lambda *_: None).job_score == 1.0

    trials(20, "warm")
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    memory = resident_bytes()
    trials(200, "soak")
    assert engine.api.networks(filters={"label": f"evalguest={run_id}"}) == []
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors
    assert resident_bytes() - memory < 8 << 20
