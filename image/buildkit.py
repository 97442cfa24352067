"""Builds with BuildKit, which speaks to the engine through docker's own command-line client and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import docker

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.long_answer import address_of
from image.context import BuildContext

_TAIL_BYTES = 64 * 1024
_LOOK_SEC = 0.1
_END_SEC = 5
_MTIME = 0
_PLUGIN_ONLY = 23
"""From this version on the client has BuildKit in the plugin `buildx` only."""


@dataclass(frozen=True)
class BuildKit:
    """A client that can build with BuildKit: the command, and variables it needs."""

    command: tuple[str, ...]
    env: Mapping[str, str]


def find_buildkit() -> BuildKit | None:
    """Look through PATH for a docker client with the plugin buildx, or one older than 23, which has BuildKit inside."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        program = shutil.which("docker", path=folder) if folder else None
        if program is None:
            continue
        if _output([program, "buildx", "version"]) is not None:
            # The builder of the engine itself: another one would not know the images the engine has.
            return BuildKit((program, "buildx", "build", "--builder", "default", "--load"), {})
        version = re.match(r"Docker version (\d+)\.", _output([program, "--version"]) or "")
        if version and int(version[1]) < _PLUGIN_ONLY:
            return BuildKit((program, "build"), {"DOCKER_BUILDKIT": "1"})
    return None


def build_with(
    client: BuildKit,
    api: docker.APIClient,
    context: BuildContext,
    labels: Mapping[str, str],
    *,
    seconds: float,
    stop: threading.Event,
) -> None:
    """Build the context's image. Raises EnvironmentFault with the client's last output, Refused(INTERRUPTED)."""
    with tempfile.TemporaryDirectory(prefix="evalguest-build-") as scratch:
        folder = Path(scratch)
        _write_context(context, folder)
        labelling = [part for name, value in labels.items() for part in ("--label", f"{name}={value}")]
        arguments = [*client.command, "--progress=plain", *labelling, "--tag", context.image_name]
        arguments += ["--file", str(folder / "Dockerfile"), str(folder / "context")]
        env = {**os.environ, **client.env, **_private_configuration(folder), "DOCKER_HOST": address_of(api)}
        deadline = time.monotonic() + seconds
        with _running(arguments, env) as process:
            output = _Tail(process.stdout)
            while output.is_coming():
                if stop.is_set():
                    raise Refused(Reason.INTERRUPTED, "stopped while an image was being built")
                if time.monotonic() > deadline:
                    raise EnvironmentFault(
                        Reason.IMAGE_UNAVAILABLE, f"the build did not end within {seconds:g} s\n{output.text()}"
                    )
            code = process.wait()
        if code != 0:
            raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, output.text())


def _write_context(context: BuildContext, folder: Path) -> None:
    """Lay the files down with their modes; the Dockerfile stands outside, since `.dockerignore` may name it."""
    (folder / "Dockerfile").write_bytes(context.dockerfile)
    root = folder / "context"
    root.mkdir(mode=0o755)
    for path, file in context.files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
        target.chmod(file.mode)
        os.utime(target, (_MTIME, _MTIME))
    for directory in (root, *root.rglob("*/")):
        directory.chmod(0o755)


def _private_configuration(folder: Path) -> dict[str, str]:
    """Give the client a configuration directory of its own, with what logs it in: it writes notes of builds there."""
    usual = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    own = folder / "configuration"
    own.mkdir()
    for name in ("config.json", "cli-plugins"):
        if (usual / name).exists():
            (own / name).symlink_to((usual / name).resolve())
    return {"DOCKER_CONFIG": str(own), "BUILDX_CONFIG": str(own / "buildx"), "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}


@contextmanager
def _running(arguments: list[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a process group of its own, which is ended on leaving: the client starts its plugins."""
    process = subprocess.Popen(
        arguments,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SEC)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class _Tail:
    """The last bytes of a program's output, read as they come so that the program never waits for us."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, args=(stream,), name="build-output", daemon=True)
        self._thread.start()

    def is_coming(self) -> bool:
        """Wait a moment; say whether there may be more."""
        self._thread.join(_LOOK_SEC)
        return self._thread.is_alive()

    def text(self) -> str:
        """Give what was kept."""
        return bytes(self._kept).decode(errors="replace")

    def _read(self, stream: IO[bytes] | None) -> None:
        while stream is not None and (piece := os.read(stream.fileno(), 65536)):
            self._kept += piece
            del self._kept[:-_TAIL_BYTES]


def _output(command: list[str]) -> str | None:
    """Give what a short command prints, None when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
