"""What an agent is to a trial, and the two reference agents.

`oracle` runs the task's own solution, `nop` does nothing.
"""

from __future__ import annotations

from typing import Protocol

from guest.tasks.task import Task
from guest.trial.environment import Environment
from guest.trial.tarstream import TarFile


class Agent(Protocol):
    """Something that is given an instruction and an environment handle.

    `kind` names it in records; `sha256` is the hash of the submitted archive, None for the reference agents. `run`
    gives its log; whatever it raises is the agent's failure, never the runner's.
    """

    kind: str
    sha256: str | None

    def run(self, task: Task, instruction: str, environment: Environment) -> str:
        """Act on the task through `environment` until done."""
        ...


class NopAgent:
    """Does nothing; every honest task scores it 0."""

    kind = "nop"
    sha256: str | None = None

    def run(self, task: Task, instruction: str, environment: Environment) -> str:  # noqa: ARG002 - it does nothing
        """Do nothing."""
        return ""


class OracleAgent:
    """Runs the reference solution, as Harbor does: `solution/` to `/solution`, then `solve.sh` through bash.

    The exit status is only logged: the verifier decides.
    """

    kind = "oracle"
    sha256: str | None = None

    def run(self, task: Task, instruction: str, environment: Environment) -> str:  # noqa: ARG002 - it knows the answer
        """Upload the solution and run it."""
        files = {
            path: TarFile(file.data, 0o755 if file.executable or path == "solve.sh" else 0o644)
            for path, file in task.subtree("solution").items()
        }
        environment.put("/solution", files)
        result = environment.exec(
            "bash /solution/solve.sh", env={"DEBIAN_FRONTEND": "noninteractive", **task.definition.solution_env}
        )
        return f"{result.stdout or ''}\n[solve.sh ended with {result.return_code}]\n"
