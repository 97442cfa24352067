"""A whole task: its files, its instruction, its digests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.task import Task, strip_provenance_marker, task_from_files
from guest.tasks.tree import TreeFile
from tests.guest.tasks.packs import LEGACY_TOML, MODERN_TOML, task_files


def make(files: Mapping[str, bytes]) -> Task:
    return task_from_files("sample", {path: TreeFile(data) for path, data in files.items()})


def test_subtrees_and_digests() -> None:
    task = make(task_files(MODERN_TOML, tests__data__a=b"1", testsuite=b"2"))
    assert sorted(task.subtree("tests")) == ["data/a", "test.sh"]
    assert task.subtree("tests/data/") == {"a": TreeFile(b"1")}
    assert task.subtree("nothing") == {}
    assert task.has_dockerfile


def test_a_published_image_needs_no_dockerfile() -> None:
    files = task_files(LEGACY_TOML)
    del files["environment/Dockerfile"]
    assert not make(files).has_dockerfile
    files["task.toml"] = MODERN_TOML.encode()
    # A task without any image loads too: having none is an outcome of its trials, and the job goes on.
    assert not make(files).has_dockerfile


@pytest.mark.parametrize("path", ["task.toml", "instruction.md", "tests/test.sh"])
def test_a_required_file_is_missing(path: str) -> None:
    files = task_files(MODERN_TOML)
    del files[path]
    with pytest.raises(Refused, match=f"sample: no {path}") as refusal:
        make(files)
    assert refusal.value.reason == Reason.TASK_MALFORMED


@pytest.mark.parametrize(
    "path",
    ["environment/docker-compose.yaml", "environment/docker-compose.yml", "trajectory.json", "tests/.harborignore",
     "solution/deep/.harborignore"],
)  # fmt: skip
def test_files_that_ask_for_what_is_not_supported(path: str) -> None:
    with pytest.raises(Refused) as refusal:
        make(task_files(MODERN_TOML) | {path: b"x"})
    assert refusal.value.reason == Reason.TASK_UNSUPPORTED
    assert f"sample/{path} is not supported" in refusal.value.message


def test_a_compose_file_elsewhere_is_only_a_file() -> None:
    assert make(task_files(MODERN_TOML, environment__app__docker_compose=b"x") | {"tests/docker-compose.yaml": b"x"})


@pytest.mark.parametrize("data", [b"", b" \n\n", b"# canary 1234\n\n", b"\xff\xfe", b"x" * (1024 * 1024 + 1)])
def test_an_instruction_that_cannot_be_given(data: bytes) -> None:
    with pytest.raises(Refused, match=r"instruction\.md"):
        make(task_files(MODERN_TOML) | {"instruction.md": data})


@pytest.mark.parametrize(
    ("text", "shown"),
    [("Do it.\n", "Do it.\n"),
     ("<!-- harbor-canary GUID 1 -->\n\n\nDo it.\n", "Do it.\n"),
     ("# BENCHMARK DATA. Canary GUID 1\n  <!-- CANARY 2 -->  \n\nDo it.\n", "Do it.\n"),
     ("# A title\n\nDo it.\n", "# A title\n\nDo it.\n"),
     ("\n# canary\nDo it.\n", "\n# canary\nDo it.\n"),
     ("Do it.\n# canary\n", "Do it.\n# canary\n"),
     ("The canary sings.\n", "The canary sings.\n"),
     ("# canary\r\n\r\nDo it.\n", "Do it.\n"),
     ("# canary", "")],
)  # fmt: skip
def test_provenance_markers_are_not_shown(text: str, shown: str) -> None:
    assert strip_provenance_marker(text) == shown


def test_the_digest_covers_the_marker_and_the_agent_does_not_see_it() -> None:
    marked = make(task_files(MODERN_TOML) | {"instruction.md": b"# canary 1\n\nDo it.\n"})
    plain = make(task_files(MODERN_TOML) | {"instruction.md": b"Do it.\n"})
    assert marked.instruction == plain.instruction == "Do it.\n"
    assert marked.tree_digest != plain.tree_digest


@given(st.text())
def test_stripping_gives_the_end_of_the_text_and_does_nothing_twice(text: str) -> None:
    shown = strip_provenance_marker(text)
    assert text.endswith(shown)
    if "canary" not in text.lower():
        assert shown == text
