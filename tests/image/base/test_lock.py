from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from image.base.lock import LOCK_PATH, lock_bytes, parse_lock, read_lock
from tests.image.base.made import made_deb, made_lock

GOOD: dict[str, Any] = json.loads(lock_bytes(made_lock(made_deb())))


def test_the_checkouts_lock_is_in_its_written_form() -> None:
    lock = read_lock()
    assert lock_bytes(lock) == LOCK_PATH.read_bytes()
    assert {"apt", "dpkg", "base-files", *lock.requested} <= {package.name for package in lock.packages}
    assert lock.ref == f"evalguest-base:sha256-{lock.expected.config_sha256}"


def test_the_snapshot_is_a_day_after_the_release_file() -> None:
    # date -u -d @1795252544 gives Sat Nov 21 09:15:44 UTC 2026
    assert made_lock(made_deb()).snapshot == "20261122T091544Z"


def test_a_written_lock_reads_back() -> None:
    lock = made_lock(made_deb())
    assert parse_lock(lock_bytes(lock), where="here") == lock


def refused(document: object) -> str:
    text = json.dumps(document).encode()
    with pytest.raises(Refused) as caught:
        parse_lock(text, where="here.json")
    assert caught.value.reason is Reason.LOCK_MALFORMED
    assert caught.value.message.startswith("here.json: ")
    return caught.value.message


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("schema_version", 2),
        ("schema_version", True),
        ("suite", "trixie main"),
        ("suite", "trixie\n"),
        ("architecture", "arm64"),
        ("epoch", "1795252544"),
        ("epoch", 0),
        ("epoch", 2**32),
        ("epoch", 1.5),
        ("requested", ["hello", "hello"]),
        ("requested", ["good-bye"]),
        ("requested", ["HELLO"]),
        ("packages", []),
        ("packages", {}),
        ("expected", None),
        ("surprise", 1),
    ],
)
def test_a_wrong_member_is_refused(member: str, value: object) -> None:
    assert ("the document" if value == ["good-bye"] else member) in refused({**GOOD, member: value})


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("path", "pool/main/../../etc/passwd.deb"),
        ("path", "/pool/main/h/hello.deb"),
        ("path", "pool/contrib/h/hello.deb"),
        ("path", "pool/main/h/hello.deb?x"),
        ("path", "pool/main/h/hello.tar"),
        ("path", "http://elsewhere/pool/main/h/hello.deb"),
        ("version", "latest"),
        ("version", "1.0 -o APT::x"),
        ("name", "-o"),
        ("size", "5"),
        ("size", 0),
        ("size", -1),
        ("sha256", "A" * 64),
        ("sha256", "a" * 63),
        ("sha256", "a" * 64 + "\n"),
    ],
)
def test_a_wrong_package_is_refused_at_its_place(member: str, value: object) -> None:
    document = copy.deepcopy(GOOD)
    document["packages"][0][member] = value
    assert f"packages.0.{member}" in refused(document)


def test_unsorted_and_doubled_packages_are_refused() -> None:
    first = GOOD["packages"][0]
    assert "sorted" in refused({**GOOD, "packages": [first, {**first, "name": "able"}]})
    assert "once" in refused({**GOOD, "packages": [first, first]})


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_crash_the_parser(data: bytes) -> None:
    with pytest.raises(Refused):
        parse_lock(data, where="x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(GOOD)), JSON)
def test_no_value_of_a_member_crashes_the_parser(member: str, value: object) -> None:
    try:
        lock = parse_lock(json.dumps({**GOOD, member: value}).encode(), where="x")
    except Refused:
        return
    assert parse_lock(lock_bytes(lock), where="x") == lock
