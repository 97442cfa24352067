from __future__ import annotations

import re
from pathlib import Path

import pytest

from guest.errors import EnvironmentFault
from guest.reason import Reason
from image.base.fetch import DEFAULT_MIRROR, unserved
from image.base.lock import read_lock
from image.base.refresh import resolved_anew, rewrite_from_lines
from image.base.resolve import resolve

NEW = "evalguest-base:sha256-" + "e" * 64


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"FROM evalguest-base:dev\nRUN true\n", f"FROM {NEW}\nRUN true\n".encode()),
        (f"FROM evalguest-base:sha256-{'a' * 64} AS one\n".encode(), f"FROM {NEW} AS one\n".encode()),
        (b"# note\r\nfrom\tevalguest-base:dev\r\n", f"# note\r\nfrom\t{NEW}\r\n".encode()),
        (
            b"FROM evalguest-base:a AS x\nFROM evalguest-base:b\nCOPY --from=x / /\n",
            f"FROM {NEW} AS x\nFROM {NEW}\nCOPY --from=x / /\n".encode(),
        ),
    ],
)
def test_from_lines_follow_the_lock(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "Dockerfile"
    path.write_bytes(old)
    assert rewrite_from_lines([path], NEW) == [path]
    assert path.read_bytes() == new
    assert rewrite_from_lines([path], NEW) == []


@pytest.mark.parametrize(
    "text",
    [
        b"FROM debian:trixie\nRUN echo FROM evalguest-base:dev\n",
        b"# FROM evalguest-base:dev\n",
        b"FROM other/evalguest-base:dev\n",
        b"FROM evalguest-base-other:dev\n",
        b"",
    ],
)
def test_other_lines_stay(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "Dockerfile"
    path.write_bytes(text)
    assert rewrite_from_lines([path], NEW) == []
    assert path.read_bytes() == text


def test_a_mirror_out_of_reach_is_said_in_apts_words() -> None:
    with pytest.raises(EnvironmentFault) as caught:
        resolve(("make",), suite="trixie", mirror="http://127.0.0.1:1/debian")
    assert caught.value.reason is Reason.NETWORK_UNAVAILABLE
    assert "127.0.0.1:1" in caught.value.message


def test_every_dockerfile_of_ours_starts_from_the_locked_image() -> None:
    checkout = Path(__file__).resolve().parents[3]
    files = [*checkout.glob("task-cache/tasks/*/environment/Dockerfile")]
    files += checkout.glob("tests/**/environment/Dockerfile")
    found = {name for path in files for name in re.findall(r"(?im)^FROM\s+(evalguest-base:\S+)", path.read_text())}
    assert found == {read_lock().ref}


@pytest.mark.drill
def test_the_real_mirror_resolves_to_a_lock_whose_packages_it_serves() -> None:
    lock = read_lock()
    new = resolved_anew(lock, DEFAULT_MIRROR)
    assert {"apt", "dpkg", "libc6", *lock.requested} <= {package.name for package in new.packages}
    assert new.epoch >= lock.epoch
    assert unserved(new, DEFAULT_MIRROR) == []
