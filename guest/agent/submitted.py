"""A submitted agent as a trial knows it: an agent host of its own for each agent phase."""

from __future__ import annotations

from guest.agent.archive import AgentPackage
from guest.agent.host import CPUS, MEMORY_BYTES, AgentHost, HostImage
from guest.tasks.task import Task
from guest.trial.agent import Seat
from guest.trial.environment import Environment


class SubmittedAgent:
    """Runs a package in a fresh agent host each time."""

    kind = "submitted"
    memory_bytes = MEMORY_BYTES
    cpus = CPUS

    def __init__(self, package: AgentPackage, image: HostImage) -> None:
        """Take a package that keeps every limit, and the image its hosts run."""
        self.sha256: str | None = package.sha256
        self._package = package
        self._image = image

    def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:  # noqa: ARG002 - sealed
        """Let the agent act; it sees the instruction and its environment, nothing else of the task."""
        with AgentHost(seat, self._image, self._package, env={"EVALGUEST_PROBE": seat.probe}) as host:
            host.run(instruction, environment)

    def prepare(self, seat: Seat) -> None:
        """Construct the agent once in a host that is thrown away, so that a broken one costs no job.

        Raises Refused(AGENT_LOAD_FAILED) and whatever else a host can end with.
        """
        with AgentHost(seat, self._image, self._package, env={}):
            pass
