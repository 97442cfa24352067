"""A bench for jobs: made tasks, the base image as their image, and the plan of a job over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from guest.job.admission import Capacity
from guest.job.job import JobPlan
from guest.tasks.task import Task
from guest.trial.agent import Agent, OracleAgent
from guest.trial.engine import Engine
from guest.trial.holder import HolderImage
from guest.trial.image import ResolvedImage
from tests.tasks_made import BUDGET

MakePlan = Callable[..., JobPlan]


@pytest.fixture
def make_plan(engine: Engine, base_image: str, run_id: str, tmp_path: Path) -> MakePlan:
    """Give the plan of a job over some tasks; keywords change it."""
    image = ResolvedImage(engine.api.inspect_image(base_image)["Id"], base_image, "id", "present", "/srv")

    def plan(tasks: Sequence[Task], agent: Agent | None = None, **changes: Any) -> JobPlan:
        values: dict[str, Any] = {
            "job_dir": tmp_path / "job",
            "tasks": tasks,
            "budgets": {task.task_id: BUDGET for task in tasks},
            "images": {task.task_id: image for task in tasks},
            "agent": agent or OracleAgent(),
            "k": 1,
            "n": 2,
            "capacity": Capacity(4.0, 8 << 30),
            "holder_image": HolderImage(base_image),
            "run_id": run_id,
        }
        return JobPlan(**{**values, **changes})

    return plan
