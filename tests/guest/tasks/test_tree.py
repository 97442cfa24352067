"""Reading a task's directory: the published trees on a real file system, and hostile ones."""

from __future__ import annotations

import os
import socket
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.tree import TreeFile, _read_file, digest_of, read_tree
from tests.conformance.vectors import baseline


@pytest.mark.parametrize("vector", baseline("task_tree"), ids=lambda vector: str(vector["name"]))
def test_published_trees_on_disk(tmp_path: Path, vector: dict[str, Any]) -> None:
    given = vector["input"]
    for path, data in given["files_base64"].items():
        full = tmp_path / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(b64decode(data))
    for path, mode in given["modes"].items():
        (tmp_path / path).chmod(int(mode, 8))
    for path, target in given["symlinks"].items():
        (tmp_path / path).symlink_to(target)
    for path in given["empty_dirs"]:
        (tmp_path / path).mkdir(parents=True)
    files = read_tree(tmp_path)
    assert digest_of(files) == vector["expected"]["content_digest_sha256"]
    assert len(files) == vector["expected"]["file_count"]
    assert list(files) == [line.split("\\0")[0] for line in vector["expected"]["lines"]]


def test_contents_and_the_executable_bit(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "data").write_bytes(b"\0\xff")
    (tmp_path / "data").chmod(0o666)
    assert read_tree(tmp_path) == {
        "data": TreeFile(b"\0\xff", executable=False),
        "run.sh": TreeFile(b"#!/bin/sh\n", executable=True),
    }


def test_what_is_not_a_regular_file_is_passed_over_and_never_opened(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    root = tmp_path / "task"
    root.mkdir()
    (root / "kept").write_bytes(b"kept")
    (root / "to-file").symlink_to("../outside/secret")
    (root / "to-directory").symlink_to("../outside")
    (root / "to-itself").symlink_to("to-itself")
    (root / "dangling").symlink_to("nowhere")
    os.mkfifo(root / "pipe")  # opening it to read would wait for ever
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        assert list(read_tree(root)) == ["kept"]


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/d/caf\xe9")).write_bytes(b"")
    with pytest.raises(Refused, match="not valid UTF-8") as refusal:
        read_tree(tmp_path)
    assert refusal.value.reason == Reason.TASK_MALFORMED


def test_a_sparse_file_of_terabytes_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(Refused, match="huge makes the tree larger than its limit"):
        read_tree(tmp_path)


def test_many_files_share_one_limit(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"x" * 100)
    assert len(read_tree(tmp_path, max_bytes=300)) == 3
    with pytest.raises(Refused, match="larger than its limit"):
        read_tree(tmp_path, max_bytes=299)


def test_a_tree_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    deepest = tmp_path.joinpath(*["d"] * 32)
    deepest.mkdir(parents=True)
    (deepest / "file").write_bytes(b"")
    assert list(read_tree(tmp_path)) == ["d/" * 32 + "file"]
    (deepest / "d").mkdir()
    with pytest.raises(Refused, match="nested more than 32"):
        read_tree(tmp_path)


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guest.tasks.tree.MAX_FILES", 10)
    for number in range(11):
        (tmp_path / str(number)).write_bytes(b"")
    with pytest.raises(Refused, match="more than 10 files"):
        read_tree(tmp_path)


def test_a_directory_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        read_tree(tmp_path / "none")


def test_a_pipe_put_in_the_place_of_a_file_does_not_hold_up_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert _read_file(os.fsencode(tmp_path / "pipe"), "pipe", 10) is None
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(Refused, match="link cannot be read"):
        _read_file(os.fsencode(tmp_path / "link"), "link", 10)
