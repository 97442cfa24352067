"""One tar entry's header, parsed from and written to its bytes, as strictly as the engine writes it.

Format: POSIX.1-2017 `pax`, "ustar Interchange Format" and "pax Extended Header". The engine writes nothing else (Go's
archive/tar in PAX format); GNU, old and sparse forms, base-256 numbers and global headers are therefore malformed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["file", "dir", "symlink", "hardlink", "fifo", "char_device", "block_device"]

BLOCK: Final = 512
# 2020-01-01 UTC: fixed, so that equal files make equal archives; after 1980, which zip files cannot go below.
MTIME: Final = 1_577_836_800
MODE_BITS: Final = 0o7777
PATH_BYTES: Final = 4096
PATH_DEPTH: Final = 64
PAX_BYTES: Final = 16 << 10  # a path, a link target and a capability attribute fit twice over

_KINDS: Final[dict[bytes, Kind]] = {
    b"0": "file",
    b"1": "hardlink",
    b"2": "symlink",
    b"3": "char_device",
    b"4": "block_device",
    b"5": "dir",
    b"6": "fifo",
}
_MAGIC: Final = b"ustar\x0000"
_NAME_FIELD: Final = 100
_SIZE_MAX: Final = 0o77777777777
# What the engine, GNU tar (`--format=posix`) and we write. The second row is read past: owners are never applied.
_RECORDS: Final = frozenset({b"path", b"linkpath", b"size", b"mtime"}) | frozenset(
    {b"uid", b"gid", b"uname", b"gname", b"atime", b"ctime"}
)
_XATTR_RECORD: Final = b"SCHILY.xattr."
_RECORD: Final = re.compile(rb"([1-9][0-9]{0,5}) ([^=\n\x00]{1,255})=")
_RECORD_SIZE: Final = re.compile(rb"[1-9][0-9]{0,18}")
_RECORD_TIME: Final = re.compile(rb"(-?[0-9]{1,12})(\.[0-9]{0,18})?")


class MalformedError(ValueError):
    """Bytes or a path that the form does not allow; the message says which and why."""


@dataclass(frozen=True)
class Header:
    """A parsed header: `path` without a trailing slash, 12 bits of `mode`, `size` in bytes, `mtime` in Unix seconds."""

    path: str
    kind: Kind
    mode: int
    size: int
    mtime: int
    link_target: str | None


def is_pax(block: bytes) -> bool:
    """Say whether a header block announces PAX records for the next one."""
    return block[156:157] == b"x"


def declared_size(block: bytes) -> int:
    """Check a header block's magic, checksum and every number, and give its size field. Raises MalformedError."""
    if block[257:265] != _MAGIC:
        raise MalformedError(f"magic {block[257:265]!r}, expected {_MAGIC!r}: not a header the engine writes")
    if _octal(block[148:156]) != _checksum(block):
        raise MalformedError("the header's checksum is wrong")
    mode, user, group, mtime = block[100:108], block[108:116], block[116:124], block[136:148]
    devices = [field for field in (block[329:337], block[337:345]) if any(field)]  # left empty where there is none
    for number in (mode, user, group, mtime, *devices):
        _octal(number)
    if any(block[500:]):
        raise MalformedError("the header's last 12 bytes are not zero")
    return _octal(block[124:136])


def parse_records(data: bytes) -> dict[bytes, bytes]:
    """Parse the body of a PAX header. Raises MalformedError for unknown, doubled or broken records."""
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        found = _RECORD.match(data, at)
        end = at + int(found[1]) if found else 0
        # No newline is in what was matched, so a record that ends with one ends after its "=".
        if found is None or end > len(data) or data[end - 1] != ord("\n"):
            raise MalformedError(f"a broken PAX record: {data[at : at + 40]!r}")
        key = found[2]
        if key not in _RECORDS and not key.startswith(_XATTR_RECORD):
            raise MalformedError(f"PAX record {key!r} is not one the engine writes")
        if key in records:
            raise MalformedError(f"PAX record {key!r} stands twice")
        records[key] = data[found.end() : end - 1]
        at = end
    return records


def parse(block: bytes, records: Mapping[bytes, bytes]) -> Header:
    """Parse a header block with the PAX records that preceded it. Raises MalformedError."""
    size = _size(block, records)
    kind = _KINDS.get(block[156:157])
    if kind is None:
        raise MalformedError(f"type {block[156:157]!r} is not one the engine writes")
    try:
        path = _path(block, records).decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"the name is not UTF-8: {error.object[:60]!r}") from error
    if size and kind != "file":
        raise MalformedError(f"{path[:60]!r} is a {kind} with {size} bytes of content")
    if path.endswith("/") and kind != "dir":
        raise MalformedError(f"the name of a {kind} ends with a slash: {path[:60]!r}")
    linked = kind in ("symlink", "hardlink")
    return Header(
        path=path.removesuffix("/"),
        kind=kind,
        mode=_octal(block[100:108]) & MODE_BITS,
        size=size,
        mtime=_mtime(block, records),
        link_target=_link_target(block, records) if linked else None,
    )


def write_header(path: str, kind: Literal["file", "dir"], mode: int, size: int) -> bytes:
    """Give the blocks that announce an entry of owner 0:0 and fixed time. Raises MalformedError for a bad one."""
    check_path(path)
    if not 0 <= mode <= MODE_BITS:
        raise MalformedError(f"mode is {mode:#o}, expected permission bits only")
    if size > _SIZE_MAX:
        raise MalformedError(f"{size} bytes are more than a header can say")
    name, letter = (path.encode() + b"/", b"5") if kind == "dir" else (path.encode(), b"0")
    if not _needs_record(name):
        return _block(name, letter, mode, size)
    rest = b" path=" + name + b"\n"
    length = len(rest)
    while len(str(length)) + len(rest) != length:  # a record counts its own digits
        length = len(str(length)) + len(rest)
    record = str(length).encode() + rest
    return (
        _block(b"PaxHeader", b"x", 0o644, len(record))
        + record
        + padding(len(record))
        + _block(b"-", letter, mode, size)
    )


def padding(size: int) -> bytes:
    """Give the zeros that fill up the last block of `size` bytes."""
    return bytes(-size % BLOCK)


def check_path(path: str) -> None:
    """Check that a path is relative and plain. Raises MalformedError."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise MalformedError("a path must be relative, without empty parts, '.', '..' and NUL")
    try:
        length = len(path.encode())
    except UnicodeEncodeError as error:
        raise MalformedError("the path is not UTF-8") from error
    if length >= PATH_BYTES or len(parts) > PATH_DEPTH:
        raise MalformedError(
            f"a path of {length} bytes, {len(parts)} parts; {PATH_BYTES - 1} and {PATH_DEPTH} are allowed"
        )


def _size(block: bytes, records: Mapping[bytes, bytes]) -> int:
    """Give the size of the content; only what the octal field cannot hold may have a record."""
    size = declared_size(block)
    record = records.get(b"size")
    if record is None:
        return size
    if size or not _RECORD_SIZE.fullmatch(record) or int(record) <= _SIZE_MAX:
        raise MalformedError(f"PAX size {record[:40]!r} overrides a size that fits the header")
    return int(record)


def _path(block: bytes, records: Mapping[bytes, bytes]) -> bytes:
    if b"path" in records:
        return _override(records[b"path"])
    name, prefix = _text(block[:100]), _text(block[345:500])
    return prefix + b"/" + name if prefix else name


def _link_target(block: bytes, records: Mapping[bytes, bytes]) -> str:
    raw = _override(records[b"linkpath"]) if b"linkpath" in records else _text(block[157:257])
    return raw.decode(errors="backslashreplace")


def _override(value: bytes) -> bytes:
    """Give a path from a record, which may only say what the header's field cannot hold."""
    if b"\0" in value or not _needs_record(value):
        raise MalformedError(f"PAX path {value[:60]!r} is not one the header could not hold")
    return value


def _needs_record(name: bytes) -> bool:
    return len(name) > _NAME_FIELD or not name.isascii()


def _mtime(block: bytes, records: Mapping[bytes, bytes]) -> int:
    record = records.get(b"mtime")
    if record is None:
        return _octal(block[136:148])
    found = _RECORD_TIME.fullmatch(record)
    if found is None:
        raise MalformedError(f"PAX mtime {record[:40]!r} is not a time")
    return int(found[1])


def _text(field: bytes) -> bytes:
    """Give a header's text up to its NUL; only NULs may follow, lest two readers see two names."""
    text = field.rstrip(b"\0")
    if b"\0" in text:
        raise MalformedError(f"text after a NUL in {field[:60]!r}")
    return text


def _octal(field: bytes) -> int:
    """Give a header's number: octal digits ended by NUL or space, so neither base-256 (GNU) nor a sign."""
    digits = field.rstrip(b"\0 ")
    if not digits or len(digits) == len(field) or digits.strip(b"01234567"):
        raise MalformedError(f"{field!r} is not an octal number")
    return int(digits, 8)


def _checksum(block: bytes) -> int:
    """Sum the header's bytes, its own checksum field taken as spaces."""
    return sum(block[:148]) + 8 * ord(" ") + sum(block[156:])


def _block(name: bytes, letter: bytes, mode: int, size: int) -> bytes:
    head = name.ljust(_NAME_FIELD, b"\0") + b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (mode, 0, 0, size, MTIME)
    tail = letter + bytes(100) + _MAGIC + bytes(64) + b"%07o\0%07o\0" % (0, 0) + bytes(167)
    return head + b"%06o\0 " % _checksum(head + bytes(8) + tail) + tail
