"""What an agent is to a trial, and the two reference agents.

`oracle` runs the task's own solution, `nop` does nothing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Protocol

from guest.tasks.task import Task
from guest.trial.engine import Engine
from guest.trial.environment import Environment
from guest.trial.tarstream import TarFile

LOG_KEEP_BYTES = 1 << 20


class AgentLog:
    """What an agent printed and said: the last bytes of it, and how many there were."""

    def __init__(self) -> None:
        """Begin an empty log."""
        self.kept = bytearray()
        self.size = 0

    def add(self, text: bytes) -> None:
        """Append to the log; what is too much falls out at its beginning."""
        self.size += len(text)
        self.kept += text
        del self.kept[:-LOG_KEEP_BYTES]


@dataclass(frozen=True)
class Seat:
    """Where an agent acts from: engine, run and trial, the slot's cgroup, the switch that stops all, and its log.

    `probe` is the value to leave in the task container, empty for none. `hosts` holds the ids of the containers that
    the agent itself runs in, for whoever has to end them.
    """

    engine: Engine
    run_id: str
    trial_id: str
    cgroup_parent: str
    stop: threading.Event
    probe: str = ""
    log: AgentLog = field(default_factory=AgentLog)
    hosts: list[str] = field(default_factory=list)


class Agent(Protocol):
    """Something that is given an instruction and an environment handle.

    `kind` names it in records; `sha256` is the hash of the submitted archive, None for the reference agents;
    `memory_bytes` and `cpus` are what it takes beside its task container. Whatever `run` raises is the agent's failure,
    never the runner's.
    """

    kind: str
    sha256: str | None
    memory_bytes: int
    cpus: float

    def prepare(self, seat: Seat) -> None:
        """Find out before the first trial whether the agent can be constructed. Raises Refused when it cannot."""
        ...

    def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:
        """Act on the task through `environment` until done; the log goes to the seat's."""
        ...


class ReferenceAgent:
    """What the agents have in common that run in the orchestrator: nothing of a stranger is in them."""

    sha256: str | None = None
    memory_bytes = 0
    cpus = 0.0

    def prepare(self, seat: Seat) -> None:
        """Nothing can be wrong with it."""


class NopAgent(ReferenceAgent):
    """Does nothing; every honest task scores it 0."""

    kind = "nop"

    def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:
        """Do nothing."""


class OracleAgent(ReferenceAgent):
    """Runs the reference solution, as Harbor does: `solution/` to `/solution`, then `solve.sh` through bash.

    The exit status is only logged: the verifier decides.
    """

    kind = "oracle"

    def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:  # noqa: ARG002 - it knows
        """Upload the solution and run it."""
        files = {
            path: TarFile(file.data, 0o755 if file.executable or path == "solve.sh" else 0o644)
            for path, file in task.subtree("solution").items()
        }
        environment.put("/solution", files)
        result = environment.exec(
            "bash /solution/solve.sh", env={"DEBIAN_FRONTEND": "noninteractive", **task.definition.solution_env}
        )
        seat.log.add(f"{result.stdout or ''}\n[solve.sh ended with {result.return_code}]\n".encode(errors="replace"))
