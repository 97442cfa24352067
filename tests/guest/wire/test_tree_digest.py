"""The two content digests against the published vectors."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from guest.wire.tree_digest import dataset_digest, task_tree_digest, tree_line
from tests.conformance.vectors import baseline

TREES = baseline("task_tree")
DATASETS = baseline("dataset_digest")


@pytest.mark.parametrize("vector", TREES, ids=lambda vector: str(vector["name"]))
def test_published_trees(vector: dict[str, Any]) -> None:
    files = [(path, b64decode(data)) for path, data in vector["input"]["files_base64"].items()]
    assert task_tree_digest(reversed(files)) == vector["expected"]["content_digest_sha256"]
    # The vectors spell the zero byte and the newline as escapes.
    lines = [tree_line(path, data).decode().replace("\0", "\\0").replace("\n", "\\n") for path, data in sorted(files)]
    assert lines == vector["expected"]["lines"]


@pytest.mark.parametrize("vector", DATASETS, ids=lambda vector: str(vector["name"]))
def test_published_data_sets(vector: dict[str, Any]) -> None:
    tasks = dict(reversed(vector["input"].items()))
    assert dataset_digest(tasks) == vector["expected"]["canonical_content_digest_sha256"]


def test_a_path_given_twice_is_refused() -> None:
    with pytest.raises(Refused, match="'a' occurs twice") as refusal:
        task_tree_digest([("a", b"1"), ("b", b""), ("a", b"2")])
    assert refusal.value.reason == Reason.TASK_MALFORMED


def test_a_name_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(Refused, match="not valid UTF-8"):
        task_tree_digest([("caf\udce9", b"")])
    with pytest.raises(Refused, match="not valid UTF-8"):
        dataset_digest({"caf\udce9": "0" * 64})


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.binary(max_size=8), min_size=1))
def test_every_byte_counts_and_order_does_not(files: dict[str, bytes]) -> None:
    digest = task_tree_digest(files.items())
    assert task_tree_digest(reversed(files.items())) == digest
    path = min(files)
    assert task_tree_digest((files | {path: files[path] + b"x"}).items()) != digest
    assert task_tree_digest([(p, d) for p, d in files.items() if p != path]) != digest
