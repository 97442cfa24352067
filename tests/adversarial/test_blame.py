"""A losing trial stays a losing trial: nothing that an agent can do turns it into one without a score."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from guest.errors import EnvironmentFault, Refused, UsageFault
from guest.reason import Reason
from guest.trial.environment import Environment
from guest.trial.outcome import INFRASTRUCTURE, Outcome
from guest.trial.tarstream import TarFile
from tests.adversarial.agents import ZERO, Attack
from tests.guest.trial.conftest import RunTrial
from tests.tasks_made import make_task

pytestmark = pytest.mark.engine


def _raises(error: BaseException) -> Callable[[Environment], object]:
    def act(_: Environment) -> object:
        raise error

    return act


@pytest.mark.parametrize(
    "error",
    [
        Refused(Reason.IMAGE_UNAVAILABLE, "a lie"),
        Refused(Reason.INTERRUPTED, "a lie"),
        Refused(Reason.ENGINE_UNSUITABLE, "a lie"),
        UsageFault(Reason.USAGE, "a lie"),
        SystemExit(0),
        ValueError("\udc80 not UTF-8"),
        RuntimeError("x" * 10_000_000),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_an_agent_raises_is_its_own_failure(run_trial: RunTrial, error: BaseException) -> None:
    record = run_trial(ZERO, Attack(_raises(error)))
    assert (record.outcome, record.reward, record.reason_code) == (Outcome.AGENT_ERROR, 0.0, Reason.AGENT_FAILED)
    assert len(record.message) < 3000


def test_an_engine_error_counts_against_the_agent_while_the_engine_answers(run_trial: RunTrial) -> None:
    record = run_trial(ZERO, Attack(_raises(EnvironmentFault(Reason.ENGINE_TIMEOUT, "a lie"))))
    assert (record.outcome, record.reward) == (Outcome.AGENT_ERROR, 0.0)


@pytest.mark.parametrize(
    "act",
    [
        lambda e: e.exec("ln -s /etc /link") and e.download_file("/link", "/nowhere"),
        lambda e: e.exec("truncate -s 1T /sparse") and e.get("/sparse"),
        lambda e: e.get("/proc/1/mem"),
        lambda e: e.get("/missing"),
        lambda e: e.put("/x", {"/".join("d" * 100): TarFile(b"")}),
        lambda e: e.put("/proc/1", {"comm": TarFile(b"")}),
        lambda e: e.put("/etc", {"hosts": TarFile(b"")}),
        lambda e: e.exec("mkfifo /pipe") and e.put("/", {"pipe/x": TarFile(b"")}),
        lambda e: e.exec("rm -rf /bin /usr/bin; exit 0") and e.exec("true"),
    ],
)
def test_what_the_handle_refuses_is_the_agents_failure(
    run_trial: RunTrial, act: Callable[[Environment], object]
) -> None:
    record = run_trial(ZERO, Attack(act))
    assert record.outcome not in INFRASTRUCTURE, record.message
    assert record.reward == 0.0


@pytest.mark.parametrize(
    "plant",
    [
        "touch /tests/.evalguest-canary",
        "mkfifo /tests/f",
        "touch /tests/$(printf '\\377')",
        "ln -sfn /etc /tests/l",
        "rm -rf /tests; ln -s / /tests",
    ],
)
def test_a_daemon_of_a_shared_task_cannot_spoil_the_score(run_trial: RunTrial, plant: str) -> None:
    agent = Attack(lambda e: e.exec(f"(while :; do {plant}; done) >/dev/null 2>&1 &"))
    record = run_trial(ZERO, agent, isolation="shared")
    assert record.outcome not in INFRASTRUCTURE, record.message
    assert record.reward == 0.0


@pytest.mark.parametrize(
    "wreck",
    [
        pytest.param("rm -rf --no-preserve-root / 2>/dev/null", id="everything-removed"),
        pytest.param("chmod -R 000 /etc /logs /tmp /lib64 /bin/* 2>/dev/null", id="modes"),
        pytest.param("python3 -c 'b = []\nwhile 1: b.append(bytearray(1 << 24))'", id="memory"),
        pytest.param("dd if=/dev/zero of=/dev/shm/f bs=1M count=300 2>/dev/null", id="shared-memory"),
        pytest.param("mkdir -p /tests/x; cd /tests/x; seq 2000 | xargs touch", id="many-files"),
        pytest.param(
            'python3 -c \'import os\nos.makedirs("/tests", exist_ok=True); os.chdir("/tests")\n'
            'for i in range(1000): os.mkdir("d"); os.chdir("d")\'',
            id="deep",
        ),
        pytest.param("head -c 50M /dev/zero; head -c 50M /dev/zero >&2", id="flood"),
        pytest.param(
            "mkdir -p /logs/verifier; mknod /logs/verifier/reward.txt p; rm -rf /tmp; ln -s /x /tmp", id="pipe"
        ),
        pytest.param("rm -rf /srv; ln -s /nowhere /srv", id="workdir-gone"),
        pytest.param("rm -f /bin/bash; ln -s /bin/true /bin/bash", id="bash-replaced"),
        pytest.param("rm -f /bin/bash", id="bash-removed"),
        pytest.param("echo /evil.so > /etc/ld.so.preload; echo x > /evil.so", id="preload"),
    ],
)
def test_a_wrecked_container_is_the_agents_loss(run_trial: RunTrial, wreck: str) -> None:
    record = run_trial(ZERO, Attack(lambda e: e.exec(wreck)), agent_wall_sec=20.0)
    assert record.outcome not in INFRASTRUCTURE, record.message
    assert record.reward == 0.0


def test_the_next_trial_of_the_slot_is_unharmed(run_trial: RunTrial) -> None:
    run_trial(ZERO, Attack(lambda e: e.exec("kill -9 -1; rm -rf /etc/* 2>/dev/null; echo x > /etc/hosts")))
    assert run_trial(make_task(), Attack(lambda e: e.exec("grep -q localhost /etc/hosts"))).outcome is Outcome.PASSED


def test_a_shell_that_floods_in_place_of_its_process_id(run_trial: RunTrial) -> None:
    """The process id is expected in the first line of stderr: a line that never ends is not kept."""
    flood = b"#include <unistd.h>\nint main() { static char b[65536] = {1}; for (;;) write(2, b, sizeof b); }"

    def act(environment: Environment) -> None:
        environment.put("/", {"f.c": TarFile(flood)})
        environment.exec("gcc -o /f /f.c && ln -sf /f /bin/sh")
        environment.exec("true", timeout_sec=0.5)

    record = run_trial(ZERO, Attack(act))
    assert (record.outcome, record.reward, record.reason_code) == (Outcome.AGENT_ERROR, 0.0, Reason.AGENT_FAILED)


def test_an_interruption_is_still_one(run_trial: RunTrial, stop: threading.Event, tmp_path: Path) -> None:
    def act(environment: Environment) -> None:
        stop.set()
        environment.exec("sleep 100")

    with pytest.raises(Refused) as caught:
        run_trial(ZERO, Attack(act))
    assert caught.value.reason is Reason.INTERRUPTED
    assert not (tmp_path / "trial" / "record.json").exists()
