"""Our own tasks are honest: the solution scores 1, doing nothing 0, and so does each plausible wrong solution."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from guest.errors import Refused
from guest.job.admission import Capacity
from guest.job.job import JobPlan, run_job
from guest.job.summary import JobSummary
from guest.tasks.budgets import budget_for
from guest.tasks.cache import TaskCache, load_cache
from guest.tasks.task import Task
from guest.trial.agent import Agent, NopAgent, OracleAgent, ReferenceAgent, Seat
from guest.trial.engine import Engine
from guest.trial.environment import Environment
from guest.trial.holder import HolderImage
from guest.trial.image import ImageFailure, ResolvedImage
from guest.trial.tarstream import TarFile
from image.task_images import bake

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = load_cache(CHECKOUT / "task-cache")
WRONG = CHECKOUT / "tests" / "tasks"

Images = dict[str, ResolvedImage | ImageFailure]
RunAll = Callable[[Agent, Sequence[Task]], JobSummary]


SCRIPTS = {task_id: sorted((WRONG / task_id / "wrong").glob("*.sh")) for task_id in CACHE.tasks}


class WrongAgent(ReferenceAgent):
    """Runs another script in place of each task's solution: the one of that number."""

    kind = "wrong"

    def __init__(self, number: int) -> None:
        self.number = number

    def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:
        script = SCRIPTS[task.task_id][self.number].read_bytes()
        others = {path: TarFile(file.data) for path, file in task.subtree("solution").items()}
        environment.put("/solution", {**others, "solve.sh": TarFile(script, 0o755)})
        environment.exec("bash /solution/solve.sh")


@pytest.fixture(scope="module")
def images(engine: Engine, base_image: str) -> Images:
    assert base_image
    return bake(
        engine.api,
        list(CACHE.tasks.values()),
        pins=CACHE.image_pins,
        say=lambda *_: None,
        stop=threading.Event(),
    )


@pytest.fixture
def run_all(engine: Engine, base_image: str, images: Images, tmp_path: Path) -> RunAll:
    numbers = iter(range(100))

    def run(agent: Agent, tasks: Sequence[Task]) -> JobSummary:
        plan = JobPlan(
            job_dir=tmp_path / str(next(numbers)),
            tasks=tasks,
            budgets={
                task.task_id: budget_for(task.definition, CACHE.budgets.get(task.task_id), attested=False, chosen=False)
                for task in tasks
            },
            images=images,
            agent=agent,
            k=1,
            n=engine.info.cpus,
            capacity=Capacity.of(engine.info),
            holder_image=HolderImage(base_image),
        )
        return run_job(engine, plan, threading.Event(), lambda *_: None)

    return run


def outcomes(summary: JobSummary) -> dict[str, tuple[float | None, str]]:
    return {task.task_id: (task.score, task.trials[0].message) for task in summary.tasks}


@pytest.mark.engine
def test_the_reference_solution_scores_one(run_all: RunAll) -> None:
    found = outcomes(run_all(OracleAgent(), list(CACHE.tasks.values())))
    assert {task_id: score for task_id, (score, _) in found.items()} == dict.fromkeys(CACHE.tasks, 1.0), found


@pytest.mark.engine
def test_doing_nothing_scores_zero(run_all: RunAll) -> None:
    found = outcomes(run_all(NopAgent(), list(CACHE.tasks.values())))
    assert {task_id: score for task_id, (score, _) in found.items()} == dict.fromkeys(CACHE.tasks, 0.0), found


@pytest.mark.engine
@pytest.mark.parametrize("number", range(max(len(scripts) for scripts in SCRIPTS.values())))
def test_wrong_solutions_score_zero(run_all: RunAll, number: int) -> None:
    chosen = [task for task_id, task in CACHE.tasks.items() if len(SCRIPTS[task_id]) > number]
    summary = run_all(WrongAgent(number), chosen)
    # The verifier itself must have said no; a trial that broke would score 0 as well.
    accepted = {
        SCRIPTS[task.task_id][number].name: (trial.reward, trial.outcome, trial.message)
        for task in summary.tasks
        for trial in task.trials
        if (trial.reward, trial.outcome, trial.reason_code) != (0.0, "failed", None)
    }
    assert accepted == {}


def test_each_task_has_at_least_three_wrong_solutions() -> None:
    counts = {task_id: len(scripts) for task_id, scripts in SCRIPTS.items()}
    assert len(counts) >= 10
    assert {task_id: count for task_id, count in counts.items() if count < 3} == {}


def test_each_task_is_pinned_budgeted_and_without_network() -> None:
    assert not CACHE.refused
    assert CACHE.manifest is not None
    assert set(CACHE.manifest.digests) == set(CACHE.tasks) == set(CACHE.budgets)
    assert {task_id for task_id, budget in CACHE.budgets.items() if budget.network != "none"} == set()
    assert {task_id for task_id, task in CACHE.tasks.items() if task.definition.network != "none"} == set()


def test_each_dockerfile_starts_from_the_pinned_base(base_image: str) -> None:
    for task in CACHE.tasks.values():
        assert task.subtree("environment")["Dockerfile"].data.decode().startswith(f"FROM {base_image}\n"), task.task_id


def test_a_changed_task_is_refused_by_name(tmp_path: Path) -> None:
    copy = tmp_path / "cache"
    for name in ("manifest.json", "budgets.json"):
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_bytes((CHECKOUT / "task-cache" / name).read_bytes())
    task_id = min(CACHE.tasks)
    for other, task in CACHE.tasks.items():
        for path, file in task.files.items():
            target = copy / "tasks" / other / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.data + (b"\n" if (other, path) == (task_id, "instruction.md") else b""))
    changed: TaskCache = load_cache(copy)
    with pytest.raises(Refused) as caught:
        changed.select([task_id])
    assert task_id in caught.value.message
    assert len(changed.tasks) == len(CACHE.tasks) - 1
