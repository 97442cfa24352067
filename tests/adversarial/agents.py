"""Agents that attack: a function of the environment handle, or a C program compiled in the task container."""

from __future__ import annotations

from collections.abc import Callable

from guest.tasks.task import Task
from guest.trial.agent import ReferenceAgent, Seat
from guest.trial.environment import Environment
from guest.trial.tarstream import TarFile
from tests.tasks_made import make_task

# Verifiers that give 0, one of which leaves a rewriter time before and after it has spoken.
SLOW_ZERO = make_task("slow-zero", test="sleep 0.2; echo 0 > /logs/verifier/reward.txt; sleep 0.2")
ZERO = make_task("zero", test="echo 0 > /logs/verifier/reward.txt")
# Puts a whole forged reward in place of the true one, as fast as it can.
REWRITE = "while :; do echo 1 > /logs/forged && mv /logs/forged /logs/verifier/reward.txt; sleep 0.001; done"


class Attack(ReferenceAgent):
    """An agent that is one function."""

    kind = "attack"

    def __init__(self, act: Callable[[Environment], object]) -> None:
        self.act = act
        self.saw = ""

    def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:
        self.saw = str(self.act(environment) or "")
        seat.log.add(self.saw.encode())


def compiled(source: str, command: str = "/z") -> Attack:
    """Give an agent that compiles `source` to `/z` and runs `command`."""

    def act(environment: Environment) -> str | None:
        environment.put("/", {"z.c": TarFile(source.encode())})
        return environment.exec(f"gcc -O1 -pthread -w -o /z /z.c && {command}").stdout

    return Attack(act)
