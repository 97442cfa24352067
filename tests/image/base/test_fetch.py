from __future__ import annotations

import base64
import hashlib
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from guest.errors import EnvironmentFault
from guest.reason import Reason
from image.base.fetch import fetch_debs, fetch_wheels, package_url, sources, unserved
from image.base.lock import LockedWheel
from tests.image.base.made import POOL, Mirror, made_deb, made_lock, mirror

DEB = made_deb()
LOCK = made_lock(DEB)
SHA256 = LOCK.packages[0].sha256


@pytest.fixture
def server() -> Iterator[Mirror]:
    with mirror() as made:
        yield made


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def path_of(root: str = "") -> str:
    # as curl and apt write it: plus signs escaped, tildes not
    return f"{root}/pool/main/h/hello%2Bx/hello_2.0-1%2Bdeb13u1~x_amd64.deb"


def store_of(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "debs").iterdir())


def test_the_roots_are_the_mirror_and_the_snapshot_of_the_locks_day() -> None:
    assert sources(LOCK, "http://mirror.example.org/debian/") == (
        "http://mirror.example.org/debian",
        "https://snapshot.debian.org/archive/debian/20261122T091544Z",
    )
    assert package_url("http://m", LOCK.packages[0]) == f"http://m{path_of()}"
    assert POOL.endswith("hello_2.0-1+deb13u1~x_amd64.deb")


def test_a_package_comes_from_the_mirror_once(server: Mirror, tmp_path: Path) -> None:
    server.files[path_of()] = DEB
    said: list[str] = []
    for _ in range(2):
        files = fetch_debs(LOCK, tmp_path, (server.url,), said.append)
        assert files[SHA256].read_bytes() == DEB
    assert server.asked == [path_of()]
    assert len(said) == 1
    assert store_of(tmp_path) == [SHA256]


def test_the_snapshot_service_is_asked_when_the_mirror_has_moved(server: Mirror, tmp_path: Path) -> None:
    snapshot = f"/archive/debian/{LOCK.snapshot}"
    server.files[path_of(snapshot)] = DEB
    fetch_debs(LOCK, tmp_path, (f"{server.url}/debian", f"{server.url}{snapshot}"), lambda _: None)
    assert server.asked == [path_of("/debian"), path_of(snapshot)]
    assert store_of(tmp_path) == [SHA256]


def test_a_stale_lock_names_the_package_and_what_to_do(server: Mirror, tmp_path: Path) -> None:
    roots = (f"{server.url}/debian", f"{server.url}/archive/debian/{LOCK.snapshot}")
    with pytest.raises(EnvironmentFault) as caught:
        fetch_debs(LOCK, tmp_path, roots, lambda _: None)
    fault = caught.value
    assert fault.reason is Reason.MIRROR_MOVED
    assert "package hello 1:2.0-1+deb13u1~x" in fault.message
    assert fault.message.count("HTTP 404") == 2
    assert "evalguest lock write --refresh" in fault.hint
    assert f"--mirror {roots[1]}" in fault.hint
    assert store_of(tmp_path) == []


def test_a_mirror_that_moved_and_a_snapshot_out_of_reach_are_told_apart(server: Mirror, tmp_path: Path) -> None:
    dead = f"http://127.0.0.1:{unused_port()}"
    with pytest.raises(EnvironmentFault) as caught:
        fetch_debs(LOCK, tmp_path, (server.url, dead), lambda _: None)
    assert caught.value.reason is Reason.MIRROR_MOVED
    assert "HTTP 404" in caught.value.message
    assert dead in caught.value.message


def test_no_network_is_not_a_moved_mirror(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        fetch_debs(LOCK, tmp_path, (f"http://127.0.0.1:{unused_port()}",), lambda _: None)
    assert caught.value.reason is Reason.NETWORK_UNAVAILABLE


def test_a_failing_server_is_asked_again(server: Mirror, tmp_path: Path) -> None:
    server.files[path_of()] = 503
    with pytest.raises(EnvironmentFault) as caught:
        fetch_debs(LOCK, tmp_path, (server.url,), lambda _: None)
    assert caught.value.reason is Reason.NETWORK_UNAVAILABLE
    assert len(server.asked) == 3


@pytest.mark.parametrize("altered", [DEB[:-1] + b"!", DEB + b"x", DEB[:-1], b"", b"<html>captive portal</html>"])
def test_an_altered_package_is_refused_and_not_kept(server: Mirror, tmp_path: Path, altered: bytes) -> None:
    server.files[path_of()] = altered
    with pytest.raises(EnvironmentFault) as caught:
        fetch_debs(LOCK, tmp_path, (server.url,), lambda _: None)
    assert caught.value.reason is Reason.LOCK_MISMATCH
    assert "hello" in caught.value.message
    assert SHA256 in caught.value.message
    assert store_of(tmp_path) == []


def test_an_altered_package_at_the_mirror_is_taken_from_the_next_root(server: Mirror, tmp_path: Path) -> None:
    server.files[path_of("/bad")] = DEB[::-1]
    server.files[path_of("/good")] = DEB
    files = fetch_debs(LOCK, tmp_path, (f"{server.url}/bad", f"{server.url}/good"), lambda _: None)
    assert files[SHA256].read_bytes() == DEB


def test_a_damaged_cache_is_noticed(server: Mirror, tmp_path: Path) -> None:
    server.files[path_of()] = DEB
    (tmp_path / "debs").mkdir()
    (tmp_path / "debs" / SHA256).write_bytes(b"rot")
    said: list[str] = []
    files = fetch_debs(LOCK, tmp_path, (server.url,), said.append)
    assert files[SHA256].read_bytes() == DEB
    assert "no longer has the content" in said[0]


def test_unserved_tells_what_is_gone(server: Mirror) -> None:
    assert unserved(LOCK, server.url) == list(LOCK.packages)
    server.files[path_of()] = DEB
    assert unserved(LOCK, server.url) == []
    server.files[path_of()] = 500
    with pytest.raises(EnvironmentFault) as caught:
        unserved(LOCK, server.url)
    assert caught.value.reason is Reason.NETWORK_UNAVAILABLE


def made_wheel(directory: Path) -> bytes:
    path = directory / "evalguest_made-1.0-py3-none-any.whl"
    info = "evalguest_made-1.0.dist-info"
    files = {
        "evalguest_made.py": b"",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: evalguest-made\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name, data)
    return path.read_bytes()


def test_a_wheel_comes_by_the_users_pip_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_wheel(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    sha256 = hashlib.sha256(data).hexdigest()
    lock = made_lock(DEB, wheels=(LockedWheel(name="evalguest-made", version="1.0", sha256=sha256),))
    cache = tmp_path / "cache"
    assert fetch_wheels(lock, cache, lambda _: None)[sha256].read_bytes() == data
    (tmp_path / "evalguest_made-1.0-py3-none-any.whl").unlink()
    assert fetch_wheels(lock, cache, lambda _: None)[sha256].read_bytes() == data


def test_another_wheel_of_that_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_wheel(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    lock = made_lock(DEB, wheels=(LockedWheel(name="evalguest-made", version="1.0", sha256="0" * 64),))
    with pytest.raises(EnvironmentFault) as caught:
        fetch_wheels(lock, tmp_path / "cache", lambda _: None)
    assert "evalguest-made 1.0" in caught.value.message
    assert list((tmp_path / "cache" / "wheels").iterdir()) == []
