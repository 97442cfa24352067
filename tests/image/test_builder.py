"""Builds by the classic builder and by BuildKit: the same image, the same words, the same end."""

from __future__ import annotations

import dataclasses
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.tasks.tree import TreeFile
from guest.trial.engine import Engine
from guest.trial.image import find_image
from image import builder
from image.buildkit import BuildKit, find_buildkit
from image.context import context_of
from tests.images_made import file_in, files_of, forget
from tests.registry import FakeRegistry
from tests.tasks_made import make_task

pytestmark = pytest.mark.engine

Build = Callable[..., str]


@pytest.fixture(params=["classic", "buildkit"])
def buildkit(request: pytest.FixtureRequest) -> BuildKit | None:
    if request.param == "classic":
        return None
    found = find_buildkit()
    if found is None:
        pytest.skip("no docker client with BuildKit on this machine")
    return found


@pytest.fixture
def build(engine: Engine, buildkit: BuildKit | None, stop: threading.Event) -> Iterator[Build]:
    """Builds a Dockerfile with files beside it, scripts executable, and gives the image's name."""
    names: list[str] = []

    def run(dockerfile: str, files: Mapping[str, str] | None = None, *, seconds: float = 60.0) -> str:
        beside = {f"environment/{path}": text for path, text in (files or {}).items()}
        task = make_task(dockerfile=dockerfile, files=beside)
        tree = {path: TreeFile(file.data, file.data.startswith(b"#!")) for path, file in task.files.items()}
        context = context_of(dataclasses.replace(task, files=tree))
        assert context is not None
        names.append(context.image_name)
        builder.build(engine.api, context, {"made": "here"}, buildkit=buildkit, seconds=seconds, stop=stop)
        return context.image_name

    yield run
    forget(engine.api, *names)


def test_the_context_arrives_whole(build: Build, engine: Engine) -> None:
    files = {"a/b/c.txt": "c", "run.sh": "#!/bin/sh", "a/left.log": "", ".dockerignore": "**/*.log\nDockerfile\n"}
    name = build("FROM scratch\nCOPY . /app\nWORKDIR /app\n", files)
    found = find_image(engine.api, name)
    assert found is not None
    assert (found["Config"]["WorkingDir"], found["Config"]["Labels"]) == ("/app", {"made": "here"})
    entries = {
        path: (each.isdir(), each.mode & 0o7777, each.uid, each.gid)
        for path, each in files_of(engine.api, name).items()
    }
    assert entries == {
        "app": (True, 0o755, 0, 0),
        "app/.dockerignore": (False, 0o644, 0, 0),
        "app/a": (True, 0o755, 0, 0),
        "app/a/b": (True, 0o755, 0, 0),
        "app/a/b/c.txt": (False, 0o644, 0, 0),
        "app/run.sh": (False, 0o755, 0, 0),
    }


def test_a_step_that_fails_is_told_in_its_own_words(build: Build, base_image: str) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        build(f"FROM {base_image}\nRUN seq 40; echo '\033[31mred alert\033[0m'; exit 3\n")
    assert caught.value.reason == Reason.IMAGE_UNAVAILABLE
    assert "red alert" in caught.value.message
    assert "code: 3" in caught.value.message
    assert "\033" not in caught.value.message
    assert len(caught.value.message.splitlines()) <= 12


@pytest.mark.parametrize(
    ("dockerfile", "words"),
    [
        ("FROM scratch\nCOPY not-there /x\n", "not-there"),
        ("FROM scratch\nNONSENSE x\n", "unknown instruction"),
        ("FROM nosuchhost.invalid/nothing:1\n", "nosuchhost.invalid"),
    ],
)
def test_what_cannot_be_built_says_why(build: Build, engine: Engine, dockerfile: str, words: str) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        build(dockerfile)
    assert words in caught.value.message
    context = context_of(make_task(dockerfile=dockerfile))
    assert context is not None
    assert find_image(engine.api, context.image_name) is None


def test_a_build_has_a_time_limit(build: Build, fake: FakeRegistry) -> None:
    fake.silent.set()
    began = time.monotonic()
    with pytest.raises(EnvironmentFault) as caught:
        build(f"FROM scratch\nADD http://{fake.host}/{secrets.token_hex(4)} /x\n", seconds=1.5)
    assert "within 1.5 s" in caught.value.message
    assert 1.5 <= time.monotonic() - began < 10


def test_a_build_can_be_stopped_and_leaves_no_process(build: Build, base_image: str, stop: threading.Event) -> None:
    mark = f"86400.{secrets.randbelow(10**9):09}"

    def stop_when_running() -> None:
        while not processes(mark):
            time.sleep(0.1)
        stop.set()

    waiting = threading.Thread(target=stop_when_running, daemon=True)
    waiting.start()
    with pytest.raises(Refused) as caught:
        build(f"FROM {base_image}\nRUN sleep {mark}\n")
    assert caught.value.reason == Reason.INTERRUPTED
    deadline = time.monotonic() + 15
    while processes(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes(mark) == []


def test_steps_have_a_network_that_is_not_the_hosts(build: Build, engine: Engine, base_image: str) -> None:
    name = build(f"FROM {base_image}\nLABEL a={secrets.token_hex(4)}\nRUN readlink /proc/self/ns/net > /srv/ns\n")
    inside = file_in(engine.api, name, "/srv/ns").decode().strip()
    assert inside.startswith("net:[")
    assert inside != str(Path("/proc/self/ns/net").readlink())


def test_what_needs_buildkit_says_so_or_is_built(build: Build, buildkit: BuildKit | None, base_image: str) -> None:
    dockerfile = f"FROM {base_image}\nRUN --mount=type=cache,target=/c true\n"
    if buildkit is not None:
        build(dockerfile)
        return
    with pytest.raises(EnvironmentFault) as caught:
        build(dockerfile)
    assert caught.value.reason == Reason.IMAGE_UNAVAILABLE
    assert "needs BuildKit (line 2: RUN --mount)" in caught.value.message
    assert "buildx" in caught.value.hint


def test_nothing_is_written_to_the_home_directory(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plugins = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "cli-plugins"
    configuration = tmp_path / ".docker"
    configuration.mkdir()
    (configuration / "cli-plugins").symlink_to(plugins)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONFIG", str(configuration))
    build(f"FROM scratch\nLABEL a={secrets.token_hex(4)}\n")
    assert sorted(tmp_path.rglob("*")) == [configuration, configuration / "cli-plugins"]


def test_last_words_are_few_short_and_plain() -> None:
    text = "\n".join(["first", *["x" * 1000] * 20, "", "\033[1mbold\033[0m\r", "\033]0;title\007bell\007 tab\t", "end"])
    lines = builder.last_words(text).splitlines()
    assert len(lines) == 12
    assert lines[-3:] == ["bold", "bell tab", "end"]
    assert {len(line) for line in lines[:-3]} == {300}


def test_an_engine_without_its_bridge_gets_a_hint() -> None:
    words = "adding interface veth1 to bridge docker0 failed: could not find bridge docker0"
    assert "restart the engine" in builder._hint(words, [])


def processes(argument: str) -> list[str]:
    """The processes of this machine that have this argument."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if argument.encode() in arguments:
            found.append(entry.name)
    return found
