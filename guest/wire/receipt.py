"""The receipt: what the peer answers to a delivered result. It is parsed, never compared byte for byte."""

from __future__ import annotations

from typing import ClassVar, Literal

from guest.reason import Reason
from guest.wire.refusal import WireRefused, shown
from guest.wire.scalars import Closed, Id, Int, Sha256, Version1

_TERMINAL = frozenset({"verified", "rejected"})


class Receipt(Closed):
    """Receipt v1. Times are Unix milliseconds; on `verifier_unavailable` the same bytes may be delivered again."""

    reason: ClassVar[Reason] = Reason.RECEIPT_MALFORMED

    schema_version: Version1
    eval_run_id: Id
    receipt_id: Id
    body_sha256: Sha256
    received_at_ms: Int
    phase: Literal["received", "verifying", "verified", "rejected", "verifier_unavailable"]
    terminal: bool
    verified: bool
    retryable: bool
    reason_code: Id | None
    result_available: bool
    finalized_at_ms: Int | None


def check_receipt(receipt: Receipt, *, eval_run_id: str, body_sha256: str) -> None:
    """Raise WireRefused unless a receipt is for this run and body, and its flags say what its phase says."""
    for pointer, got, expected in (
        ("/eval_run_id", receipt.eval_run_id, eval_run_id),
        ("/body_sha256", receipt.body_sha256, body_sha256),
        ("/terminal", receipt.terminal, receipt.phase in _TERMINAL),
        ("/verified", receipt.verified, receipt.phase == "verified"),
    ):
        if got != expected:
            raise WireRefused(Reason.RECEIPT_MALFORMED, pointer, f"must be {shown(expected)}", shown(got))
