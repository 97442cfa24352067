"""`evalguest bake` on caches on disk, with a real engine and a real registry."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from guest.errors import Refused, UsageFault
from guest.reason import Reason
from guest.tasks.images import load_image_pins
from guest.tasks.task import Task
from guest.trial.engine import Engine
from scripts.bake import bake
from tests.images_made import forget, import_image
from tests.registry import FakeRegistry, Registry, push
from tests.tasks_made import make_task

CHECKOUT = Path(__file__).resolve().parents[2]
Cache = Callable[..., Path]

app = typer.Typer()
app.command()(bake)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Writes tasks to disk as a cache."""

    def write(*tasks: Task) -> Path:
        for task in tasks:
            for path, file in task.files.items():
                target = tmp_path / "cache" / "tasks" / task.task_id / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.data)
        return tmp_path / "cache"

    return write


@pytest.fixture
def published(engine: Engine, registry: Registry) -> Iterator[tuple[str, str, str]]:
    """An image in the registry and not in the engine: its name, digest and id."""
    image_id = import_image(engine.api)
    repository = f"there/{secrets.token_hex(4)}"
    digest = push(engine.api, registry, repository, "1", image_id)
    forget(engine.api, image_id)
    yield f"{registry.host}/{repository}", digest, image_id
    forget(engine.api, image_id)


@pytest.fixture
def built(engine: Engine) -> Iterator[Task]:
    """A task whose image is built from its Dockerfile."""
    mark = secrets.token_hex(8)
    yield make_task("built", dockerfile=f"FROM scratch\nLABEL mark={mark}\nWORKDIR /srv\n")
    forget(engine.api, *(image["Id"] for image in engine.api.images(filters={"label": f"mark={mark}"})))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def document(*arguments: object, exit_code: int = 0) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == exit_code, result.output
    read: dict[str, Any] = json.loads(result.stdout)
    assert (read["schema_version"], list(read)) == (1, ["schema_version", "cache", "tasks", "written"])
    return read


@pytest.mark.engine
def test_each_image_is_pulled_or_built_and_the_second_time_found(
    cache: Cache, built: Task, published: tuple[str, str, str]
) -> None:
    name, digest, image_id = published
    place = cache(built, make_task("pulled", toml=f'docker_image = "{name}:1"\n'))
    first = document("--cache", place)
    assert [row["task_id"] for row in first["tasks"]] == ["built", "pulled"]
    assert first["tasks"][0]["image"]["source"] == "built"
    assert first["tasks"][1] == {
        "task_id": "pulled",
        "image": {
            "image_id": image_id,
            "ref": f"{name}@{digest}",
            "kind": "digest",
            "source": "pulled",
            "workdir": "/srv",
            "note": "",
        },
        "pin": None,
        "error": None,
    }
    second = run("--cache", place)
    assert second.exit_code == 0
    assert second.stderr == ""
    rows = {line.split()[0]: line.split()[1:3] for line in second.stdout.splitlines()}
    assert rows["built"] == ["built", first["tasks"][0]["image"]["image_id"]]
    assert rows["pulled"] == ["present", f"{name}@{digest}"]
    assert sorted(path.name for path in place.iterdir()) == ["tasks"], "nothing is written into the cache"


@pytest.mark.engine
def test_one_that_fails_is_told_after_all_were_tried(cache: Cache, built: Task, fake: FakeRegistry) -> None:
    place = cache(built, make_task("bad", dockerfile=f"FROM {fake.host}/nothing:1\n"))
    result = run("--cache", place)
    assert result.exit_code == 1
    assert "1 of 2 tasks failed" in result.stdout
    assert f"{fake.host}/nothing:1" in result.stdout
    assert "built: building its image" in result.stderr
    rows = document("--cache", place, exit_code=1)["tasks"]
    assert (rows[0]["image"], rows[0]["error"]["reason"]) == (None, "image_unavailable")
    assert (rows[1]["image"]["source"], rows[1]["error"]) == ("built", None)
    assert len(document("built", "--cache", place)["tasks"]) == 1


@pytest.mark.engine
def test_pins_are_written_without_a_pull_and_then_kept_to(
    cache: Cache, built: Task, published: tuple[str, str, str], engine: Engine, registry: Registry
) -> None:
    name, digest, image_id = published
    place = cache(built, make_task("pulled", toml=f'docker_image = "{name}:1"\n'))
    other = "docker.io/somebody/else@sha256:" + "ab" * 32
    (place / "images.json").write_text(json.dumps({"schema": "evalguest-images/1", "images": {"else": other}}))
    found = document("--cache", place, "--pin")
    assert found["written"] == str(place / "images.json")
    assert [(row["task_id"], row["pin"]) for row in found["tasks"]] == [("built", None), ("pulled", f"{name}@{digest}")]
    assert load_image_pins(place / "images.json") == {"else": other, "pulled": f"{name}@{digest}"}
    assert engine.api.images(name) == []
    later = import_image(engine.api)
    push(engine.api, registry, name.partition("/")[2], "1", later)
    forget(engine.api, later)
    row = document("pulled", "--cache", place)["tasks"][0]
    assert (row["image"]["image_id"], row["image"]["source"]) == (image_id, "pulled")


@pytest.mark.engine
def test_a_pin_that_cannot_be_had_leaves_the_file_as_it_was(
    cache: Cache, published: tuple[str, str, str], fake: FakeRegistry
) -> None:
    name, digest, _ = published
    place = cache(
        make_task("good", toml=f'docker_image = "{name}:1"\n'),
        make_task("gone", toml=f'docker_image = "{fake.host}/gone:1"\n'),
    )
    found = document("--cache", place, "--pin", exit_code=1)
    assert found["written"] is None
    assert {row["task_id"]: row["pin"] for row in found["tasks"]} == {"good": f"{name}@{digest}", "gone": None}
    assert not (place / "images.json").exists()
    assert f"{fake.host}/gone:1" in run("--cache", place, "--pin").stdout


@pytest.mark.engine
def test_what_was_built_is_published_and_pinned(
    cache: Cache, built: Task, published: tuple[str, str, str], registry: Registry, engine: Engine
) -> None:
    name, digest, _ = published
    place = cache(built, make_task("pulled", toml=f'docker_image = "{name}:1"\n'))
    repository = f"ours/{secrets.token_hex(4)}"
    rows = document("--cache", place, "--publish", f"{registry.host}/{repository}")["tasks"]
    image_id = rows[0]["image"]["image_id"]
    reported = registry.digest_of(repository, f"built-{image_id[7:19]}")
    pins = {"built": f"{registry.host}/{repository}@{reported}", "pulled": f"{name}@{digest}"}
    assert load_image_pins(place / "images.json") == pins
    assert {row["task_id"]: row["pin"] for row in rows} == pins
    forget(engine.api, image_id)
    again = document("built", "--cache", place)["tasks"][0]["image"]
    assert (again["image_id"], again["ref"], again["source"]) == (image_id, pins["built"], "pulled")


@pytest.mark.engine
def test_nothing_is_pushed_when_an_image_is_missing(cache: Cache, built: Task, registry: Registry) -> None:
    place = cache(built, make_task("bad", dockerfile="FROM scratch\nNONSENSE\n"))
    repository = f"ours/{secrets.token_hex(4)}"
    rows = document("--cache", place, "--publish", f"{registry.host}/{repository}", exit_code=1)["tasks"]
    assert [row["pin"] for row in rows] == [None, None]
    assert registry.digest_of(repository, f"built-{rows[1]['image']['image_id'][7:19]}") is None
    assert not (place / "images.json").exists()


@pytest.mark.engine
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(cache: Cache, fake: FakeRegistry, number: signal.Signals) -> None:
    fake.silent.set()
    place = cache(make_task("slow", toml=f'docker_image = "{fake.host}/slow:1"\n'))
    program = "from pathlib import Path; import sys; from scripts.bake import bake; bake([], cache=Path(sys.argv[1]))"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(place)],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 20
    while not fake.asked and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "failed (interrupted)" in stdout
    assert "stopping" in stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pin"], "none of these tasks names a docker_image"),
        (["--pin", "--publish", "localhost:1/a"], "give one of them"),
        (["--publish", "Not A Repository"], "names no image"),
        (["--publish", "somebody/tasks:1"], "without tag or digest"),
    ],
)
def test_what_makes_no_sense_is_a_usage_fault(cache: Cache, arguments: list[str], words: str) -> None:
    place = cache(make_task())
    result = run("--cache", place, *arguments)
    assert isinstance(result.exception, UsageFault)
    assert words in result.exception.message
    assert sorted(path.name for path in place.iterdir()) == ["tasks"]


def test_an_unknown_task_is_refused(cache: Cache) -> None:
    result = run("nothing", "--cache", cache(make_task()))
    assert isinstance(result.exception, Refused)
    assert result.exception.reason == Reason.TASK_UNKNOWN
