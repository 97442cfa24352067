"""Canonical JSON v1: the only serialisation that is hashed, bound or compared.

UTF-8, no blanks, members in code-point order of their NFC keys, integers only, the shortest escapes. The reader is
strict about the text (RFC 8259 without its liberties) and lenient about order and outer blanks, which the writer then
loses: a text is canonical when writing what was read gives the same bytes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from hashlib import sha256
from typing import Any, NoReturn

from guest.reason import Reason
from guest.wire.assigned import UNASSIGNED
from guest.wire.refusal import WireRefused, json_pointer, shown

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 32
MAX_DIGITS = 4300
"""What the peer's runtime can convert; records bound their integers far lower."""

_TOO_LARGE = 10**MAX_DIGITS

# A value of three bytes can take 72 in memory. The densest part of any record is an event without payload: 11 values
# and members in 160 bytes.
_FEW_VALUES = 65_536
_BYTES_PER_VALUE = 12

_PIECE = 65_536
_EMPTY = re.compile(rb"\[\]|\{\}")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")

_Path = tuple[str | int, ...]


def encode(value: object) -> bytes:
    """Give the canonical bytes of a value made of dict, list, tuple, str, int, bool and None.

    Raises WireRefused for a float, a lone surrogate, a code point that Unicode 14.0 does not assign (later versions
    normalise those differently), keys that are equal after NFC, more than 32 levels, and any other type.
    """
    tidy = _normalise(value, ())
    return json.dumps(tidy, ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False).encode()


def digest(value: object) -> str:
    """Give the SHA-256 of a value's canonical bytes, as lowercase hex. Raises WireRefused like `encode`."""
    return sha256(encode(value)).hexdigest()


def decode(data: bytes) -> dict[str, Any]:
    """Read one JSON object strictly.

    Raises WireRefused for anything but UTF-8 without a byte order mark, duplicate members, floats, lone surrogates,
    integers of more than 4300 digits, more than 32 levels, 16 MiB, or a text that holds more values than a record can.
    """
    value = decode_value(data)
    if not isinstance(value, dict):
        _refuse(f"must be one object; got {shown(value)}")
    return value


def decode_value(data: bytes, *, floats: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """Read any one JSON value, as strictly as `decode`; `floats` lets finite or overflowing decimals through."""
    _check_shape(data)
    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=_unique,
            parse_int=_integer,
            parse_float=float if floats else _no_number,
            parse_constant=_no_number,
        )
        if _SURROGATE_ESCAPE.search(data):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        _refuse(f"must be UTF-8; byte {error.start} is not", error)
    except UnicodeEncodeError as error:
        _refuse("must not escape a lone surrogate", error)
    except (ValueError, RecursionError) as error:
        _refuse(f"must be JSON: {str(error)[:200]}", error)
    return value


def decode_canonical(data: bytes) -> dict[str, Any]:
    """Read one object whose bytes must be canonical already. Raises WireRefused: NOT_CANONICAL, or as `decode`."""
    value = decode(data)
    again = encode(value)
    if again != data:
        at = next((i for i, (a, b) in enumerate(zip(again, data, strict=False)) if a != b), min(len(again), len(data)))
        raise WireRefused(
            Reason.NOT_CANONICAL, "", f"must be canonical JSON byte for byte; it differs from byte {at} on"
        )
    return value


def _check_shape(data: bytes) -> None:
    """Bound size, depth and number of values before a parser allocates anything for them."""
    if len(data) > MAX_BYTES:
        _refuse(f"must have at most {MAX_BYTES} bytes; got {len(data)}")
    if data.startswith(b"\xef\xbb\xbf"):
        _refuse("must not begin with a byte order mark")
    bare = _without_strings(data)
    values = sum(bare.count(mark) for mark in (b",", b":", b"[", b"{"))
    if values > max(_FEW_VALUES, len(data) // _BYTES_PER_VALUE):
        _refuse(f"must hold at most {_FEW_VALUES} values, or one in {_BYTES_PER_VALUE} bytes; got about {values}")
    brackets = bare.translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return
        brackets = _EMPTY.sub(b"", brackets)
    if brackets:
        _refuse(f"must have closed brackets and at most {MAX_DEPTH} levels")


def _without_strings(data: bytes) -> bytes:
    """Cut every string out, in pieces, since splitting at each quote takes many times the memory of its input."""
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    kept = bytearray()
    inside = 0
    for start in range(0, len(plain), _PIECE):
        parts = plain[start : start + _PIECE].split(b'"')
        kept += b"".join(parts[inside::2])
        inside ^= (len(parts) - 1) % 2
    return bytes(kept)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        _refuse(f"must name each member once; {shown(name)} occurs twice")
    return members


def _integer(literal: str) -> int:
    if len(literal.lstrip("-")) > MAX_DIGITS:
        _refuse(f"must have integers of at most {MAX_DIGITS} digits; got {len(literal.lstrip('-'))}")
    return int(literal)


def _no_number(literal: str) -> NoReturn:
    _refuse(f"must have no numbers but integers; got {literal[:40]}")


def _normalise(value: object, path: _Path) -> object:
    if isinstance(value, str):
        return _nfc(value, path)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, dict | list | tuple):
        return _normalise_tree(value, path)
    if not isinstance(value, int):
        _refuse(f"must not be a {type(value).__name__}; canonical JSON has none", path=path)
    if abs(value) >= _TOO_LARGE:
        _refuse(f"must have at most {MAX_DIGITS} digits", path=path)
    return value


def _normalise_tree(value: dict[object, object] | list[object] | tuple[object, ...], path: _Path) -> object:
    if len(path) >= MAX_DEPTH:
        _refuse(f"must be at most {MAX_DEPTH} levels deep", path=path)
    if not isinstance(value, dict):
        return [_normalise(item, (*path, at)) for at, item in enumerate(value)]
    tidy: dict[str, object] = {}
    for name, member in value.items():
        if not isinstance(name, str):
            _refuse(f"must have keys that are strings; got a {type(name).__name__}", path=path)
        key = _nfc(name, (*path, name))
        if key in tidy:
            _refuse("is there twice once keys are in NFC", path=(*path, key))
        tidy[key] = _normalise(member, (*path, name))
    return tidy


def _nfc(text: str, path: _Path) -> str:
    if text.isascii():
        return text
    if found := UNASSIGNED.search(text):
        code = ord(found[0])
        what = "a lone surrogate" if 0xD800 <= code <= 0xDFFF else "a code point that Unicode 14.0 does not assign"  # noqa: PLR2004
        _refuse(f"must not hold {what}; got U+{code:04X}", path=path)
    return unicodedata.normalize("NFC", text)


def _refuse(rule: str, cause: Exception | None = None, path: _Path = ()) -> NoReturn:
    raise WireRefused(Reason.JSON_REFUSED, json_pointer(path), rule) from cause
