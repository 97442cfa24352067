"""A bench for single trials: one slot, the base image as every task's image."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guest.tasks.task import Task
from guest.trial.agent import Agent, ReferenceAgent, Seat
from guest.trial.course import TrialPlan
from guest.trial.engine import Engine
from guest.trial.environment import Environment
from guest.trial.holder import HolderImage
from guest.trial.image import ImageFailure, ResolvedImage
from guest.trial.lifecycle import Trial
from guest.trial.record import TrialRecord
from guest.trial.slot import Slot
from tests.tasks_made import BUDGET


class Script(ReferenceAgent):
    """An agent that runs one command and says what it saw."""

    kind = "script"

    def __init__(self, command: str) -> None:
        self.command = command
        self.saw = ""

    def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:
        self.saw = environment.exec(self.command).stdout or ""
        seat.log.add(self.saw.encode())


RunTrial = Callable[..., TrialRecord]


@pytest.fixture
def slot(engine: Engine, holder_image: HolderImage, run_id: str) -> Iterator[Slot]:
    made = Slot(engine, holder_image, run_id, 0)
    yield made
    made.close()


@pytest.fixture
def run_trial(
    engine: Engine, slot: Slot, base_image: str, run_id: str, stop: threading.Event, tmp_path: Path
) -> RunTrial:
    """Run one trial of a task and give its record; keywords change the budget."""
    numbers = iter(range(1, 100))

    def run(
        task: Task, agent: Agent | str, *, image: ResolvedImage | ImageFailure | None = None, **changes: Any
    ) -> TrialRecord:
        budget = BUDGET.model_copy(update=changes)
        inspected = engine.api.inspect_image(base_image)["Id"]
        plan = TrialPlan(
            run_id=run_id,
            task=task,
            budget=budget,
            image=image or ResolvedImage(inspected, base_image, "id", "present", "/srv"),
            repetition=next(numbers),
            directory=tmp_path / "trial",
        )
        actor = Script(agent) if isinstance(agent, str) else agent
        record = Trial(engine, slot, plan, actor, stop).run()
        running = engine.api.containers(all=True, filters={"label": [f"evalguest={run_id}", "evalguest.role=task"]})
        assert running == []
        return record

    return run
