"""The plan of one trial, what becomes known while it runs, and the record made of both."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass, field
from pathlib import Path

from guest.tasks.budgets import Budget
from guest.tasks.task import Task
from guest.trial.agent import Agent
from guest.trial.cgroup import MemoryUse, Throttling
from guest.trial.image import ImageFailure, ResolvedImage
from guest.trial.outcome import Ending
from guest.trial.record import (
    AgentIdentity,
    Container,
    Cpu,
    Grading,
    ImageIdentity,
    Log,
    Memory,
    Probe,
    TrialRecord,
    Wall,
)
from guest.trial.slot import Slot

MESSAGE_KEEP = 2000


@dataclass(frozen=True)
class TrialPlan:
    """What one trial is: a task, its budget and image, which repetition (from 1), and where its files go.

    A trial whose image could not be had is run all the same: its record says so. `probe` is what a submitted agent's
    host leaves in the container, empty for the reference agents.
    """

    run_id: str
    task: Task
    budget: Budget
    image: ResolvedImage | ImageFailure
    repetition: int
    directory: Path
    probe: str = ""

    @property
    def trial_id(self) -> str:
        """Give the trial's name, also that of its directory."""
        return f"{self.task.task_id}__r{self.repetition}"

    @property
    def needs_network(self) -> bool:
        """Say whether any phase of the trial has a network."""
        return self.budget.network != "none"


@dataclass
class Course:
    """What is known so far of a running trial. CPU and wall in seconds, each None until measured.

    `hosts` are the ids of the agent hosts that run now, `host_cpu` the last readings where each is read by itself.
    """

    began: float = field(default_factory=time.monotonic)
    started_at: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
    container_id: str | None = None
    holder_id: str | None = None
    hosts: list[str] = field(default_factory=list)
    host_cpu: dict[str, float] = field(default_factory=dict)
    agent_wall: float | None = None
    verifier_wall: float | None = None
    cpu_start: float | None = None
    agent_cpu: float | None = None
    verifier_cpu: float | None = None
    cpu_final: bool = False
    throttling: Throttling = field(default_factory=lambda: Throttling(None, None))
    memory: MemoryUse = field(default_factory=lambda: MemoryUse(None, None))
    first_process_time: int | None = None
    running_at_end: bool | None = None
    removed: bool = True
    grading: Grading | None = None
    probe: Probe | None = None
    logs: list[Log] = field(default_factory=list)

    def record(self, plan: TrialPlan, agent: Agent, slot: Slot, ending: Ending) -> TrialRecord:
        """Make the trial's record; its overhead is the time until now beyond both phases."""
        overhead = time.monotonic() - self.began - (self.agent_wall or 0) - (self.verifier_wall or 0)
        return TrialRecord(
            run_id=plan.run_id,
            trial_id=plan.trial_id,
            task_id=plan.task.task_id,
            repetition=plan.repetition,
            agent=AgentIdentity(kind=agent.kind, sha256=agent.sha256),
            tree_digest=plan.task.tree_digest,
            image=image_identity(plan.image),
            isolation=plan.budget.isolation,
            network=plan.budget.network,
            gateway_filtered=slot.gateway_filtered if plan.needs_network else None,
            outcome=ending.outcome,
            reason_code=ending.reason,
            message=ending.message[:MESSAGE_KEEP],
            reward=ending.reward,
            grading=self.grading,
            probe=self.probe,
            started_at=self.started_at,
            cpu=Cpu(
                agent_budget_sec=plan.budget.agent_cpu_sec,
                verifier_budget_sec=plan.budget.verifier_cpu_sec,
                agent_sec=self.agent_cpu,
                verifier_sec=self.verifier_cpu,
                source=slot.cgroup.source,
                final=self.cpu_final,
                throttled_periods=self.throttling.periods,
                throttled_sec=self.throttling.seconds,
            ),
            wall=Wall(agent_sec=self.agent_wall, verifier_sec=self.verifier_wall, overhead_sec=max(0.0, overhead)),
            memory=Memory(
                limit_bytes=plan.task.definition.memory_mb << 20,
                peak_bytes=self.memory.peak_bytes,
                oom_kills=self.memory.oom_kills,
            ),
            container=Container(
                container_id=self.container_id,
                holder_id=self.holder_id,
                running_at_end=self.running_at_end,
                removed=self.removed,
            ),
            logs=tuple(self.logs),
        )


def image_identity(image: ResolvedImage | ImageFailure) -> ImageIdentity | None:
    """Give what a record says of an image, None for one that could not be had."""
    if isinstance(image, ImageFailure):
        return None
    return ImageIdentity(ref=image.ref, image_id=image.image_id, kind=image.kind, source=image.source, note=image.note)
