"""Starts an engine where no service manager does: detached, its output in a file, past pid files of a dead one."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from guest.errors import EnvironmentFault
from guest.reason import Reason
from scripts.engine_socket import DEFAULT, answers

_TAIL_BYTES = 1500


@dataclass(frozen=True)
class Daemon:
    """Where an engine has its socket, its own pid file and its run-time state; `options` are more for dockerd."""

    socket: Path = DEFAULT
    pid_file: Path = Path("/var/run/docker.pid")
    exec_root: Path = Path("/var/run/docker")
    options: Sequence[str] = ()


def search_path() -> str:
    """Give PATH with the administrator's directories, where dockerd and what it runs lie on Debian."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def is_installed() -> bool:
    """Say whether there is a dockerd to start."""
    return shutil.which("dockerd", path=search_path()) is not None


def start(daemon: Daemon, log: Path, *, seconds: float = 60) -> None:
    """Start dockerd in a session of its own and wait until it answers.

    Its output goes to the file `log` and nowhere else, so a pipe that our own output goes to ends with us. Raises
    EnvironmentFault with the end of that file when it ends or does not answer within `seconds`.
    """
    remove_stale_pid_files(daemon)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["dockerd", *daemon.options],
            cwd="/",
            env={**os.environ, "PATH": search_path()},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answers(daemon.socket):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    ended = "did not answer in time" if process.returncode is None else f"ended with status {process.returncode}"
    tail = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
    raise EnvironmentFault(
        Reason.ENGINE_UNAVAILABLE,
        f"dockerd {ended}; the end of {log}:\n{tail}",
        "mend what it complains of, or start an engine yourself, and run this again",
    )


def remove_stale_pid_files(daemon: Daemon) -> None:
    """Remove the pid files of the engine and its containerd that name no running one.

    Where process 1 does not reap, a killed engine and its containerd stay as zombies, and the next one takes the files
    for proof of life.
    """
    for file, program in (
        (daemon.pid_file, "dockerd"),
        (daemon.exec_root / "containerd" / "containerd.pid", "containerd"),
    ):
        if file.exists() and not _runs(file, program):
            file.unlink()


def _runs(pid_file: Path, program: str) -> bool:
    """Say whether the file holds the pid of a living process of that program (format: proc(5), `stat`)."""
    try:
        pid = int(pid_file.read_text())
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except (OSError, ValueError):
        return False
    state = rest.split()[0]
    return name.partition("(")[2] == program and state not in "ZX"
