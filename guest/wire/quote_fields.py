"""The fields of a TDX quote that a result is compared with.

Layout: Intel TDX DCAP Quoting Library API, appendix A.3 (version 4): 48 bytes of header, 584 of TD report, then the
length of the signature data. No signature is verified here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from guest.reason import Reason
from guest.wire.refusal import WireRefused

_VERSION = bytes((4, 0))
_ECDSA_P256 = bytes((2, 0))
_TDX = bytes((0x81, 0, 0, 0))
_INTEL_QE = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
_SIGNATURE_AT = 632
_BODY_AT = 636
_SHORTEST_SIGNATURE = 584


@dataclass(frozen=True)
class QuoteFields:
    """Registers (96 hex digits each) and report data (128)."""

    mrtd: str
    rtmr0: str
    rtmr1: str
    rtmr2: str
    rtmr3: str
    report_data: str


def read_quote(data: bytes) -> QuoteFields:
    """Read a version-4 TDX quote. Raises WireRefused(QUOTE_MALFORMED) when its structure is another or it is cut off.

    Bytes after the declared end are let through here.
    """
    if len(data) < _BODY_AT:
        _refuse(f"must have a header and a TD report, {_BODY_AT} bytes; got {len(data)}")
    for start, expected, name in (
        (0, _VERSION, "version 4"),
        (2, _ECDSA_P256, "attestation key type 2 (ECDSA P-256)"),
        (4, _TDX, "TEE type 0x81 (TDX)"),
        (8, bytes(4), "zeros in its reserved header bytes"),
        (12, _INTEL_QE, "Intel's quoting enclave as vendor"),
    ):
        got = data[start : start + len(expected)]
        if got != expected:
            _refuse(f"must have {name}; got {got.hex()}")
    declared = int.from_bytes(data[_SIGNATURE_AT:_BODY_AT], "little")
    if not _SHORTEST_SIGNATURE <= declared <= len(data) - _BODY_AT:
        _refuse(f"must have {_SHORTEST_SIGNATURE} bytes of signature data or more, all there; it declares {declared}")

    def register(at: int) -> str:
        return data[at : at + 48].hex()

    return QuoteFields(
        mrtd=register(184),
        rtmr0=register(376),
        rtmr1=register(424),
        rtmr2=register(472),
        rtmr3=register(520),
        report_data=data[568:632].hex(),
    )


def _refuse(rule: str) -> NoReturn:
    raise WireRefused(Reason.QUOTE_MALFORMED, "/execution_proof/attestation/tdx_quote", rule)
