"""Tar archives laid out byte by byte after the tables in POSIX, not by the code under test."""

from __future__ import annotations

import io
import tarfile
from typing import Any

from guest.trial.tarstream import TarLimits

LIMITS = TarLimits(total_bytes=1 << 20, entries=50, keep_bytes=1 << 16)
END = bytes(1024)


def block(
    name: bytes,
    letter: bytes = b"0",
    *,
    size: bytes = b"00000000000\0",
    mode: bytes = b"0000644\0",
    mtime: bytes = b"00000000000\0",
    link: bytes = b"",
    prefix: bytes = b"",
    magic: bytes = b"ustar\x0000",
    off: int = 0,
) -> bytes:
    """A header laid out by hand after the table in POSIX, not by the code under test. `off` spoils the checksum."""
    fields = [
        name.ljust(100, b"\0"),
        mode,
        b"0000000\0",
        b"0000000\0",
        size,
        mtime,
        b"        ",
        letter,
        link.ljust(100, b"\0"),
        magic,
        bytes(32),
        bytes(32),
        b"0000000\0",
        b"0000000\0",
        prefix.ljust(155, b"\0"),
        bytes(12),
    ]
    whole = b"".join(fields)
    assert len(whole) == 512
    return whole[:148] + b"%06o\0 " % (sum(whole) + off) + whole[156:]


def body(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def octal(size: int) -> bytes:
    return b"%011o\0" % size


def file(name: bytes, data: bytes = b"", **fields: Any) -> bytes:
    return block(name, size=octal(len(data)), **fields) + body(data)


def pax(*records: bytes) -> bytes:
    """A PAX header of records given without their length."""
    return raw_pax(b"".join(record(one) for one in records))


def record(text: bytes) -> bytes:
    for length in range(len(text), len(text) + 9):
        made = b"%d %s\n" % (length, text)
        if len(made) == length:
            return made
    raise AssertionError


def raw_pax(data: bytes) -> bytes:
    return block(b"PaxHeaders.0/x", b"x", size=octal(len(data))) + body(data)


ROOT = block(b"d/", b"5", mode=b"0000755\0")
LONG = b"n" * 101


def by_tarfile(data: bytes) -> list[tuple[str, bytes, int, bytes]]:
    """Name, type letter, size and content of each member, as tarfile sees it."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(m.name, m.type, m.size, content(archive, m)) for m in archive]


def content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = archive.extractfile(member) if member.isreg() else None
    return opened.read() if opened else b""
