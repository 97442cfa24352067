"""The execution proof: a quote, the event log behind its register, and what both are claimed to say."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from guest.reason import Reason
from guest.wire.event_log import MAX_ENTRIES, EventEntry
from guest.wire.measurement import Measurement
from guest.wire.scalars import Closed, ImageRef, Register, ReportData, Sha256, Version1, pattern
from guest.wire.vm_config import VmConfig

TIER: Literal["phala-tdx"] = "phala-tdx"
MAX_QUOTE_BYTES = 65_536

Quote = Annotated[
    str,
    Field(
        max_length=2 * MAX_QUOTE_BYTES,
        pattern=pattern(r"(?:[0-9a-f]{2})+", "must be one or more pairs of lowercase hex"),
    ),
]


class _OfResult(Closed):
    reason: ClassVar[Reason] = Reason.RESULT_MALFORMED


class WorkerSignature(_OfResult):
    """Two empty strings: the quote is the signature."""

    worker_pubkey: Literal[""]
    sig: Literal[""]


class AttestedMeasurement(Measurement):
    """The canonical measurement and the register that the event log replays to."""

    reason: ClassVar[Reason] = Reason.RESULT_MALFORMED

    rtmr3: Register

    @property
    def canonical_measurement(self) -> Measurement:
        """The six hashes without the register of boot events."""
        return Measurement(**self.model_dump(exclude={"rtmr3"}))


class Attestation(_OfResult):
    """A quote in hex, its event log, and the values that must be found in them."""

    tdx_quote: Quote
    event_log: Annotated[tuple[EventEntry, ...], Field(strict=False, fail_fast=True, max_length=MAX_ENTRIES)]
    report_data: ReportData
    measurement: AttestedMeasurement
    vm_config: VmConfig


class ExecutionProof(_OfResult):
    """Execution proof v1."""

    version: Version1
    tier: Literal["phala-tdx"]
    manifest_sha256: Sha256
    image_digest: ImageRef
    provider: None
    worker_signature: WorkerSignature
    attestation: Attestation


def manifest_sha256(*, agent_hash: str, compose_hash: str, task_ids: Iterable[str]) -> str:
    """Give the hash, in hex, that names agent, compose file and tasks of a run together.

    SHA-256 over compact JSON with sorted members and escaped non-ASCII; task ids are sorted by code points.
    """
    document = {"agent_hash": agent_hash, "compose_hash": compose_hash, "task_ids": sorted(task_ids)}
    return sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
