"""Submitted agents in whole trials: their CPU counts, their failures are theirs, and a broken one costs no job."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from guest.agent.archive import AgentPackage, PackageFile
from guest.agent.host import HostImage
from guest.agent.submitted import SubmittedAgent
from guest.errors import Refused
from guest.reason import Reason
from guest.trial.agent import Seat
from guest.trial.cgroup import SlotCgroup
from guest.trial.course import TrialPlan
from guest.trial.engine import Engine
from guest.trial.image import ResolvedImage
from guest.trial.lifecycle import Trial
from guest.trial.outcome import Outcome
from guest.trial.slot import Slot
from tests.guest.trial.conftest import RunTrial, run_trial, slot
from tests.tasks_made import BUDGET, make_task

__all__ = ["run_trial", "slot"]
pytestmark = pytest.mark.engine

TASK = make_task(test="cp /srv/answer /logs/verifier/reward.txt")
HEAD = "import os, time\nclass Agent:\n    async def run(self, instruction, environment, context):\n        "
SPIN = "begin = time.process_time()\n        while time.process_time() - begin < {}: pass"


def agent(body: str, image: str, *, source: str = "") -> SubmittedAgent:
    data = (source or HEAD + body + "\n").encode()
    return SubmittedAgent(AgentPackage({"agent.py": PackageFile(data)}, "ab" * 32, "cd" * 32), HostImage(image))


def test_an_agent_that_solves_its_task_passes(run_trial: RunTrial, base_image: str) -> None:
    record = run_trial(TASK, agent("print(instruction); await environment.exec('echo 1 > answer')", base_image))
    assert (record.outcome, record.reward, record.message) == (Outcome.PASSED, 1.0, "")
    assert (record.agent.kind, record.agent.sha256) == ("submitted", "ab" * 32)
    [log] = [log for log in record.logs if log.path == "agent/agent.log"]
    assert log.size == len("Do it.\n\n")


def test_the_agent_s_own_cpu_time_counts_in_its_trial(run_trial: RunTrial, base_image: str) -> None:
    record = run_trial(TASK, agent(SPIN.format(1.0), base_image))
    assert record.cpu.agent_sec is not None
    assert 1.0 < record.cpu.agent_sec < 2.0


def test_it_counts_where_only_the_engine_tells_cpu_time(
    run_trial: RunTrial, slot: Slot, base_image: str, engine: Engine
) -> None:
    slot.cgroup = SlotCgroup(engine, slot.cgroup.parent.lstrip("/"), trees=())
    record = run_trial(TASK, agent(SPIN.format(2.5), base_image))
    assert record.cpu.source == "stats"
    assert record.cpu.agent_sec is not None
    assert 1.0 < record.cpu.agent_sec < 4.0  # readings are a second or two apart, and the last one is missed


def test_an_agent_host_that_burns_cpu_is_ended(run_trial: RunTrial, base_image: str, engine: Engine) -> None:
    record = run_trial(TASK, agent(SPIN.format(1000), base_image), agent_cpu_sec=1.5)
    assert (record.outcome, record.reward, record.reason_code) == (
        Outcome.CPU_EXCEEDED,
        0.0,
        Reason.CPU_BUDGET_EXCEEDED,
    )
    assert record.cpu.agent_sec is not None
    assert 1.5 < record.cpu.agent_sec < 1.75
    left = {"label": [f"evalguest={record.run_id}", "evalguest.role=agent"]}
    assert engine.api.containers(all=True, filters=left) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('no')", Reason.AGENT_FAILED),
        ("os._exit(0)", Reason.AGENT_HOST_ENDED),
        ("await environment.exec('kill -9 -1; exec sleep 1')", None),
    ],
)
def test_what_an_agent_does_to_itself_scores_0(
    run_trial: RunTrial, base_image: str, body: str, reason: Reason | None
) -> None:
    record = run_trial(TASK, agent(body, base_image))
    assert (record.outcome, record.reward, record.reason_code) == (
        (Outcome.AGENT_ERROR, 0.0, reason) if reason else (Outcome.REWARD_ERROR, 0.0, Reason.REWARD_MISSING)
    )


def test_the_probe_is_left_and_copied_out(
    engine: Engine, slot: Slot, base_image: str, run_id: str, stop: threading.Event, tmp_path: Path
) -> None:
    for number, (body, reason) in enumerate(
        [
            ("await environment.exec('true')", None),
            ("await environment.exec('rm -r /var/lib/evalguest')", Reason.PROBE_NOT_OBSERVED),
            ("await environment.exec('echo x > /var/lib/evalguest/probe')", Reason.PROBE_MISMATCH),
            ("assert os.environ['EVALGUEST_PROBE'] == 'ab' * 32", None),
        ]
    ):
        image = ResolvedImage("", base_image, "id", "present", "/srv")
        plan = TrialPlan(run_id, TASK, BUDGET, image, number + 1, tmp_path / str(number), probe="ab" * 32)
        probe = Trial(engine, slot, plan, agent(body, base_image), stop).run().probe
        assert probe is not None
        assert (probe.observed, probe.reason_code, probe.written_by) == (reason is None, reason, "host")
        assert probe.value_sha256 == hashlib.sha256(b"ab" * 32).hexdigest()


def test_a_host_that_cannot_be_started_is_infrastructure(run_trial: RunTrial) -> None:
    record = run_trial(TASK, agent("pass", "no-such-image-anywhere:1"))
    assert (record.outcome, record.reward, record.reason_code) == (
        Outcome.INFRA_ERROR,
        None,
        Reason.AGENT_HOST_UNAVAILABLE,
    )
    assert "no-such-image-anywhere" in record.message


def test_a_broken_agent_is_found_before_the_first_trial(engine: Engine, base_image: str, run_id: str) -> None:
    seat = Seat(engine, run_id, "construct", "", threading.Event())
    with pytest.raises(Refused) as caught:
        agent("", base_image, source="raise OSError('broken')\nclass Agent: pass\n").prepare(seat)
    assert caught.value.reason is Reason.AGENT_LOAD_FAILED
    assert b"OSError: broken" in seat.log.kept
    agent("pass", base_image).prepare(seat)
    assert engine.api.containers(all=True, filters={"label": [f"evalguest={run_id}"]}) == []
