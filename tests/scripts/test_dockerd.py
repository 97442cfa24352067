"""Starting an engine: pid files of a dead one, and a real second engine with a place of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from guest.errors import EnvironmentFault
from scripts.dockerd import Daemon, remove_stale_pid_files, start
from scripts.engine_socket import answers

CAN_START = os.geteuid() == 0 and shutil.which("dockerd") is not None


@contextmanager
def process_called(name: str, place: Path, *, dead: bool) -> Iterator[int]:
    """The pid of a process of that name: one that waits, or one that ended and that nobody has reaped."""
    script = place / name
    script.write_text(f"#!/bin/sh\n{'exit' if dead else 'read line'}\n")
    script.chmod(0o755)
    with subprocess.Popen([script], stdin=subprocess.PIPE) as process:
        state = f"/proc/{process.pid}/stat"
        expected = f"({name}) {'Z' if dead else 'S'}"
        while expected not in Path(state).read_text():
            time.sleep(0.01)
        yield process.pid
        process.kill()


def a_daemon(tmp_path: Path) -> Daemon:
    (tmp_path / "exec" / "containerd").mkdir(parents=True)
    return Daemon(tmp_path / "d.sock", tmp_path / "docker.pid", tmp_path / "exec")


@pytest.mark.parametrize("content", ["", "words", "-1", "0", "4194305", "99999999999999999999", "\x00"])
def test_a_pid_file_that_names_no_process_goes(tmp_path: Path, content: str) -> None:
    daemon = a_daemon(tmp_path)
    daemon.pid_file.write_text(content)
    remove_stale_pid_files(daemon)
    assert not daemon.pid_file.exists()


def test_a_pid_file_that_names_another_program_goes(tmp_path: Path) -> None:
    daemon = a_daemon(tmp_path)
    daemon.pid_file.write_text(str(os.getpid()))
    remove_stale_pid_files(daemon)
    assert not daemon.pid_file.exists()


@pytest.mark.parametrize("dead", [True, False])
def test_pid_files_of_zombies_go_and_those_of_the_living_stay(tmp_path: Path, dead: bool) -> None:
    daemon = a_daemon(tmp_path)
    theirs = daemon.exec_root / "containerd" / "containerd.pid"
    with (
        process_called("dockerd", tmp_path, dead=dead) as dockerd,
        process_called("containerd", tmp_path, dead=dead) as containerd,
    ):
        daemon.pid_file.write_text(f"{dockerd}\n")
        theirs.write_text(str(containerd))
        remove_stale_pid_files(daemon)
        assert (daemon.pid_file.exists(), theirs.exists()) == (not dead, not dead)


def test_nothing_to_remove_is_no_fault(tmp_path: Path) -> None:
    remove_stale_pid_files(Daemon(tmp_path / "d.sock", tmp_path / "none.pid", tmp_path / "none"))


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A second engine's place, short enough for its sockets; whatever runs in it ends with the test.

    It gets a network of its own: an engine that is told to have no bridge removes the one it finds.
    """
    program = tmp_path / "bin" / "dockerd"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec unshare --net {shutil.which("dockerd")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    place = Path("/run") / f"evalguest-test-{os.getpid()}"
    place.mkdir()
    (place / "daemon.json").write_text("{}")
    options = [
        *("--host", f"unix://{place}/d.sock", "--pidfile", f"{place}/docker.pid", "--exec-root", f"{place}/exec"),
        *("--data-root", str(tmp_path / "data"), "--bridge=none", "--iptables=false", "--ip6tables=false"),
        *("--containerd-namespace", "evalguest-test", "--containerd-plugins-namespace", "evalguest-test-plugins"),
        *("--config-file", f"{place}/daemon.json"),
    ]
    daemon = Daemon(place / "d.sock", place / "docker.pid", place / "exec", options)
    try:
        yield daemon
    finally:
        end(daemon, signal.SIGTERM)
        # one that was killed leaves its root mounted on itself
        while subprocess.run(["umount", tmp_path / "data"], capture_output=True, check=False).returncode == 0:
            pass
        shutil.rmtree(place)


def end(daemon: Daemon, number: signal.Signals) -> None:
    """End the engine and the containerd that it started, if it did."""
    for file in (daemon.pid_file, daemon.exec_root / "containerd" / "containerd.pid"):
        if file.exists():
            pid = int(file.read_text())
            os.kill(pid, number)
            deadline = time.monotonic() + 15
            while time.monotonic() < deadline and alive(pid):
                time.sleep(0.02)


def bridges() -> list[Path]:
    return sorted(place for place in Path("/sys/class/net").iterdir() if place.name == "docker0")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.engine
@pytest.mark.skipif(not CAN_START, reason="needs root and dockerd")
def test_a_killed_engine_starts_again(second: Daemon, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "dockerd.log"
    before = bridges()
    start(second, log)
    assert answers(second.socket)
    assert bridges() == before
    first = docker.APIClient(f"unix://{second.socket}", version="auto").info()["ID"]
    pid = int(second.pid_file.read_text())
    assert os.getsid(pid) == pid  # not ended with the terminal, nor by its Ctrl-C
    assert Path(f"/proc/{pid}/fd/1").readlink() == Path(f"/proc/{pid}/fd/2").readlink() == log
    end(second, signal.SIGKILL)
    assert second.pid_file.exists()
    assert not answers(second.socket)
    start(second, log)
    assert docker.APIClient(f"unix://{second.socket}", version="auto").info()["ID"] == first


@pytest.mark.engine
@pytest.mark.skipif(not CAN_START, reason="needs root and dockerd")
def test_an_engine_that_cannot_start_says_why(second: Daemon, tmp_path: Path) -> None:
    second.exec_root.parent.joinpath("daemon.json").write_text('{"no-such-option": 1}')
    log = tmp_path / "dockerd.log"
    began = time.monotonic()
    with pytest.raises(EnvironmentFault, match="no-such-option") as refusal:
        start(second, log, seconds=30)
    assert str(log) in refusal.value.message
    assert time.monotonic() - began < 25  # it does not wait for one that has ended
