"""Jobs: directories with a past, two at once, disks that fill, and runs that are killed at any moment."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from guest.errors import EnvironmentFault, EvalguestError, UsageFault
from guest.job.job import JobPlan, run_job
from guest.job.summary import JobSummary
from guest.reason import Reason
from guest.trial.agent import NopAgent
from guest.trial.engine import Engine
from tests.guest.job.conftest import MakePlan
from tests.tasks_made import make_task

pytestmark = pytest.mark.engine
TASKS = [make_task(f"task-{number}") for number in range(3)]


def _quiet(*_: object) -> None:
    pass


def _standing(engine: Engine, run_id: str) -> list[str]:
    label = {"label": f"evalguest={run_id}"}
    found = [str(row["Names"]) for row in engine.api.containers(all=True, filters=label)]
    found += [str(row["Name"]) for row in engine.api.networks(filters=label)]
    return found + [path.name for path in Path("/sys/fs/cgroup").glob(f"*/evalguest_{run_id}_*")]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    libc = ctypes.CDLL(None, use_errno=True)
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0 or libc.mount(b"none", str(place).encode(), b"tmpfs", 0, b"size=64k"):
        pytest.skip("needs root, to mount a small file system")
    yield place
    libc.umount2(str(place).encode(), 2)


def test_a_full_disk_ends_the_job_and_leaves_no_half_record(
    engine: Engine, make_plan: MakePlan, stop: threading.Event, run_id: str, small_disk: Path
) -> None:
    plan = make_plan(TASKS, NopAgent(), job_dir=small_disk / "job", k=3)
    with pytest.raises(EnvironmentFault) as caught:
        run_job(engine, plan, stop, _quiet)
    assert caught.value.reason is Reason.NO_SPACE
    assert "No space left" in caught.value.message
    assert _standing(engine, run_id) == []
    for record in plan.job_dir.glob("trials/*/record.json"):
        assert record.read_text().endswith("}\n")
    assert list(plan.job_dir.rglob(".*.tmp")) == []


def test_trials_of_somebody_else_are_not_taken_for_ours(
    engine: Engine, make_plan: MakePlan, stop: threading.Event, run_id: str
) -> None:
    plan = make_plan(TASKS)
    planted = plan.job_dir / "trials" / "task-0__r1" / "record.json"
    planted.parent.mkdir(parents=True)
    planted.write_text('{"reward": 1.0}')
    with pytest.raises(UsageFault):
        run_job(engine, plan, stop, _quiet)
    assert [path.name for path in plan.job_dir.rglob("*") if path.is_file()] == ["record.json"]
    assert _standing(engine, run_id) == []


def test_one_directory_takes_one_of_two_jobs(
    engine: Engine, make_plan: MakePlan, stop: threading.Event, run_id: str
) -> None:
    plan = make_plan(TASKS[:1])
    start = threading.Barrier(2)

    def run(_: int) -> JobSummary:
        start.wait()
        return run_job(engine, plan, stop, _quiet)

    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(run, number) for number in range(2)]
    errors = [end.exception() for end in ends]
    [refused] = [error for error in errors if error is not None]
    assert isinstance(refused, EvalguestError)
    assert refused.reason in {Reason.JOB_BUSY, Reason.USAGE}  # the other one is at work, or has ended already
    assert _standing(engine, run_id) == []


def test_two_jobs_side_by_side_do_not_disturb_each_other(
    engine: Engine, make_plan: MakePlan, stop: threading.Event, run_id: str, tmp_path: Path
) -> None:
    plans: list[JobPlan] = [
        make_plan(TASKS[:2], run_id=f"{run_id}{name}", job_dir=tmp_path / name, n=1) for name in "ab"
    ]
    with ThreadPoolExecutor(2) as pool:
        summaries = list(pool.map(lambda plan: run_job(engine, plan, stop, _quiet), plans))
    assert [summary.passed_tasks for summary in summaries] == [2, 2]
    assert [_standing(engine, plan.run_id) for plan in plans] == [[], []]
