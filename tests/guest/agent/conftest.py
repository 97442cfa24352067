"""A bench for agents: source text in, what it did and how it ended out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from guest.agent.archive import AgentPackage, PackageFile
from guest.agent.host import AgentHost, HostImage
from guest.agent.requests import UsageReport
from guest.errors import EvalguestError
from guest.reason import Reason
from guest.trial.agent import Seat
from guest.trial.engine import Engine
from guest.trial.environment import Environment

HEAD = """\
import asyncio, os, sys, time
class Agent:
    async def run(self, instruction, environment, context):
"""


@dataclass(frozen=True)
class Ended:
    """How an agent ended: the error, if any, and what it printed and said."""

    error: EvalguestError | None
    log: str
    usage: UsageReport | None
    seat: Seat

    @property
    def reason(self) -> Reason | None:
        return self.error.reason if self.error else None


RunAgent = Callable[..., Ended]


@pytest.fixture
def seat(engine: Engine, run_id: str) -> Seat:
    return Seat(engine, run_id, "task__r1", "", threading.Event())


@pytest.fixture
def run_agent(seat: Seat, base_image: str, task_container: str) -> RunAgent:
    """Run an agent of one or more files against a task container. `body` is that of `run`, as a short form."""

    def run(source: str = "", *, body: str = "", files: dict[str, bytes] | None = None, seconds: float = 60) -> Ended:
        if body:
            lines = "\n        ".join(body.strip().splitlines())
            source = f"{HEAD}        {lines}\n"
        package = AgentPackage(
            {path: PackageFile(data) for path, data in {"agent.py": source.encode(), **(files or {})}.items()},
            "0" * 64,
            "0" * 64,
        )
        environment = Environment(
            seat.engine, task_container, workdir="/tmp", user=None, env={}, seconds=seconds, stop=seat.stop
        )
        error: EvalguestError | None = None
        host = AgentHost(seat, HostImage(base_image), package, env={})
        try:
            with host:
                host.run("Do it.", environment)
        except EvalguestError as caught:
            error = caught
        finally:
            environment.close()
        return Ended(error, bytes(seat.log.kept).decode(errors="replace"), host.usage, seat)

    return run
