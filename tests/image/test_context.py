"""The build context of a task: its environment directory, and a name that follows every byte and mode of it."""

from __future__ import annotations

import dataclasses
import io
import tarfile

import pytest

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.task import Task
from guest.tasks.tree import TreeFile
from image.context import BuildContext, context_of
from tests.tasks_made import make_task


def context(**files: str) -> BuildContext:
    return made(make_task(files={f"environment/{path}": text for path, text in files.items()}))


def made(task: Task) -> BuildContext:
    found = context_of(task)
    assert found is not None
    return found


def names(tar: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return archive.getnames()


def test_the_environment_and_nothing_else() -> None:
    found = context(**{"a/b.txt": "b"})
    assert names(found.tar) == ["Dockerfile", "a", "a/b.txt"]
    with tarfile.open(fileobj=io.BytesIO(found.tar)) as archive:
        entries = {entry.name: (entry.mode, entry.uid, entry.gid, entry.mtime) for entry in archive}
    mtime = entries["a"][3]
    assert entries == {"Dockerfile": (0o644, 0, 0, mtime), "a": (0o755, 0, 0, mtime), "a/b.txt": (0o644, 0, 0, mtime)}


def test_the_name_follows_content_path_and_mode() -> None:
    task = make_task(files={"environment/run": "x"})
    flipped = {**task.files, "environment/run": TreeFile(b"x", executable=True)}
    others = [
        made(make_task(files={"environment/run": "y"})),
        made(make_task(files={"environment/ran": "x"})),
        made(make_task(dockerfile="FROM scratch\n", files={"environment/run": "x"})),
        made(dataclasses.replace(task, files=flipped)),
    ]
    assert len({made(task).image_name, *(each.image_name for each in others)}) == 5
    assert made(make_task("other", test="false", files={"environment/run": "x"})).image_name == made(task).image_name


def test_what_the_ignore_file_names_is_left_out() -> None:
    found = context(**{".dockerignore": "*.log\n", "a.log": "1", "a.txt": "2"})
    assert sorted(found.files) == [".dockerignore", "Dockerfile", "a.txt"]
    assert names(found.tar) == [".dockerignore", "Dockerfile", "a.txt"]
    assert context(**{".dockerignore": "*.log\n", "a.txt": "2"}).image_name == found.image_name


def test_the_engine_gets_its_two_files_even_when_they_are_ignored() -> None:
    found = context(**{".dockerignore": "*\n!a.txt\n", "a.txt": "2"})
    assert sorted(found.files) == ["a.txt"]
    assert names(found.tar) == [".dockerignore", "Dockerfile", "a.txt"]


def test_an_ignore_file_that_only_some_builders_read_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        context(**{"Dockerfile.dockerignore": "x"})
    assert caught.value.reason == Reason.TASK_UNSUPPORTED
    assert "Dockerfile.dockerignore" in caught.value.message


def test_no_dockerfile_no_context() -> None:
    task = make_task()
    files = {path: file for path, file in task.files.items() if path != "environment/Dockerfile"}
    assert context_of(dataclasses.replace(task, files=files)) is None
