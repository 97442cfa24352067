"""Build one image from a context in memory: with BuildKit where a client for it is installed, else the classic way."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import docker
from docker.utils.build import PatternMatcher

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.engine import engine_address, engine_call
from guest.trial.tarstream import TarFile, pack

LABEL = "evalguest.image"
_TAIL_LINES = 12
_NEEDS_BUILDKIT = re.compile(
    rb"^\s*#\s*syntax\s*=|^\s*(RUN|COPY|ADD)\s+(--mount|--network|--security|--link|--chmod)|^\s*(RUN|COPY)\b.*<<-?\w",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True)
class BuildKit:
    """A command-line client that can build with BuildKit."""

    command: tuple[str, ...]
    env: Mapping[str, str]


@cache
def find_buildkit() -> BuildKit | None:
    """Look for a client with BuildKit on PATH: one with the buildx plugin, or one older than 23 that has it inside."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        program = shutil.which("docker", path=folder)
        if program is None:
            continue
        if _runs([program, "buildx", "version"]):
            return BuildKit((program, "buildx", "build", "--load"), {})
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.search(r"version (\d+)\.", said)
        if version and int(version[1]) < 23:  # noqa: PLR2004 - from 23 on BuildKit moved into the plugin
            return BuildKit((program, "build"), {"DOCKER_BUILDKIT": "1"})
    return None


def build(
    api: docker.APIClient, name: str, files: Mapping[str, TarFile], *, seconds: float, stop: threading.Event
) -> None:
    """Build the image `name` from the files of a context (`Dockerfile` and what it copies).

    Raises EnvironmentFault with the builder's last words, Refused(INTERRUPTED) when `stop` is set.
    """
    context = pack(_without_ignored(files))
    buildkit = find_buildkit()
    if buildkit is not None:
        _build_with(buildkit, name, context, seconds, stop)
        return
    if _NEEDS_BUILDKIT.search(files["Dockerfile"].data):
        raise EnvironmentFault(
            Reason.TOOL_MISSING,
            "the Dockerfile needs BuildKit (RUN --mount, here-documents or # syntax=), which no client here offers",
            "install the docker-buildx plugin",
        )
    _build_classic(api, name, context, seconds, stop)


def _build_classic(api: docker.APIClient, name: str, context: bytes, seconds: float, stop: threading.Event) -> None:
    deadline = time.monotonic() + seconds
    said: list[str] = []
    with engine_call(f"build {name}"):
        # A step that fails is an item of the answer, a Dockerfile that does not parse is an error of the call.
        for item in api.build(
            fileobj=io.BytesIO(context),
            custom_context=True,
            tag=name,
            rm=True,
            forcerm=True,
            decode=True,
            labels={LABEL: "task"},
        ):
            _check(stop, deadline, seconds)
            if "error" in item:
                raise _failed(said, str(item["error"]))
            said.append(str(item.get("stream", "")))
            del said[:-200]


def _build_with(client: BuildKit, name: str, context: bytes, seconds: float, stop: threading.Event) -> None:
    arguments = [*client.command, "--progress=plain", "--label", f"{LABEL}=task", "--tag", name, "-"]
    env = {**os.environ, **client.env, "DOCKER_HOST": engine_address()}
    process = subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env
    )
    output: list[bytes] = []
    # The context and the output pass through pipes that must be served together; one thread does both.
    server = threading.Thread(target=lambda: output.append(process.communicate(context)[0]), daemon=True)
    server.start()
    deadline = time.monotonic() + seconds
    try:
        while server.is_alive():
            server.join(0.2)
            _check(stop, deadline, seconds)
    except BaseException:
        process.terminate()
        server.join(5)
        process.kill()
        raise
    if process.returncode != 0:
        raise _failed(b"".join(output).decode(errors="replace").splitlines(keepends=True), "")


def _check(stop: threading.Event, deadline: float, seconds: float) -> None:
    if stop.is_set():
        raise Refused(Reason.INTERRUPTED, "stopped while an image was being built")
    if time.monotonic() > deadline:
        raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, f"the build did not end within {seconds:g} s")


def _failed(said: list[str], error: str) -> EnvironmentFault:
    lines = [line for line in ("".join(said) + error).splitlines() if line.strip()]
    return EnvironmentFault(Reason.IMAGE_UNAVAILABLE, "the build failed: " + "\n".join(lines[-_TAIL_LINES:]))


def _without_ignored(files: Mapping[str, TarFile]) -> dict[str, TarFile]:
    """Apply the context's .dockerignore, which the engine leaves to its clients."""
    ignore = files.get(".dockerignore")
    if ignore is None:
        return dict(files)
    lines = (line.strip() for line in ignore.data.decode(errors="replace").splitlines())
    matcher = PatternMatcher([line for line in lines if line and not line.startswith("#")])
    kept = {path: file for path, file in files.items() if not _ignored(matcher, path)}
    return {**kept, "Dockerfile": files["Dockerfile"]}


def _ignored(matcher: PatternMatcher, path: str) -> bool:
    return any(matcher.matches(each) for each in (Path(path), *Path(path).parents) if each.parts)


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
