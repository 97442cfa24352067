"""`scripts/bench budget`: how far a CPU budget is overshot, how true the CPU figures are, what an agent host costs."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from guest.agent.archive import AgentPackage, PackageFile
from guest.agent.host import HostImage
from guest.agent.submitted import SubmittedAgent
from guest.errors import EnvironmentFault
from guest.job.admission import Capacity
from guest.job.job import JobPlan, run_job
from guest.job.summary import TrialSummary
from guest.reason import Reason
from guest.tasks.task import Task
from guest.trial.agent import Agent, ReferenceAgent, Seat
from guest.trial.environment import Environment
from scripts.benches.figures import Figure
from scripts.benches.trivial_task import TrivialTask, trivial_task

BUDGET_SEC = 1.0
KNOWN_SEC = 2.0
_SPIN = "python3 -c 'while True: pass'"
_KNOWN = f"python3 -c 'import time\nwhile time.process_time() < {KNOWN_SEC}: pass'"
_HEAD = "import time\nclass Agent:\n    async def run(self, instruction, environment, context):\n        "


class _Command(ReferenceAgent):
    """Runs one command in the task container."""

    kind = "bench"

    def __init__(self, command: str) -> None:
        self._command = command

    def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:  # noqa: ARG002 - fixed
        """Run it."""
        environment.exec(self._command)


def measure_budget(*, rounds: int = 10) -> list[Figure]:
    """Run agents that spin past their budget, one that uses a known time, and one that does nothing."""
    trivial = trivial_task()
    two = replace(trivial, task=_with_cpus(trivial.task, 2.0))
    host = HostImage(trivial.holder_image.ref)
    spinning, idle = _submitted("while True: pass", host), _submitted("await environment.exec('true')", host)
    over = "target: at most 0.25"
    figures = [
        Figure("overshoot_1_cpu_s", "s", _overshoots(trivial, _Command(_SPIN), rounds), over),
        Figure("overshoot_2_cpus_s", "s", _overshoots(two, _Command(f"{_SPIN} & {_SPIN} & wait"), rounds), over),
        Figure("overshoot_agent_host_s", "s", _overshoots(trivial, spinning, rounds), over),
    ]
    known = [_agent_sec(trial) - KNOWN_SEC for trial in _trials(trivial, _Command(_KNOWN), rounds, cpu=60.0)]
    figures.append(Figure("known_cpu_error_s", "s", known, f"of {KNOWN_SEC:g} s used; starting the command counts too"))
    for name, agent in (("submitted_trial_s", idle), ("reference_trial_s", _Command("true"))):
        walls = [
            trial.wall.overhead_sec + (trial.wall.agent_sec or 0) for trial in _trials(trivial, agent, rounds, cpu=60.0)
        ]
        figures.append(Figure(name, "s", walls, "all but the verifier; target with an agent host: at most 0.80"))
    return figures


def _overshoots(trivial: TrivialTask, agent: Agent, rounds: int) -> list[float]:
    return [_agent_sec(trial) - BUDGET_SEC for trial in _trials(trivial, agent, rounds, cpu=BUDGET_SEC)]


def _agent_sec(trial: TrialSummary) -> float:
    if trial.cpu.agent_sec is None:
        raise EnvironmentFault(Reason.TOOL_FAILED, f"{trial.trial_id} has no CPU figure: {trial.message}")
    return trial.cpu.agent_sec


def _trials(trivial: TrivialTask, agent: Agent, rounds: int, *, cpu: float) -> Sequence[TrialSummary]:
    task_id = trivial.task.task_id
    with tempfile.TemporaryDirectory(prefix="evalguest-bench-") as directory:
        plan = JobPlan(
            job_dir=Path(directory) / "job",
            tasks=[trivial.task],
            budgets={task_id: trivial.budget.model_copy(update={"agent_cpu_sec": cpu, "isolation": "isolated"})},
            images={task_id: trivial.image},
            agent=agent,
            k=rounds,
            n=1,
            capacity=Capacity(cpus=trivial.task.definition.cpus, memory_bytes=8 << 30),
            holder_image=trivial.holder_image,
        )
        return run_job(trivial.engine, plan, threading.Event(), lambda *_: None).tasks[0].trials


def _submitted(body: str, image: HostImage) -> SubmittedAgent:
    files = {"agent.py": PackageFile(f"{_HEAD}{body}\n".encode())}
    return SubmittedAgent(AgentPackage(files, "0" * 64, "0" * 64), image)


def _with_cpus(task: Task, cpus: float) -> Task:
    return replace(task, definition=task.definition.model_copy(update={"cpus": cpus}))
