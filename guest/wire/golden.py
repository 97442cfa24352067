"""The golden envelope: what only the released key opens, and the spellings of that key.

Layout: magic `ACGENC01`, 12 bytes of nonce, AES-256-GCM ciphertext, 16 bytes of tag (NIST SP 800-38D). The magic and
the artefact's name are authenticated too, so that one artefact never stands in for another.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from guest.reason import Reason
from guest.wire import canonical
from guest.wire.refusal import WireRefused

MAGIC = b"ACGENC01"
KEY_BYTES = 32
ORACLE_NAME = "tbench-2.1-oracle.json"
"""The artefact that the deployed service seals; its file has this name and `.enc`."""

_NONCE_END = len(MAGIC) + 12
_SHORTEST = _NONCE_END + 16
_HEX_KEY = re.compile(rb"[0-9A-Fa-f]{64}")


def open_envelope(blob: bytes, *, key: bytes, name: str) -> bytes:
    """Give the plaintext of an envelope; `key` has 32 bytes, `name` is the artefact's, ASCII.

    Raises WireRefused(GOLDEN_REFUSED) for another magic, a short blob and any change of blob, key or name, without
    telling those apart further than the first two.
    """
    if len(key) != KEY_BYTES:
        raise WireRefused(Reason.GOLDEN_KEY_MALFORMED, "", f"must have a key of {KEY_BYTES} bytes", str(len(key)))
    if not name.isascii():
        _refuse("must have a name of ASCII characters")
    if len(blob) < _SHORTEST:
        _refuse(f"must have at least {_SHORTEST} bytes")
    if not blob.startswith(MAGIC):
        _refuse(f"must begin with {MAGIC.decode()}")
    try:
        return AESGCM(key).decrypt(blob[len(MAGIC) : _NONCE_END], blob[_NONCE_END:], MAGIC + name.encode())
    except InvalidTag as error:
        raise WireRefused(Reason.GOLDEN_REFUSED, "", "must open with this key under this name") from error


def open_golden(blob: bytes, *, key: bytes, name: str) -> dict[str, Any]:
    """Open an envelope that must hold a JSON object, floats allowed. Raises WireRefused, never with plaintext in it."""
    plaintext = open_envelope(blob, key=key, name=name)
    try:
        document = canonical.decode_value(plaintext, floats=True)
    except WireRefused:
        document = None
    if not isinstance(document, dict):
        _refuse("must hold one JSON object")
    return document


def parse_key_text(text: bytes) -> bytes:
    """Give the 32 bytes of a key spelt as 64 hex digits or padded base64, blanks around either, or raw.

    Raises WireRefused(GOLDEN_KEY_MALFORMED); the message shows nothing of the text.
    """
    trimmed = text.strip()
    if _HEX_KEY.fullmatch(trimmed):
        return bytes.fromhex(trimmed.decode())
    try:
        key = base64.b64decode(trimmed, validate=True)
    except binascii.Error:
        key = b""
    if len(key) == KEY_BYTES and base64.b64encode(key) == trimmed:
        return key
    if len(text) == KEY_BYTES:
        return text
    raise WireRefused(
        Reason.GOLDEN_KEY_MALFORMED, "", f"must be 64 hex digits, padded base64 of {KEY_BYTES} bytes, or the raw bytes"
    )


def _refuse(rule: str) -> NoReturn:
    raise WireRefused(Reason.GOLDEN_REFUSED, "", rule)
