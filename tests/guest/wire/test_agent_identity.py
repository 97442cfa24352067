"""Which agent it is: the hash of the archive, and the digest of the files in it."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire.agent_identity import agent_hash, package_tree_sha
from tests.guest.wire.records import vectors
from tests.guest.wire.values import refusal_of

VECTORS: list[dict[str, Any]] = vectors()["later_revision"]["package_tree_sha"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_published_trees(vector: dict[str, Any]) -> None:
    files = [(path, base64.b64decode(text)) for path, text in vector["input"]["files_base64"].items()]
    if "reject" in vector:
        refusal = refusal_of(lambda: package_tree_sha(files))
        assert refusal is not None
        assert refusal.reason is Reason.PACKAGE_MALFORMED
    else:
        assert package_tree_sha(files) == vector["expected"]["package_tree_sha"]


def test_by_hand() -> None:
    leaves = [sha256(b"a/z\x001").digest(), sha256(b"b\x002").digest()]
    assert package_tree_sha([("b", b"2"), ("./a//z", b"1")]) == sha256(b"".join(leaves)).hexdigest()
    assert package_tree_sha([("b", b"2"), ("a\\z", b"1")]) == sha256(b"".join(leaves)).hexdigest()
    assert agent_hash(b"PK") == sha256(b"PK").hexdigest()


@pytest.mark.parametrize(
    "paths",
    [
        [],
        [""],
        ["."],
        ["./"],
        ["/x"],
        ["\\x"],
        ["../x"],
        ["a/../x"],
        ["a\\..\\x"],
        ["x", "x"],
        ["x", "./x"],
        ["\ud800"],
    ],
)
def test_packages_that_are_refused(paths: list[str]) -> None:
    refusal = refusal_of(lambda: package_tree_sha((path, b"") for path in paths))
    assert refusal is not None
    assert refusal.reason is Reason.PACKAGE_MALFORMED


@given(st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=8)), max_size=4))
def test_no_files_crash_it_and_order_does_not_matter(files: list[tuple[str, bytes]]) -> None:
    if refusal_of(lambda: package_tree_sha(files)) is None:
        assert package_tree_sha(files) == package_tree_sha(reversed(files))
