"""Replies to a quote request: real captures, and one made from the published valid result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.guest.wire.records import request

CAPTURES = Path(__file__).parent / "captures"
# Worked out from the bytes by another program.
RTMR3_OF_PHALA = "9c343d652b721b398b2b1233251831c67162b8e7c1f09956d5162715c5be48f8ae8c5001facd341759c4abc7aff61a0f"
RTMR3_OF_DSTACK = "6f24c170d0fd63fc2b1b53202eea47b013978437fa6982cf5e0438ff95c208994aaa0f4ebab2e3a66824b5b56869137e"


def phala() -> dict[str, Any]:
    quote = (CAPTURES / "quote.bin").read_bytes()
    log = json.loads((CAPTURES / "event_log.json").read_bytes())
    return {"quote": quote.hex(), "event_log": log, "vm_config": {"cpu_count": 1, "memory_size": 2 << 30}}


def dstack() -> dict[str, Any]:
    reply: dict[str, Any] = json.loads((CAPTURES / "getquote.json").read_bytes())
    return reply


def made() -> dict[str, Any]:
    """The published result's attestation, as the guest agent would have answered it."""
    attestation = request()["execution_proof"]["attestation"]
    return {
        "quote": attestation["tdx_quote"],
        "event_log": attestation["event_log"],
        "vm_config": {"vcpu": 4, "memory_mb": 8192},
    }
