"""What identifies the software of a confidential VM, apart from the register that also records its boot events."""

from __future__ import annotations

from hashlib import sha256
from typing import ClassVar

from guest.reason import Reason
from guest.wire.scalars import Closed, Register, Sha256


class Measurement(Closed):
    """Six hashes: launch digest, three run-time registers, compose file, and the product hash of the OS image."""

    reason: ClassVar[Reason] = Reason.BINDING_MALFORMED

    mrtd: Register
    rtmr0: Register
    rtmr1: Register
    rtmr2: Register
    compose_hash: Sha256
    os_image_hash: Sha256


def os_image_hash(mrtd: str, rtmr1: str, rtmr2: str) -> str:
    """Give the product hash of an OS image: SHA-256 over MRTD, RTMR1 and RTMR2 (96 hex digits each), as hex.

    It says the same as the three registers and is not the digest by which a catalogue of OS images names one.
    """
    return sha256(bytes.fromhex(mrtd + rtmr1 + rtmr2)).hexdigest()
