"""The hash tree over trial records: its root by hand, and that a proof discloses one record and no other."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.job.record_tree import check_proof, parse_proof, prove, record_bytes, root_hash, root_of
from guest.reason import Reason
from tests.guest.job.test_summary import record

RECORDS = [record(f"task-{at}", 1, at % 2) for at in range(7)]
LEAVES = [record_bytes(each) for each in RECORDS]
ROOT = root_hash(LEAVES)


def leaf(data: bytes) -> bytes:
    return sha256(b"\0" + data).digest()


def inner(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


# The test vectors of RFC 6962 implementations: eight leaves of known bytes, and the roots over the first n of them.
KNOWN = [
    b"",
    b"\0",
    b"\x10",
    b"\x20\x21",
    b"\x30\x31",
    b"\x40\x41\x42\x43",
    bytes(range(0x50, 0x58)),
    bytes(range(0x60, 0x70)),
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


@pytest.mark.parametrize("size", range(9))
def test_published_roots(size: int) -> None:
    assert root_hash(KNOWN[:size]) == ROOTS[size]


def test_three_leaves_by_hand() -> None:
    left = inner(leaf(b"a"), leaf(b"b"))
    assert root_hash([b"a", b"b", b"c"]) == inner(left, leaf(b"c")).hex()
    assert prove([b"a", b"b", b"c"], 2).path == [left.hex()]
    assert prove([b"a", b"b", b"c"], 0).path == [leaf(b"b").hex(), leaf(b"c").hex()]


def test_the_root_does_not_depend_on_the_order_records_come_in() -> None:
    assert root_of(reversed(RECORDS)) == root_of(RECORDS) == ROOT


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7])
def test_every_record_can_be_disclosed_alone(size: int) -> None:
    for at in range(size):
        proof = parse_proof(prove(LEAVES[:size], at).model_dump_json().encode())
        assert check_proof(proof, root_hash(LEAVES[:size])) == RECORDS[at]


def refusal(proof_changes: dict[str, object], root: str = ROOT) -> Reason | None:
    proof = prove(LEAVES, 3)
    try:
        check_proof(proof.model_copy(update=proof_changes), root)
    except Refused as error:
        return error.reason
    return None


OTHER = LEAVES[3].decode().replace('"reward":1.0', '"reward":0.0')


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"record": LEAVES[2].decode()}, Reason.PROOF_WRONG),
        ({"record": OTHER}, Reason.PROOF_WRONG),
        ({"index": 2}, Reason.PROOF_WRONG),
        ({"size": 8}, None),
        ({"size": 4}, Reason.PROOF_WRONG),
        ({"index": 7}, Reason.PROOF_MALFORMED),
        ({"index": -1}, Reason.PROOF_MALFORMED),
        ({"path": []}, Reason.PROOF_WRONG),
        ({"path": prove(LEAVES, 3).path[:-1]}, Reason.PROOF_WRONG),
        ({"path": [*prove(LEAVES, 3).path, "00" * 32]}, Reason.PROOF_WRONG),
        ({"path": prove(LEAVES, 3).path[::-1]}, Reason.PROOF_WRONG),
        ({"path": ["zz"]}, Reason.PROOF_MALFORMED),
        ({"path": ["00" * 32] * 65}, Reason.PROOF_MALFORMED),
        ({"record": "{}"}, Reason.PROOF_MALFORMED),
        ({"record": LEAVES[3].decode() + " "}, Reason.PROOF_MALFORMED),
        ({"schema_version": 2}, Reason.PROOF_MALFORMED),
    ],
)
def test_another_record_place_or_path_is_refused(changes: dict[str, object], reason: Reason | None) -> None:
    assert LEAVES[3].decode() != OTHER
    assert refusal(changes) is reason


def test_another_root_is_refused() -> None:
    assert refusal({}) is None
    assert refusal({}, ROOT.upper()) is None
    assert refusal({}, "0" * 64) is Reason.PROOF_WRONG


def test_an_inner_hash_cannot_be_disclosed_as_a_record() -> None:
    """Leaves and inner nodes are hashed apart, so that two leaves never stand for one."""
    assert root_hash([b"x", b"y"]) != root_hash([leaf(b"x") + leaf(b"y")])


@given(st.binary(max_size=200) | st.integers(0, 400).map(lambda at: prove(LEAVES, 3).model_dump_json().encode()[:at]))
def test_no_bytes_crash_the_reader(text: bytes) -> None:
    with pytest.raises(Refused) as caught:
        check_proof(parse_proof(text), ROOT)
    assert caught.value.reason in {Reason.PROOF_MALFORMED, Reason.PROOF_WRONG}
