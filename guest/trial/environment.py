"""The environment handle: what an agent may do to its task container, and nothing else.

The methods carry Harbor's names and results (`exec`, `upload_file`, …), so that an agent written for Harbor finds what
it expects. Every call inherits the deadline of the agent phase; once the phase is closed no call works any more.
"""

from __future__ import annotations

import math
import posixpath
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from docker.errors import NotFound

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.container import copy_out, is_running
from guest.trial.engine import Engine, engine_call
from guest.trial.exec import run_exec
from guest.trial.tarstream import Entry, TarFile, TarLimits, pack

OUTPUT_KEEP_BYTES = 1 << 20
TEST_SECONDS = 10
DOWNLOAD_LIMITS = TarLimits(total_bytes=64 << 20, entries=4096, keep_bytes=64 << 20)


@dataclass(frozen=True)
class CommandResult:
    """What `exec` gives: stderr is merged into stdout, as on Harbor's Docker environment; empty output is None."""

    stdout: str | None
    stderr: str | None
    return_code: int


class CommandTimeout(RuntimeError):  # noqa: N818 - what happened, not what broke
    """The command outlived its own `timeout_sec`; its process group has been killed. The phase goes on."""


class Environment:
    """A running task container as the agent sees it."""

    def __init__(
        self,
        engine: Engine,
        container_id: str,
        *,
        workdir: str,
        user: str | None,
        env: Mapping[str, str],
        seconds: float,
        stop: threading.Event,
    ) -> None:
        """Open the handle for `seconds` from now. `user` and `env` are those of the task's agent phase."""
        self._engine = engine
        self._container_id = container_id
        self._workdir = workdir
        self._user = user
        self._env = dict(env)
        self._deadline = time.monotonic() + seconds
        self._stop = stop
        self._closed = threading.Event()

    def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_sec: float | None = None,
        user: str | None = None,
    ) -> CommandResult:
        """Run `command` through bash and give its merged output and exit code.

        Raises CommandTimeout after `timeout_sec`, Refused(AGENT_TIMEOUT) when the phase's own limit is reached.
        """
        left = self.seconds_left()
        seconds = left if timeout_sec is None else min(left, _limit(timeout_sec))
        result = run_exec(
            self._engine,
            self._container_id,
            ["bash", "-c", command],
            seconds=seconds,
            stop=self._stop,
            user=user or self._user or "",
            workdir=cwd or self._workdir,
            env={**self._env, **(env or {})},
            keep=OUTPUT_KEEP_BYTES,
            killable=True,
            cut=self._closed,
        )
        if result.exit_code is None:
            self.seconds_left()
            raise CommandTimeout(f"the command did not end within {seconds:g} s and was killed")
        text = result.output.decode(errors="replace")
        if result.truncated:
            text += f"\n[output cut after {OUTPUT_KEEP_BYTES} bytes]\n"
        return CommandResult(text or None, None, result.exit_code)

    def put(self, target_dir: str, files: Mapping[str, TarFile]) -> None:
        """Put `files` (relative path to content) under `target_dir`, an absolute path, made where it is missing."""
        self.seconds_left()
        base = _inside(target_dir)
        data = pack({posixpath.join(base, path): file for path, file in files.items()})
        with engine_call(f"upload files to {target_dir}"):
            self._engine.api.put_archive(self._container_id, "/", data)

    def get(self, path: str) -> dict[str, Entry]:
        """Read a file or directory; keys are paths relative to it (`""` for itself). Links are listed, not followed.

        Raises FileNotFoundError for a path that is not there.
        """
        self.seconds_left()
        try:
            return copy_out(self._engine, self._container_id, path, DOWNLOAD_LIMITS)
        except EnvironmentFault as fault:
            if isinstance(fault.__cause__, NotFound) and is_running(self._engine, self._container_id):
                raise FileNotFoundError(f"there is no {path} in the container") from fault
            raise

    def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a local file into the container, its executable bit kept."""
        directory, name = posixpath.split(target_path)
        self.put(directory, {name: _local(Path(source_path))})

    def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy the regular files of a local directory into the container."""
        root = Path(source_dir)
        found = (path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink())
        self.put(target_dir, {path.relative_to(root).as_posix(): _local(path) for path in found})

    def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy one regular file out of the container."""
        entry = self.get(source_path).get("")
        if entry is None or entry.kind != "file":
            raise Refused(Reason.TAR_REFUSED, f"{source_path} is not a regular file", "download_dir takes directories")
        Path(target_path).write_bytes(entry.data)

    def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy the regular files of a directory out of the container; links and special files stay behind."""
        for path, entry in self.get(source_dir).items():
            if path and entry.kind == "file":
                target = Path(target_dir) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(entry.data)

    def is_dir(self, path: str) -> bool:
        """Say whether `path` is a directory in the container."""
        return self._test("-d", path)

    def is_file(self, path: str) -> bool:
        """Say whether `path` is a regular file in the container."""
        return self._test("-f", path)

    def close(self) -> None:
        """End the agent phase: from here on every call is refused, and commands that still run are ended."""
        self._closed.set()

    def _test(self, flag: str, path: str) -> bool:
        result = run_exec(
            self._engine,
            self._container_id,
            ["/bin/sh", "-c", f'test {flag} "$1"', "sh", path],
            seconds=min(self.seconds_left(), TEST_SECONDS),
            stop=self._stop,
            user=self._user or "",
            workdir=self._workdir,
            cut=self._closed,
        )
        if result.exit_code is None:
            raise CommandTimeout(f"the container did not say within {TEST_SECONDS} s whether {path} exists")
        return result.exit_code == 0

    def seconds_left(self) -> float:
        """Give the seconds left of the phase. Raises Refused when it is over."""
        left = self._deadline - time.monotonic()
        if self._closed.is_set():
            raise Refused(Reason.AGENT_FAILED, "the environment was used after the agent phase had been closed")
        if left <= 0:
            raise Refused(Reason.AGENT_TIMEOUT, "the agent reached its wall limit")
        return left


def _limit(timeout_sec: float) -> float:
    if isinstance(timeout_sec, bool) or not math.isfinite(timeout_sec) or timeout_sec <= 0:
        raise ValueError(f"timeout_sec is {timeout_sec!r}, expected a positive number of seconds")
    return timeout_sec


def _inside(path: str) -> str:
    """Give an absolute container path relative to the root. Raises ValueError for any other path."""
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError(f"{path!r} is not an absolute path without '..'")
    return posixpath.normpath(path).lstrip("/")


def _local(path: Path) -> TarFile:
    return TarFile(path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)
