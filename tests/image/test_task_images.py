"""Images of tasks from a real engine and a real registry: pulled, built or found, once, and named for what they are."""

from __future__ import annotations

import dataclasses
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from guest.reason import Reason
from guest.tasks.task import Task
from guest.trial.engine import Engine
from guest.trial.image import ImageFailure, ResolvedImage, find_image
from image.context import context_of
from tests.image.conftest import Baking, kinds
from tests.images_made import forget
from tests.registry import FakeRegistry, Registry, push
from tests.tasks_made import make_task

pytestmark = pytest.mark.engine

MakeImage = Callable[..., str]
Publish = Callable[[str], tuple[str, str]]
DIGEST = "sha256:" + "ab" * 32


def named(image: str, task_id: str = "made", *, seconds: float = 60, toml: str = "", **how: Any) -> Task:
    """A task whose `docker_image` is that one, and which has no Dockerfile unless one is given."""
    lines = f'docker_image = "{image}"\nbuild_timeout_sec = {seconds}\n{toml}'
    task = make_task(task_id, toml=lines, **how)
    if "dockerfile" in how:
        return task
    files = {path: file for path, file in task.files.items() if path != "environment/Dockerfile"}
    return dataclasses.replace(task, files=files)


def buildable(task_id: str = "made", *, workdir: str = "/srv", content: str = "", toml: str = "") -> Task:
    """A task whose image is built from its Dockerfile; every test gets another one."""
    dockerfile = f"FROM scratch\nLABEL content={content or secrets.token_hex(8)}\n"
    return make_task(task_id, dockerfile=dockerfile + (f"WORKDIR {workdir}\n" if workdir else ""), toml=toml)


@pytest.fixture
def repository() -> str:
    """A repository that no other test uses."""
    return f"somebody/task-{secrets.token_hex(4)}"


@pytest.fixture
def published(engine: Engine, registry: Registry, made_image: MakeImage) -> Publish:
    """Pushes a new image as `repository:1`, removes it here, and gives its id and the digest its registry reports."""

    def publish(repository: str) -> tuple[str, str]:
        image_id = made_image()
        digest = push(engine.api, registry, repository, "1", image_id)
        forget(engine.api, image_id)
        return image_id, digest

    return publish


def test_a_tag_is_pulled_and_known_by_its_digest(
    baking: Baking, registry: Registry, repository: str, published: Publish
) -> None:
    image_id, digest = published(repository)
    task = named(f"{registry.host}/{repository}:1")
    expected = ResolvedImage(image_id, f"{registry.host}/{repository}@{digest}", "digest", "pulled", "/srv")
    assert baking.image(task) == expected
    assert kinds(baking.said) == ["pulling"]
    assert baking.image(task) == dataclasses.replace(expected, source="present")
    assert baking.said == []


def test_a_tag_that_only_this_machine_has_is_known_by_its_id(
    baking: Baking, made_image: MakeImage, repository: str
) -> None:
    image_id = made_image(f"{repository}:1")
    assert baking.image(named(f"{repository}:1")) == ResolvedImage(image_id, image_id, "id", "present", "/srv")


def test_the_digest_of_another_repository_is_not_its_own(
    baking: Baking, engine: Engine, registry: Registry, repository: str, published: Publish
) -> None:
    image_id, _ = published(repository)
    baking.image(named(f"{registry.host}/{repository}:1"))
    engine.api.tag(image_id, f"{repository}-copy", "1")
    assert baking.image(named(f"{repository}-copy:1")).kind == "id"


def test_a_pin_is_what_is_pulled_wherever_the_tag_points(
    baking: Baking, engine: Engine, registry: Registry, repository: str, published: Publish
) -> None:
    pinned_id, digest = published(repository)
    moved_id, moved = published(repository)
    assert digest != moved
    assert registry.digest_of(repository, "1") == moved
    task = named(f"{registry.host}/{repository}:1")
    assert baking.image(task).image_id == moved_id
    pins = {"made": f"{registry.host}/{repository}@{digest}"}
    assert baking.image(task, pins) == ResolvedImage(pinned_id, pins["made"], "digest", "pulled", "/srv")
    assert baking.image(task, pins).source == "present"
    assert find_image(engine.api, pins["made"]) is not None


def test_a_pin_that_cannot_be_pulled_is_never_replaced(
    baking: Baking, registry: Registry, repository: str, made_image: MakeImage
) -> None:
    name = f"{registry.host}/{repository}"
    made_image(f"{name}:1")
    failure = baking.failure(
        named(f"{name}:1", dockerfile="FROM scratch\nWORKDIR /srv\n"), {"made": f"{name}@{DIGEST}"}
    )
    assert failure.reason == Reason.IMAGE_UNAVAILABLE
    assert "manifest unknown" in failure.message or "not found" in failure.message
    assert kinds(baking.said) == ["pulling"]


def test_a_registry_that_lies_about_a_digest_is_refused(
    baking: Baking, engine: Engine, fake: FakeRegistry, registry: Registry, repository: str, published: Publish
) -> None:
    _, digest = published(repository)
    kind, body = registry.manifest(repository, digest)
    fake.answers[f"/v2/{repository}/manifests/{DIGEST}"] = (kind, body)
    pin = f"{fake.host}/{repository}@{DIGEST}"
    failure = baking.failure(named(f"{repository}:1"), {"made": pin})
    assert failure.reason in (Reason.IMAGE_UNAVAILABLE, Reason.IMAGE_MISMATCH)
    assert DIGEST in failure.message
    assert any(path.endswith(DIGEST) for path in fake.asked)
    assert find_image(engine.api, pin) is None


def test_a_digest_in_the_definition_is_kept_to(
    baking: Baking, registry: Registry, repository: str, published: Publish
) -> None:
    image_id, digest = published(repository)
    task = named(f"{registry.host}/{repository}:1@{digest}")
    image = baking.image(task)
    assert baking.image(task) == dataclasses.replace(image, source="present")
    assert image == ResolvedImage(image_id, f"{registry.host}/{repository}@{digest}", "digest", "pulled", "/srv")


def test_what_cannot_be_pulled_is_built_and_says_why(baking: Baking, fake: FakeRegistry, repository: str) -> None:
    dockerfile = f"FROM scratch\nLABEL a={secrets.token_hex(8)}\nWORKDIR /app\n"
    task = named(f"{fake.host}/{repository}:1", dockerfile=dockerfile)
    image = baking.image(task)
    assert (image.kind, image.source, image.ref, image.workdir) == ("id", "built", image.image_id, "/app")
    assert f"could not pull {fake.host}/{repository}:1" in image.note
    assert kinds(baking.said) == ["pulling", "could", "building", "built"]
    asked = len(fake.asked)
    assert baking.image(task) == image
    assert (baking.said, len(fake.asked)) == ([], asked)


def test_a_task_without_an_image_stops_no_other(baking: Baking, fake: FakeRegistry, repository: str) -> None:
    tasks = [
        named(f"{fake.host}/{repository}:1", "gone"),
        named("Not/An:Image:Name", "misnamed"),
        make_task("broken", dockerfile="FROM scratch\nNONSENSE\n"),
        buildable("good"),
    ]
    results = baking(*tasks)
    assert list(results) == ["gone", "misnamed", "broken", "good"]
    failures = {name: result.reason for name, result in results.items() if isinstance(result, ImageFailure)}
    assert failures == {
        "gone": Reason.IMAGE_UNAVAILABLE,
        "misnamed": Reason.IMAGE_MALFORMED,
        "broken": Reason.IMAGE_UNAVAILABLE,
    }
    assert f"{fake.host}/{repository}" in getattr(results["gone"], "message")  # noqa: B009
    assert isinstance(results["good"], ResolvedImage)


def test_tasks_that_share_an_image_pull_or_build_it_once(
    baking: Baking, registry: Registry, repository: str, published: Publish
) -> None:
    published(repository)
    pulled = [named(f"{registry.host}/{repository}:1", f"pulled{number}") for number in range(6)]
    content = secrets.token_hex(8)
    built = [buildable(f"built{number}", content=content) for number in range(6)]
    results = baking(*pulled, *built)
    assert sorted(kinds(baking.said)) == ["building", "built", "pulling"]
    assert len({results[task.task_id] for task in pulled}) == 1
    assert len({results[task.task_id] for task in built}) == 1
    assert len(set(results.values())) == 2


def test_tasks_that_share_an_image_fail_together_and_at_once(
    baking: Baking, fake: FakeRegistry, repository: str
) -> None:
    results = baking(*[named(f"{fake.host}/{repository}:1", f"task{number}") for number in range(6)])
    assert kinds(baking.said) == ["pulling"]
    assert len(set(results.values())) == 1
    assert isinstance(results["task0"], ImageFailure)


@pytest.mark.parametrize("workdir", ["", "/", "/app/.."])
def test_an_image_without_a_working_directory_needs_a_task_with_one(baking: Baking, workdir: str) -> None:
    content = secrets.token_hex(8)
    failure = baking.failure(buildable(workdir=workdir, content=content))
    assert failure.reason == Reason.WORKDIR_UNSUITABLE
    image = baking.image(buildable(workdir=workdir, content=content, toml='workdir = "/app"\n'))
    assert image.source == "built"


def test_a_silent_registry_is_given_up_at_the_time_limit(baking: Baking, fake: FakeRegistry, repository: str) -> None:
    fake.silent.set()
    began = time.monotonic()
    failure = baking.failure(named(f"{fake.host}/{repository}:1", seconds=1))
    assert "within 1 s" in failure.message
    assert time.monotonic() - began < 5


def test_a_bake_can_be_stopped(baking: Baking, fake: FakeRegistry, repository: str, stop: threading.Event) -> None:
    fake.silent.set()
    tasks = [named(f"{fake.host}/{repository}:{number}", f"task{number}") for number in range(8)]
    threading.Timer(0.5, stop.set).start()
    began = time.monotonic()
    results = baking(*tasks, stop=stop)
    assert time.monotonic() - began < 5
    assert {result.reason for result in results.values() if isinstance(result, ImageFailure)} == {Reason.INTERRUPTED}
    assert len(kinds(baking.said)) == 4, "no more begin than work at once"


def test_a_built_image_can_be_found_by_its_label(baking: Baking, engine: Engine) -> None:
    task = buildable()
    baking.image(task)
    context = context_of(task)
    assert context is not None
    found = find_image(engine.api, context.image_name)
    assert found is not None
    assert found["Config"]["Labels"]["evalguest.image"] == "task"
    assert found["RepoTags"] == [context.image_name]
