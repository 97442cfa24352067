"""Jobs on the real engine: order, concurrency, scores, files, and what stands afterwards."""

import json
import threading
import time
from pathlib import Path

import pytest

from guest.errors import EnvironmentFault, Refused, UsageFault
from guest.job.admission import Capacity
from guest.job.job import run_job
from guest.job.sweep import find_leftovers, remove_leftovers
from guest.reason import Reason
from guest.tasks.task import Task
from guest.trial.agent import ReferenceAgent, Seat
from guest.trial.engine import Engine
from guest.trial.environment import Environment
from guest.trial.holder import Holder, HolderImage
from guest.trial.image import ImageFailure
from guest.trial.outcome import Outcome
from guest.trial.record import TrialRecord
from tests.guest.job.conftest import MakePlan
from tests.tasks_made import BUDGET, make_task

pytestmark = pytest.mark.engine

PASSES = make_task("passes", test="echo 1 > /logs/verifier/reward.txt")
FAILS = make_task("fails", test="echo 0 > /logs/verifier/reward.txt")


class Watch:
    """Notes what a job reports and how many trials ran at once."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.most = 0
        self._running: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, trial_id: str, state: str, record: TrialRecord | None) -> None:
        with self._lock:
            self.events.append((trial_id, state))
            if state == "starting":
                self._running.add(trial_id)
            elif record is not None:
                self._running.discard(trial_id)
            self.most = max(self.most, len(self._running))


def standing(engine: Engine, run_id: str) -> list[str]:
    wanted = {"label": f"evalguest={run_id}"}
    return [
        *(row["Id"] for row in engine.api.containers(all=True, filters=wanted)),
        *(row["Id"] for row in engine.api.networks(filters=wanted)),
        *(row["Name"] for row in engine.api.volumes(filters=wanted)["Volumes"] or []),
        *(str(path) for path in Path("/sys/fs/cgroup").glob(f"*/evalguest_{run_id}_*")),
    ]


def test_scores_files_and_nothing_left(engine: Engine, make_plan: MakePlan, stop: threading.Event, run_id: str) -> None:
    watch = Watch()
    plan = make_plan([PASSES, FAILS], k=2)
    summary = run_job(engine, plan, stop, watch)
    assert (summary.job_score, summary.passed_tasks, summary.total_tasks) == (0.5, 1, 2)
    assert [(task.task_id, task.score) for task in summary.tasks] == [("passes", 1.0), ("fails", 0.0)]
    assert [trial.trial_id for trial in summary.tasks[0].trials] == ["passes__r1", "passes__r2"]
    starts = [trial_id for trial_id, state in watch.events if state == "starting"]
    # Repetitions outside, tasks inside.
    assert set(starts[:2]) == {"passes__r1", "fails__r1"}
    assert watch.most == 2
    assert standing(engine, run_id) == []
    assert json.loads((plan.job_dir / "summary.json").read_text()) == summary.model_dump(mode="json")
    events = [json.loads(line) for line in (plan.job_dir / "events.ndjson").read_text().splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["state"] for event in events} == {"starting", "agent", "verifying", "done", "recorded"}
    assert all("reward" not in event for event in events)
    assert json.loads((plan.job_dir / "job.json").read_text())["tasks"]["passes"]["budget"]["isolation"] == "isolated"


def test_reservations_hold_trials_back(engine: Engine, make_plan: MakePlan, stop: threading.Event) -> None:
    watch = Watch()
    run_job(engine, make_plan([PASSES, FAILS], k=2, n=4, capacity=Capacity(1.0, 8 << 30)), stop, watch)
    assert watch.most == 1


def test_a_task_without_image_leaves_the_job_without_score(
    engine: Engine, make_plan: MakePlan, stop: threading.Event
) -> None:
    plan = make_plan([PASSES, FAILS])
    failure = ImageFailure(Reason.IMAGE_UNAVAILABLE, "pull access denied for somebody/task")
    plan = make_plan([PASSES, FAILS], images={**plan.images, "fails": failure})
    summary = run_job(engine, plan, stop, Watch())
    assert (summary.job_score, summary.unscored_tasks) == (None, ("fails",))
    assert summary.tasks[0].score == 1.0
    assert summary.tasks[1].trials[0].outcome is Outcome.INFRA_ERROR
    assert summary.tasks[1].trials[0].message == "pull access denied for somebody/task"


def test_a_job_directory_is_used_once(engine: Engine, make_plan: MakePlan, stop: threading.Event) -> None:
    plan = make_plan([PASSES])
    plan.job_dir.mkdir()
    (plan.job_dir / "job.json").write_text("{}")
    with pytest.raises(UsageFault):
        run_job(engine, plan, stop, Watch())
    assert [path.name for path in plan.job_dir.iterdir()] == ["job.json"]


def test_stop_ends_running_trials_and_leaves_nothing(engine: Engine, make_plan: MakePlan, run_id: str) -> None:
    stop = threading.Event()

    class Sleeper(ReferenceAgent):
        kind = "sleeper"

        def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:
            threading.Timer(0.3, stop.set).start()
            environment.exec("sleep 1000")

    network = BUDGET.model_copy(update={"network": "both"})
    plan = make_plan([PASSES, FAILS], Sleeper(), k=3, budgets={"passes": BUDGET, "fails": network})
    began = time.monotonic()
    with pytest.raises(Refused) as caught:
        run_job(engine, plan, stop, Watch())
    assert caught.value.reason is Reason.INTERRUPTED
    assert time.monotonic() - began < 30
    assert standing(engine, run_id) == []
    assert not (plan.job_dir / "summary.json").exists()
    assert list((plan.job_dir / "trials").glob("*/record.json")) == []


def test_an_engine_without_the_holder_image_breaks_the_job_cleanly(
    engine: Engine, make_plan: MakePlan, stop: threading.Event, run_id: str
) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        run_job(engine, make_plan([PASSES], holder_image=HolderImage("evalguest-absent:1")), stop, Watch())
    assert "evalguest-absent:1" in caught.value.message
    assert standing(engine, run_id) == []


def test_sweep_takes_dead_runs_and_spares_living_ones(engine: Engine, holder_image: HolderImage, run_id: str) -> None:
    living = Holder(engine, holder_image, f"{run_id}live", f"evalguest-{run_id}live-h", network=True)
    dead = Holder(engine, holder_image, run_id, f"evalguest-{run_id}-h", network=True)
    try:
        dead._socket.shutdown(2)  # what the engine sees when an orchestrator dies
        engine.api.wait(dead.container_id, timeout=10)
        found = {run.run_id: run for run in find_leftovers(engine)}
        assert f"{run_id}live" not in found
        assert (len(found[run_id].containers), len(found[run_id].networks)) == (1, 1)
        remove_leftovers(engine, found[run_id])
        assert standing(engine, run_id) == []
        assert len(standing(engine, f"{run_id}live")) == 2
    finally:
        living.close()
