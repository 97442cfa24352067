"""Which step leads to an engine on which machine, and what set-up does on this one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from guest.errors import EnvironmentFault, UsageFault
from scripts.engine_socket import Address
from scripts.setup_machine import Facts, Step, plan_engine

CHECKOUT = Path(__file__).resolve().parents[2]
DEFAULT = Address("unix:///var/run/docker.sock")
EMPTY = Facts(
    address=DEFAULT, answers=False, allowed=True, root=True, has_dockerd=False, has_systemd=False, has_apt=True
)
INSTALLED = replace(EMPTY, has_dockerd=True)


def set_up(**environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    command = [sys.executable, "-m", "scripts.setup_machine"]
    return subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        (EMPTY, Step.INSTALL),
        (replace(EMPTY, has_systemd=True), Step.INSTALL),
        (INSTALLED, Step.START_DAEMON),
        (replace(INSTALLED, has_apt=False), Step.START_DAEMON),
        (replace(INSTALLED, has_systemd=True), Step.START_SERVICE),
        (replace(INSTALLED, address=replace(DEFAULT, named_by="DOCKER_HOST")), Step.START_DAEMON),
        (replace(EMPTY, answers=True, has_apt=False), Step.USE),
        (replace(INSTALLED, answers=True, root=False), Step.USE),
        (replace(EMPTY, answers=True, root=False, address=Address("unix:///run/user/7/docker.sock")), Step.USE),
        (replace(EMPTY, answers=True, root=False, is_linux=False, has_apt=False), Step.USE),
    ],
)
def test_the_next_step(facts: Facts, step: Step) -> None:
    assert plan_engine(facts) is step


@pytest.mark.parametrize(
    ("facts", "instruction"),
    [
        (replace(EMPTY, root=False), "sudo apt-get install docker.io"),
        (replace(EMPTY, has_apt=False), "install one"),
        (replace(INSTALLED, root=False), "sudo systemctl start docker"),
        (replace(INSTALLED, root=False, allowed=False), "usermod -aG docker"),
        (replace(EMPTY, root=False, is_linux=False, has_apt=False), "start Docker Desktop or Colima"),
        (replace(INSTALLED, address=Address("unix:///elsewhere.sock", "DOCKER_HOST")), "start that engine"),
        (replace(INSTALLED, address=Address("unix:///elsewhere.sock", "the docker context 'x'")), "start that engine"),
    ],
)
def test_what_a_person_has_to_do(facts: Facts, instruction: str) -> None:
    with pytest.raises(EnvironmentFault) as refusal:
        plan_engine(facts)
    assert instruction in refusal.value.hint
    assert refusal.value.exit_code == 3


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:2375", "ssh://me@there", "npipe:////./pipe/x", "unix://docker.sock"])
@pytest.mark.parametrize(
    ("named_by", "instruction"),
    [("DOCKER_HOST", "unset DOCKER_HOST"), ("the docker context 'far'", "docker context use default")],
)
def test_only_a_unix_socket_is_accepted(url: str, named_by: str, instruction: str) -> None:
    with pytest.raises(UsageFault) as refusal:
        plan_engine(replace(INSTALLED, answers=True, address=Address(url, named_by)))
    assert url in refusal.value.message
    assert named_by in refusal.value.message
    assert instruction in refusal.value.hint


def test_an_engine_elsewhere_ends_set_up() -> None:
    done = set_up(DOCKER_HOST="tcp://127.0.0.1:2375")
    assert (done.returncode, done.stdout) == (2, "")
    assert "tcp://127.0.0.1:2375" in done.stderr
    assert "unset DOCKER_HOST" in done.stderr


def test_a_named_engine_that_is_not_there_is_not_replaced(tmp_path: Path) -> None:
    done = set_up(DOCKER_HOST=f"unix://{tmp_path}/none.sock", XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert f"no engine answers on unix://{tmp_path}/none.sock" in done.stderr
    assert "hint: " in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.engine
def test_what_is_set_up_is_left_alone(tmp_path: Path, base_image: str) -> None:
    assert base_image
    done = set_up(XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
