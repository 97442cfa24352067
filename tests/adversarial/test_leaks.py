"""Nothing that a trial writes reaches the next one of its slot, or the files of the engine beneath."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from guest.trial import container
from guest.trial.engine import Engine
from guest.trial.exec import run_exec
from guest.trial.outcome import Outcome
from tests.adversarial.agents import Attack
from tests.guest.trial.conftest import RunTrial, Script
from tests.tasks_made import make_task

pytestmark = pytest.mark.engine

PLACES = '"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"'
WRITE = f"""
import ctypes, fcntl, os, socket, struct, time
def tried(act, *arguments):
    try: act(*arguments)
    except OSError: pass
for path in ({PLACES}):
    with open(path, "a") as file:
        file.write("# a message\\n")
        tried(fcntl.ioctl, file, 0x40086602, struct.pack("l", struct.unpack("l", fcntl.ioctl(
            file, 0x80086601, bytes(8)))[0] | 0x40))
        tried(fcntl.ioctl, file, 0x40087602, struct.pack("l", 4242))
    tried(os.setxattr, path, "user.message", b"x")
    tried(os.setxattr, path, "trusted.message", b"x")
    os.chown(path, 4711, 4712)
    os.chmod(path, 0o6751)
libc = ctypes.CDLL(None)
for place in ("/dev/shm/message", "/tmp/message", "/dev/mqueue/message"):
    tried(os.open, place, os.O_CREAT | os.O_WRONLY)
libc.shmget(4242, 4096, 0o1666)
libc.msgget(4242, 0o1666)
libc.semget(4242, 1, 0o1666)
if not os.fork():
    kept = [socket.socket(socket.AF_UNIX) for _ in "ab"] + [socket.create_server(("127.0.0.1", 4242))]
    kept[0].bind("\\0message")
    kept[0].listen()
    os.setsid()
    for number in (0, 1, 2): os.close(number)
    time.sleep(1000)
"""
READ = f"""
import ctypes, fcntl, os
for path in ({PLACES}):
    with open(path) as file:
        numbers = [fcntl.ioctl(file, number, bytes(8)).hex() for number in (0x80086601, 0x80087601)]
        state = os.stat(path)
        print(path, "message" in file.read(), os.listxattr(path), numbers, state.st_mode, state.st_uid, state.st_gid)
print(*(sorted(os.listdir(path)) for path in ("/dev/shm", "/dev/mqueue", "/tmp")))
libc = ctypes.CDLL(None)
print(libc.shmget(4242, 4096, 0), libc.msgget(4242, 0), libc.semget(4242, 1, 0))
print(len(open("/proc/net/unix").readlines()), len(open("/proc/net/tcp").readlines()))
"""


@pytest.mark.parametrize("network", ["none", "both"])
def test_the_next_trial_finds_no_message(run_trial: RunTrial, network: str) -> None:
    def run(program: str) -> str:
        agent = Attack(lambda e: e.exec('python3 -c "$PROGRAM"', env={"PROGRAM": program}).stdout)
        record = run_trial(make_task(), agent, network=network)
        assert record.outcome is Outcome.PASSED, record.message
        return agent.saw

    before = run(READ)
    assert "False" in before
    assert run(WRITE) == ""
    assert run(READ) == before


def test_files_grown_without_bound_do_not_reach_the_engines_memory(run_trial: RunTrial) -> None:
    """The engine reads a container's hosts and resolv.conf whole when a network is switched."""
    grow = "truncate -s 200G /etc/hosts /etc/resolv.conf; "
    for isolation in ("isolated", "shared"):
        again = f"(while :; do {grow} done) >/dev/null 2>&1 & sleep 0.1"
        record = run_trial(make_task(), Script(again), network="agent", isolation=isolation)
        assert (record.outcome, record.reward) == (Outcome.PASSED, 1.0), record.message
        assert record.wall.overhead_sec < 10


def test_a_layer_that_the_engine_cannot_remove_is_emptied(
    engine: Engine, task_container: str, stop: threading.Event
) -> None:
    inspection = engine.api.inspect_container(task_container)
    layer = Path(inspection["GraphDriver"]["Data"]["UpperDir"])
    if not layer.is_dir():
        pytest.skip("the engine's files are on another machine")
    command = ["sh", "-c", "mkdir -p /a/b/c; ln -s /etc /a/link; ln -s /nowhere '/-rf'; touch /a/$(printf '\\377')"]
    run_exec(engine, task_container, command, seconds=10, stop=stop)
    container._empty_layer(engine, task_container)
    assert (layer / "a").is_dir(), "a running container keeps its files"
    engine.api.kill(task_container)
    engine.api.wait(task_container)
    container._empty_layer(engine, task_container)
    assert list(layer.iterdir()) == []
    container.remove(engine, task_container)
