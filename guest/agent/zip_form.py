"""A strict reader of ZIP files: what one reader of the format would see is what every reader sees.

The archive begins at its first byte and ends with its last; entries follow one another without gaps; local and central
headers agree; sizes are those of the bytes inflated, never those a header claims. Format: PKWARE APPNOTE 6.3.10,
sections 4.3 and 4.4. What is rarely used and differently understood (encryption, ZIP64, other methods, comments,
alternative names) is refused.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from guest.errors import Refused
from guest.reason import Reason

_LOCAL = struct.Struct("<4sHHHHHLLLHH")
_CENTRAL = struct.Struct("<4sHHHHHHLLLHHHHHLL")
_END = struct.Struct("<4sHHHHLLH")
_DESCRIPTOR = struct.Struct("<LLL")
_DESCRIPTOR_MARK = b"PK\x07\x08"

_ENCRYPTED = 0x2041
_DESCRIBED = 0x0008
_UTF8 = 0x0800
_KNOWN_FLAGS = _ENCRYPTED | _DESCRIBED | _UTF8 | 0x0006
_STORED, _DEFLATED = 0, 8
_UNIX = 3
_ZIP64, _UNICODE_NAME = 0x0001, 0x7075
_HINT = "make it anew with `evalguest agent pack`"


@dataclass(frozen=True)
class ZipEntry:
    """One entry: name as written, Unix mode (0 where the archive was not made on Unix), and how to inflate it."""

    name: str
    mode: int
    compressed: bytes
    method: int
    size: int
    crc: int

    def content(self, limit: int) -> bytes:
        """Inflate the entry, at most `limit` bytes. Raises Refused(AGENT_ARCHIVE_EXPANDS, AGENT_ARCHIVE_MALFORMED)."""
        data, rest = self.compressed, b""
        if self.method == _DEFLATED:
            inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                data = inflater.decompress(self.compressed, limit + 1)
            except zlib.error as error:
                _malformed(f"{self.name!a} cannot be inflated: {error}")
            rest = inflater.unused_data if inflater.eof or len(data) > limit else b"?"
        if len(data) > limit:
            raise Refused(Reason.AGENT_ARCHIVE_EXPANDS, f"{self.name!a} inflates to more than {limit} bytes")
        if rest or len(data) != self.size or zlib.crc32(data) != self.crc:
            _malformed(f"{self.name!a} has other bytes than its header says")
        return data


def read_zip(data: bytes, max_entries: int) -> list[ZipEntry]:
    """Give the entries in the order of the central directory. Raises Refused naming what is wrong."""
    if len(data) < _END.size or not data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        _malformed("it is no ZIP file, or something stands before it")
    at = len(data) - _END.size
    mark, disk, start_disk, here, total, size, start, comment = _END.unpack_from(data, at)
    if mark != b"PK\x05\x06" or comment:
        _malformed("it does not end with its directory: a comment, or something after it")
    if disk or start_disk or here != total or start + size != at:
        _malformed("its directory is not where its end says, or it is one part of several")
    if total > max_entries:
        raise Refused(Reason.AGENT_TOO_MANY_FILES, f"it has {total} entries, at most {max_entries} are allowed")
    entries: list[ZipEntry] = []
    position = 0
    for header in _central(data, start, at, total):
        entry, position = _entry(data, position, start, header)
        entries.append(entry)
    if position != start:
        _malformed("bytes that belong to no entry stand before its directory")
    return entries


@dataclass(frozen=True)
class _Header:
    name: bytes
    flags: int
    method: int
    crc: int
    compressed: int
    size: int
    offset: int
    mode: int


def _central(data: bytes, at: int, end: int, total: int) -> Iterator[_Header]:
    for _ in range(total):
        if at + _CENTRAL.size > end:
            _malformed("its directory is cut short")
        (
            mark,
            made,
            _need,
            flags,
            method,
            _time,
            _date,
            crc,
            compressed,
            size,
            *lengths,
            disk,
            _inner,
            outer,
            offset,
        ) = _CENTRAL.unpack_from(data, at)
        name_length, extra_length, comment_length = lengths
        name_at = at + _CENTRAL.size
        extra_at = name_at + name_length
        at = extra_at + extra_length + comment_length
        if mark != b"PK\x01\x02" or at > end or disk:
            _malformed("its directory is damaged")
        name = data[name_at:extra_at]
        if comment_length:
            _malformed(f"{_shown(name)} has a comment")
        _check_extra(data[extra_at : extra_at + extra_length], name)
        yield _Header(name, flags, method, crc, compressed, size, offset, outer >> 16 if made >> 8 == _UNIX else 0)
    if at != end:
        _malformed("its directory holds more than its entries")


def _entry(data: bytes, position: int, limit: int, header: _Header) -> tuple[ZipEntry, int]:
    """Read an entry that must stand at `position`; give it and where the next one begins."""
    shown = _shown(header.name)
    if header.flags & _ENCRYPTED:
        raise Refused(Reason.AGENT_ARCHIVE_ENCRYPTED, f"{shown} is encrypted")
    if header.flags & ~_KNOWN_FLAGS or header.method not in {_STORED, _DEFLATED}:
        _malformed(f"{shown} is packed in a way that is not accepted (method {header.method}, flags {header.flags:#x})")
    if header.offset != position or position + _LOCAL.size > limit:
        _malformed(f"{shown} does not follow the entry before it")
    mark, _need, flags, method, _time, _date, crc, compressed, size, name_length, extra_length = _LOCAL.unpack_from(
        data, position
    )
    name_at = position + _LOCAL.size
    body_at = name_at + name_length + extra_length
    end = body_at + header.compressed
    if mark != b"PK\x03\x04" or end > limit:
        _malformed(f"{shown} is cut short or damaged")
    sizes = (crc, compressed, size)
    wanted = (header.crc, header.compressed, header.size)
    described = bool(header.flags & _DESCRIBED)
    if (
        data[name_at : name_at + name_length] != header.name
        or (flags, method) != (header.flags, header.method)
        or (sizes != wanted and not (described and sizes == (0, 0, 0)))
    ):
        _malformed(f"{shown} has one header at its place and another in the directory")
    _check_extra(data[name_at + name_length : body_at], header.name)
    body = data[body_at:end]
    if described:
        end += len(_DESCRIPTOR_MARK) * data.startswith(_DESCRIPTOR_MARK, end)
        if data[end : end + _DESCRIPTOR.size] != _DESCRIPTOR.pack(*wanted):
            _malformed(f"{shown} has another header after it than in the directory")
        end += _DESCRIPTOR.size
    if header.method == _STORED and header.compressed != header.size:
        _malformed(f"{shown} is stored in another number of bytes than it has")
    return ZipEntry(_name(header), header.mode, body, header.method, header.size, header.crc), end


def _name(header: _Header) -> str:
    try:
        return header.name.decode("utf-8" if header.flags & _UTF8 else "ascii")
    except UnicodeDecodeError as error:
        raise Refused(
            Reason.AGENT_PATH_REFUSED, f"{_shown(header.name)} is neither ASCII nor marked as UTF-8", _HINT
        ) from error


def _check_extra(extra: bytes, name: bytes) -> None:
    """Refuse the extra fields that would change name or sizes for some readers, and fields that are cut short."""
    while extra:
        if len(extra) < 4:  # noqa: PLR2004 - id and length
            _malformed(f"{_shown(name)} has an extra field that is cut short")
        kind, length = struct.unpack_from("<HH", extra)
        if kind in {_ZIP64, _UNICODE_NAME} or 4 + length > len(extra):
            _malformed(f"{_shown(name)} has an extra field that is not accepted ({kind:#06x})")
        extra = extra[4 + length :]


def _shown(name: bytes) -> str:
    return ascii(name.decode("utf-8", "replace")[:80])


def _malformed(what: str) -> NoReturn:
    raise Refused(Reason.AGENT_ARCHIVE_MALFORMED, f"the archive is refused: {what}", _HINT)
