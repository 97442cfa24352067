"""Pins come from what a real registry reports."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

import pytest

from guest.reason import Reason
from guest.trial.engine import Engine
from guest.trial.image import ImageFailure, ResolvedImage, find_image
from guest.trial.image_reference import parse_reference
from image.pins import pin, publish
from tests.image.conftest import Baking
from tests.images_made import forget
from tests.registry import FakeRegistry, Registry, free_port, push
from tests.tasks_made import make_task

pytestmark = pytest.mark.engine


def silent(_task_id: str, _words: str) -> None:
    """Say nothing."""


def test_pins_are_asked_for_and_nothing_is_pulled(
    engine: Engine, registry: Registry, fake: FakeRegistry, made_image: Callable[..., str], stop: threading.Event
) -> None:
    name = f"{registry.host}/pinned/{secrets.token_hex(4)}"
    image_id = made_image()
    digest = push(engine.api, registry, name.partition("/")[2], "1", image_id)
    forget(engine.api, image_id)
    tasks = [
        make_task("there", toml=f'docker_image = "{name}:1"\n'),
        make_task("gone", toml=f'docker_image = "{name}:2"\n'),
        make_task("lost", toml=f'docker_image = "{fake.host}/lost:1"\n'),
        make_task("misnamed", toml='docker_image = "Not/An:Image:Name"\n'),
        make_task("built"),
    ]
    pins = pin(engine.api, tasks, say=silent, stop=stop)
    assert pins["there"] == f"{name}@{digest}"
    failures = {task_id: result.reason for task_id, result in pins.items() if isinstance(result, ImageFailure)}
    assert failures == {
        "gone": Reason.ENGINE_FAULT,
        "lost": Reason.ENGINE_FAULT,
        "misnamed": Reason.IMAGE_MALFORMED,
    }
    assert f"{name}:2" in str(pins["gone"])
    assert find_image(engine.api, f"{name}:1") is None
    assert find_image(engine.api, f"{name}@{digest}") is None


def test_a_published_image_is_pulled_elsewhere_by_its_pin(
    engine: Engine, registry: Registry, baking: Baking, stop: threading.Event
) -> None:
    task = make_task("Some.Task_1", dockerfile=f"FROM scratch\nLABEL a={secrets.token_hex(8)}\nWORKDIR /srv\n")
    built = baking.image(task)
    repository = f"published/{secrets.token_hex(4)}"
    target = parse_reference(f"{registry.host}/{repository}")
    pins = publish(engine.api, target, {task.task_id: built}, say=silent, stop=stop)
    digest = registry.digest_of(repository, f"Some.Task_1-{built.image_id[7:19]}")
    assert pins == {task.task_id: f"{registry.host}/{repository}@{digest}"}
    forget(engine.api, built.image_id)
    pinned = {task.task_id: f"{registry.host}/{repository}@{digest}"}
    expected = ResolvedImage(built.image_id, pinned[task.task_id], "digest", "pulled", "/srv")
    assert baking.image(task, pinned) == expected


def test_an_image_that_a_registry_has_keeps_its_name(engine: Engine, stop: threading.Event) -> None:
    ref = "example.invalid/a@sha256:" + "ab" * 32
    image = ResolvedImage("sha256:" + "cd" * 32, ref, "digest", "present", "/srv")
    assert publish(engine.api, parse_reference("example.invalid/b"), {"a": image}, say=silent, stop=stop) == {"a": ref}


def test_a_push_that_fails_is_told_and_stops_no_other(
    engine: Engine, registry: Registry, made_image: Callable[..., str], stop: threading.Event
) -> None:
    there, absent = made_image(), "sha256:" + "00" * 32
    images = {
        "there": ResolvedImage(there, there, "id", "built", "/srv"),
        "absent": ResolvedImage(absent, absent, "id", "built", "/srv"),
    }
    name = f"{registry.host}/half/{secrets.token_hex(4)}"
    pins = publish(engine.api, parse_reference(name), images, say=silent, stop=stop)
    assert str(pins["there"]).startswith(f"{name}@sha256:")
    assert isinstance(pins["absent"], ImageFailure)
    nobody = f"localhost:{free_port()}/x"
    refused = publish(engine.api, parse_reference(nobody), {"there": images["there"]}, say=silent, stop=stop)
    assert isinstance(refused["there"], ImageFailure)
    assert f"could not push {nobody}:there-" in refused["there"].message


def test_nothing_is_asked_once_stopped(engine: Engine, fake: FakeRegistry, stop: threading.Event) -> None:
    stop.set()
    [result] = pin(engine.api, [make_task(toml=f'docker_image = "{fake.host}/a:1"\n')], say=silent, stop=stop).values()
    assert isinstance(result, ImageFailure)
    assert (result.reason, fake.asked) == (Reason.INTERRUPTED, [])
