"""Pulling an image that is pinned by digest, and answers of the engine that are broken off."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator

import docker
import pytest

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.engine import Engine
from guest.trial.image import digest_in, find_image, is_suitable_workdir, pull, pull_pinned, workdir_of
from guest.trial.image_reference import parse_reference
from guest.trial.long_answer import Item, address_of, follow
from tests.images_made import forget, import_image
from tests.registry import FakeRegistry, Registry, push

DIGEST = "sha256:" + "ab" * 32


@pytest.fixture
def image_id(engine: Engine) -> Iterator[str]:
    """An image like no other, in the engine."""
    made = import_image(engine.api, workdir="/srv/place")
    yield made
    forget(engine.api, made)


@pytest.mark.engine
def test_pulled_once_by_its_digest(engine: Engine, registry: Registry, image_id: str, stop: threading.Event) -> None:
    digest = push(engine.api, registry, "pinned/one", "1", image_id)
    forget(engine.api, image_id)
    ref = f"{registry.host}/pinned/one@{digest}"
    for source in ("pulled", "present"):
        image = pull_pinned(engine.api, ref, seconds=60, stop=stop)
        assert (image.image_id, image.ref, image.kind, image.source) == (image_id, ref, "digest", source)
        assert image.workdir == "/srv/place"
    with_tag = pull_pinned(engine.api, f"{registry.host}/pinned/one:9@{digest}", seconds=60, stop=stop)
    assert with_tag.ref == ref


@pytest.mark.engine
def test_the_same_bytes_from_another_repository_are_pulled_again(
    engine: Engine, registry: Registry, image_id: str, stop: threading.Event
) -> None:
    digest = push(engine.api, registry, "pinned/two", "1", image_id)
    with pytest.raises(EnvironmentFault) as caught:
        pull_pinned(engine.api, f"{registry.host}/pinned/three@{digest}", seconds=60, stop=stop)
    assert caught.value.reason == Reason.IMAGE_UNAVAILABLE
    assert f"could not pull {registry.host}/pinned/three@{digest}" in caught.value.message


@pytest.mark.engine
@pytest.mark.parametrize("ref", ["somebody/task:1", "somebody/task", "", f"@{DIGEST}", "somebody/task@sha256:00"])
def test_what_is_not_pinned_is_refused(engine: Engine, stop: threading.Event, ref: str) -> None:
    with pytest.raises(Refused) as caught:
        pull_pinned(engine.api, ref, seconds=1, stop=stop)
    assert caught.value.reason == Reason.IMAGE_MALFORMED


@pytest.mark.engine
def test_a_registry_that_gives_other_bytes_is_refused(
    engine: Engine, registry: Registry, fake: FakeRegistry, image_id: str, stop: threading.Event
) -> None:
    digest = push(engine.api, registry, "pinned/four", "1", image_id)
    kind, body = registry.manifest("pinned/four", digest)
    fake.answers[f"/v2/pinned/four/manifests/{digest}"] = (kind, body + b"\n")
    forget(engine.api, image_id)
    with pytest.raises(EnvironmentFault) as caught:
        pull_pinned(engine.api, f"{fake.host}/pinned/four@{digest}", seconds=60, stop=stop)
    assert digest in caught.value.message
    assert find_image(engine.api, f"{fake.host}/pinned/four@{digest}") is None


@pytest.mark.engine
def test_a_pull_ends_with_its_time_and_when_stopped(engine: Engine, fake: FakeRegistry, stop: threading.Event) -> None:
    fake.silent.set()
    reference = parse_reference(f"{fake.host}/{secrets.token_hex(4)}:1")
    began = time.monotonic()
    with pytest.raises(EnvironmentFault) as late:
        pull(engine.api, reference, seconds=0.5, stop=stop)
    assert f"could not pull {reference} within 0.5 s" in late.value.message
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(Refused) as stopped:
        pull(engine.api, reference, seconds=60, stop=stop)
    assert stopped.value.reason == Reason.INTERRUPTED
    assert time.monotonic() - began < 5


@pytest.mark.engine
def test_an_answer_gives_its_items_and_its_end(engine: Engine, stop: threading.Event) -> None:
    items = [{"number": number} for number in range(1000)]
    assert list(follow(engine.api, "count", lambda _: iter(items), seconds=60, stop=stop)) == items


@pytest.mark.engine
def test_an_answer_ends_at_an_error_in_it(engine: Engine, stop: threading.Event) -> None:
    answer: list[Item] = [{"a": 1}, {"error": "no room"}, {"b": 2}]
    seen: list[Item] = []
    with pytest.raises(EnvironmentFault, match="could not count: no room"):
        seen.extend(follow(engine.api, "count", lambda _: answer, seconds=60, stop=stop))
    with pytest.raises(EnvironmentFault, match=r"could not look: .*No such image"):
        list(follow(engine.api, "look", lambda api: [api.inspect_image(DIGEST)], seconds=60, stop=stop))


@pytest.mark.engine
def test_a_fault_of_the_caller_is_not_swallowed(engine: Engine, stop: threading.Event) -> None:
    def faulty(_: docker.APIClient) -> list[Item]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(follow(engine.api, "count", faulty, seconds=60, stop=stop))


@pytest.mark.engine
def test_the_answer_comes_from_the_same_engine(engine: Engine, stop: threading.Event) -> None:
    [info] = follow(engine.api, "ask", lambda api: [api.info()], seconds=60, stop=stop)
    assert info["ID"] == engine.api.info()["ID"]
    assert address_of(engine.api).startswith("unix:///")


def test_a_digest_counts_for_its_own_repository() -> None:
    assert digest_in(f"ubuntu@{DIGEST}", "docker.io/library/ubuntu") == DIGEST
    assert digest_in(f"ubuntu@{DIGEST}", "docker.io/other/ubuntu") is None
    assert digest_in("<none>@<none>", "docker.io/library/ubuntu") is None
    assert digest_in("ubuntu:24.04", "docker.io/library/ubuntu") is None


def test_working_directories() -> None:
    assert [path for path in ("", "/", "//", "/.", "/app/..", ".") if is_suitable_workdir(path)] == []
    assert all(is_suitable_workdir(path) for path in ("/app", "/app/", "/a/b", "app", "/.hidden", "/..."))
    assert workdir_of({"Config": {"WorkingDir": "/app"}}) == "/app"
    assert workdir_of({"Config": {}}) == workdir_of({"Config": None}) == workdir_of({}) == ""
