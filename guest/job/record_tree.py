"""A hash tree over a job's trial records, so that one trial can be disclosed and checked alone.

The root is a Merkle tree hash (RFC 9162, section 2.1.1) over the records' bytes in the order of their trial
ids: SHA-256, a zero byte before a leaf, a one byte before two inner hashes. A proof is the audit path of section 2.1.3.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, ValidationError

from guest.errors import Refused
from guest.reason import Reason
from guest.trial.record import TrialRecord

MAX_DEPTH = 64


class TrialProof(BaseModel):
    """What discloses one trial: its record as text, its place among how many, and the hashes beside its path."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: int = 1
    record: str
    index: int
    size: int
    path: list[str]


def record_bytes(record: TrialRecord) -> bytes:
    """Give the bytes that stand for a record in the tree: compact JSON, members sorted, non-ASCII escaped."""
    return json.dumps(record.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def root_hash(leaves: Sequence[bytes]) -> str:
    """Give the tree's root over records' bytes, in hex; of no records it is the SHA-256 of nothing."""
    return _root([_leaf(leaf) for leaf in leaves]).hex()


def in_order(records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Give records in the order of the tree: by trial id, in code points."""
    return sorted(records, key=lambda record: record.trial_id)


def root_of(records: Iterable[TrialRecord]) -> str:
    """Give the root over a job's records, in whatever order they come."""
    return root_hash([record_bytes(record) for record in in_order(records)])


def prove(leaves: Sequence[bytes], index: int) -> TrialProof:
    """Give the proof of the record at a place (from 0)."""
    path = [step.hex() for step in _path([_leaf(leaf) for leaf in leaves], index)]
    return TrialProof(record=leaves[index].decode(), index=index, size=len(leaves), path=path)


def parse_proof(text: bytes) -> TrialProof:
    """Read a proof. Raises Refused(PROOF_MALFORMED)."""
    try:
        return TrialProof.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:80] for part in first["loc"]) or "the file"
        raise Refused(Reason.PROOF_MALFORMED, f"{where}: {first['msg']}") from error


def check_proof(proof: TrialProof, root: str) -> TrialRecord:
    """Give the disclosed record once its path leads to `root` (hex).

    Raises Refused: PROOF_MALFORMED for a record or path out of form, PROOF_WRONG when it leads elsewhere.
    """
    try:
        record = TrialRecord.model_validate_json(proof.record)
        path = [bytes.fromhex(step) for step in proof.path]
    except (ValidationError, ValueError) as error:
        raise Refused(Reason.PROOF_MALFORMED, f"the proof holds no record, or no hashes: {str(error)[:200]}") from error
    known = record_bytes(record) == proof.record.encode()
    if proof.schema_version != 1 or not known or not 0 <= proof.index < proof.size or len(path) > MAX_DEPTH:
        raise Refused(Reason.PROOF_MALFORMED, "the proof's version, place or spelling is not one that is written here")
    if _climb(_leaf(proof.record.encode()), proof.index, proof.size, path) != root.lower():
        raise Refused(Reason.PROOF_WRONG, f"the record of {record.trial_id} does not lead to the root {root[:80]}")
    return record


def _leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\0" + data).digest()


def _inner(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _split(size: int) -> int:
    """Give the largest power of two below a size above 1."""
    return 1 << (size - 1).bit_length() - 1


def _root(hashes: Sequence[bytes]) -> bytes:
    if len(hashes) < 2:  # noqa: PLR2004 - a tree of one is its leaf
        return hashes[0] if hashes else hashlib.sha256(b"").digest()
    at = _split(len(hashes))
    return _inner(_root(hashes[:at]), _root(hashes[at:]))


def _path(hashes: Sequence[bytes], index: int) -> list[bytes]:
    if len(hashes) == 1:
        return []
    at = _split(len(hashes))
    if index < at:
        return [*_path(hashes[:at], index), _root(hashes[at:])]
    return [*_path(hashes[at:], index - at), _root(hashes[:at])]


def _climb(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> str:
    """Follow an audit path (RFC 9162, section 2.1.3.2); the empty text for one of another length."""
    node, last = index, size - 1
    found = leaf
    for step in path:
        if last == 0:
            return ""
        if node & 1 or node == last:
            found = _inner(step, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = _inner(found, step)
        node, last = node >> 1, last >> 1
    return found.hex() if last == 0 else ""
