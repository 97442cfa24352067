from __future__ import annotations

import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from docker.errors import ImageNotFound

from guest.errors import EnvironmentFault
from guest.reason import Reason
from guest.trial.engine import Engine
from image.base import ensure
from image.base.ensure import archive_path, built, ensure_base
from image.base.lock import BaseLock
from tests.image.base.made import made_deb, made_lock, mirror, tar_of

DEB = made_deb()
PATH = "/pool/main/h/hello%2Bx/hello_2.0-1%2Bdeb13u1~x_amd64.deb"


def bootstrap(lock: BaseLock, repository: Path, raw: Path, say: Callable[[str], None]) -> None:
    """Stands for mmdebstrap: a tree of one file that names the package."""
    say("building a made tree")
    assert sorted(path.name for path in repository.iterdir()) == sorted(["Packages", f"{lock.packages[0].sha256}.deb"])
    raw.write_bytes(tar_of("./usr/hello", lock.packages[0].version.encode(), "w"))


@dataclass
class Place:
    """One cache directory, the mirror it is filled from, and what was said."""

    engine: Engine
    cache: Path
    url: str
    lock: BaseLock
    said: list[str] = field(default_factory=list)

    def ensure(self) -> ensure.BaseImage:
        return ensure_base(self.engine.api, self.cache, self.said.append, lock=self.lock, mirror=self.url)

    def is_clean(self) -> bool:
        return not list(self.cache.glob("base-work-*"))


@pytest.fixture
def place(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(ensure, "choose_bootstrap", lambda *_: bootstrap)
    with mirror() as server:
        server.files[PATH] = DEB
        lock = made_lock(DEB)
        cache = tmp_path / "first"
        cache.mkdir()
        with built(lock, cache, lambda _: None, mirror=server.url, bootstrap=bootstrap) as result:
            lock = lock.model_copy(update={"expected": result.expected})
        yield Place(engine, tmp_path / "a cache", server.url, lock)
        with suppress(ImageNotFound):
            engine.api.remove_image(lock.ref, force=True)


@pytest.mark.engine
def test_it_is_built_once_loaded_from_the_archive_and_then_left_alone(place: Place) -> None:
    image = place.ensure()
    assert image.ref == f"evalguest-base:sha256-{place.lock.expected.config_sha256}" == place.lock.ref
    expected = place.lock.expected
    assert image.image_id == f"sha256:{expected.config_sha256 if image.id_is == 'config' else expected.manifest_sha256}"
    assert any("building" in words for words in place.said)
    assert place.is_clean()

    place.said.clear()
    assert place.ensure() == image
    assert place.said == []

    place.engine.api.remove_image(image.ref, force=True)
    assert place.ensure() == image
    assert [words.split(" ")[0] for words in place.said] == ["loading"]


@pytest.mark.engine
@pytest.mark.parametrize("damage", ["cut", "flipped", "another"])
def test_a_damaged_archive_is_built_again(place: Place, damage: str) -> None:
    image = place.ensure()
    place.engine.api.remove_image(image.ref, force=True)
    archive = archive_path(place.lock, place.cache)
    whole = archive.read_bytes()
    archive.write_bytes(
        {
            "cut": whole[: len(whole) // 2],
            "flipped": whole.replace(b"1:2.0-1+deb13u1~x", b"1:2.0-1+deb13u2~x"),
            "another": tar_of("manifest.json", b"[]", "w"),
        }[damage]
    )
    place.said.clear()
    assert place.ensure() == image
    assert any("did not take the cached archive" in words for words in place.said)
    assert archive.read_bytes() == whole


@pytest.mark.engine
def test_another_image_under_the_name_does_not_count(place: Place, base_image: str) -> None:
    repository, _, tag = place.lock.ref.partition(":")
    place.engine.api.tag(base_image, repository, tag)
    assert ensure.find_base(place.engine.api, place.lock) is None
    image = place.ensure()
    assert image == ensure.find_base(place.engine.api, place.lock)
    assert image.image_id != place.engine.api.inspect_image(base_image)["Id"]


@pytest.mark.engine
def test_a_build_that_differs_from_the_lock_leaves_nothing(place: Place) -> None:
    wrong = place.lock.expected.model_copy(update={"tar_sha256": "5" * 64})
    place.lock = place.lock.model_copy(update={"expected": wrong})
    with pytest.raises(EnvironmentFault) as caught:
        place.ensure()
    assert caught.value.reason is Reason.LOCK_MISMATCH
    assert "5" * 64 in caught.value.message
    assert ensure.find_base(place.engine.api, place.lock) is None
    assert not archive_path(place.lock, place.cache).exists()
    assert place.is_clean()


@pytest.mark.engine
def test_those_who_ask_at_the_same_time_build_once(place: Place) -> None:
    images: list[ensure.BaseImage] = []
    threads = [threading.Thread(target=lambda: images.append(place.ensure())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(images) == 4
    assert len(set(images)) == 1
    assert place.said.count("building a made tree") == 1
    assert any("waiting for another process" in words for words in place.said)


@pytest.mark.engine
def test_what_a_stopped_build_left_is_removed(place: Place) -> None:
    left = place.cache / "base-work-left"
    (left / "mmdebstrap" / "tree").mkdir(parents=True)
    (left / "raw.tar").write_bytes(b"half")
    place.ensure()
    assert not left.exists()
    assert any(str(left) in words for words in place.said)


@pytest.mark.engine
def test_too_little_room_is_said_before_anything_is_fetched(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensure, "_ROOM_BYTES", 10**18)
    with pytest.raises(EnvironmentFault) as caught:
        place.ensure()
    assert caught.value.reason is Reason.NO_SPACE
    assert str(place.cache) in caught.value.message
    assert not (place.cache / "debs").exists()


@pytest.mark.engine
def test_a_failing_build_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_lock: BaseLock, repository: Path, raw: Path, _say: Callable[[str], None]) -> None:
        raw.write_bytes(b"half")
        tarfile.open(repository / "Packages").close()

    monkeypatch.setattr(ensure, "choose_bootstrap", lambda *_: fails)
    with pytest.raises(tarfile.ReadError):
        place.ensure()
    assert place.is_clean()
    assert not list(place.cache.glob("base-*.tar"))
