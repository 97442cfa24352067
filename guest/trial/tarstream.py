"""Bytes across a container's border: tar streams written exactly and read as hostile input.

The standard library's `tarfile` believes declared sizes, lets PAX records override anything, expands sparse maps and
needs the bytes of a member before it can skip it. The engine's answers use a small part of the format (POSIX.1-1988
ustar, `pax` records for long names and large sizes, GNU long names), so we read exactly that part, block by block.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from guest.errors import Refused
from guest.reason import Reason

BLOCK = 512
MAX_EXTENSION_BYTES = 64 << 10
MAX_PATH_BYTES = 4096
MAX_DEPTH = 64
Kind = Literal["file", "dir", "symlink", "hardlink", "fifo", "device"]
_KINDS: dict[bytes, Kind] = {
    b"0": "file",
    b"\0": "file",
    b"1": "hardlink",
    b"2": "symlink",
    b"3": "device",
    b"4": "device",
    b"5": "dir",
    b"6": "fifo",
}


@dataclass(frozen=True)
class TarFile:
    """A file to upload: its content and its permission bits."""

    data: bytes = field(repr=False)
    mode: int = 0o644


@dataclass(frozen=True)
class TarLimits:
    """What a stream may hold at most: bytes in all (declared or sent), entries, and bytes kept of each file."""

    total_bytes: int
    entries: int
    keep_bytes: int


@dataclass(frozen=True)
class Entry:
    """One entry of a stream. `data` is the head of a file, `sha256` covers all of it; links carry their target only."""

    kind: Kind
    mode: int
    size: int
    mtime: int
    data: bytes = field(repr=False)
    sha256: str | None
    link_target: str | None = None

    @property
    def truncated(self) -> bool:
        """Whether more was sent than kept."""
        return len(self.data) < self.size


def pack(files: Mapping[str, TarFile], directories: Mapping[str, int] | None = None) -> bytes:
    """Give a tar with these files (relative path to content) and directories (path to permission bits).

    Owner root, time 0, sorted, each parent directory first; a parent that is not named is left to the receiver. Raises
    ValueError for a path that is not relative and plain.
    """
    buffer = io.BytesIO()
    modes = directories or {}
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(modes):
            info = _info(path, modes[path])
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
        for path in sorted(files):
            info = _info(path, files[path].mode)
            info.size = len(files[path].data)
            archive.addfile(info, io.BytesIO(files[path].data))
    return buffer.getvalue()


def _info(path: str, mode: int) -> tarfile.TarInfo:
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"{path!r} is not a plain relative path")
    info = tarfile.TarInfo(path)
    info.mode = mode
    return info


def unpack(chunks: Iterable[bytes], limits: TarLimits) -> dict[str, Entry]:
    """Read the engine's answer for one path: entries by path relative to it, `""` for the path itself.

    Links and special files are listed, never followed. Raises Refused(TAR_REFUSED) at the first byte that breaks a rule
    or a limit; what follows is not read.
    """
    entries: dict[str, Entry] = {}
    root: str | None = None
    reader = _Reader(chunks, limits.total_bytes)
    for header in _headers(reader):
        if len(entries) >= limits.entries:
            raise _refused(f"more than {limits.entries} entries")
        parts = _parts(header.path)
        if root is None:
            root = parts[0]
        if parts[0] != root:
            raise _refused(f"{header.path!r} lies outside {root!r}")
        path = "/".join(parts[1:])
        if path in entries:
            raise _refused(f"{header.path!r} comes twice")
        entries[path] = _entry(reader, header, limits.keep_bytes)
    if "" not in entries:
        raise _refused("the stream does not hold the path that was asked for")
    for path in entries:
        parent = path.rpartition("/")[0]
        if path and (parent not in entries or entries[parent].kind != "dir"):
            raise _refused(f"{path!r} has no directory above it")
    return entries


class _Reader:
    """Gives exact amounts from a stream of chunks and counts them against the limit."""

    def __init__(self, chunks: Iterable[bytes], limit: int) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")
        self._limit = limit
        self._left = limit

    def charge(self, size: int) -> None:
        """Count bytes that a header announces, before any of them is read."""
        if size > self._left:
            raise _refused(f"more than {self._limit} bytes")
        self._left -= size

    def pieces(self, size: int) -> Iterator[memoryview]:
        """Yield the next `size` bytes in pieces as they come."""
        while size:
            if not self._rest:
                chunk = next(self._chunks, None)
                if chunk is None:
                    raise _refused("the stream ends in the middle")
                self._rest = memoryview(chunk)
                continue
            piece, self._rest = self._rest[:size], self._rest[size:]
            size -= len(piece)
            yield piece

    def take(self, size: int) -> bytes:
        """Give the next `size` bytes."""
        return b"".join(self.pieces(size))

    def must_end(self) -> None:
        """Check that only zeros follow, as writers fill up to a record of 20 blocks; read at most 1 MiB of them."""
        padding = 0
        while True:
            if any(self._rest):
                raise _refused("bytes follow the end of the archive")
            padding += len(self._rest)
            if padding > 1 << 20:
                raise _refused("endless padding follows the archive")
            chunk = next(self._chunks, None)
            if chunk is None:
                return
            self._rest = memoryview(chunk)


@dataclass(frozen=True)
class _Header:
    path: str
    kind: Kind
    mode: int
    size: int
    mtime: int
    link: str


def _headers(reader: _Reader) -> Iterator[_Header]:
    """Yield member headers, extensions applied; the consumer reads each member's bytes before asking for the next."""
    path = link = size = None
    while True:
        reader.charge(BLOCK)
        block = reader.take(BLOCK)
        if not any(block):
            reader.must_end()
            return
        _check_sum(block)
        declared = _number(block[124:136])
        kind = block[156:157]
        if kind in b"xLK" and kind != b"":
            text = _extension(reader, declared)
            if kind == b"L":
                path = _text(text.rstrip(b"\0"))
            elif kind == b"K":
                link = _text(text.rstrip(b"\0"))
            else:
                records = _pax(text)
                path = records.get("path", path)
                link = records.get("linkpath", link)
                size = _decimal(records["size"]) if "size" in records else size
            continue
        if kind not in _KINDS:
            raise _refused(f"an entry of the unknown type {kind!r}")
        name = _text(block[0:100].split(b"\0")[0])
        if block[257:262] == b"ustar" and block[257:265] != b"ustar  \0":
            prefix = _text(block[345:500].split(b"\0")[0])
            name = f"{prefix}/{name}" if prefix else name
        is_file = _KINDS[kind] == "file"
        real_size = declared if size is None else size
        if real_size and not is_file:
            raise _refused(f"a {_KINDS[kind]} with content")
        yield _Header(
            path=name if path is None else path,
            kind=_KINDS[kind],
            mode=_number(block[100:108]) & 0o7777,
            size=real_size,
            mtime=_number(block[136:148]),
            link=_text(block[157:257].split(b"\0")[0]) if link is None else link,
        )
        path = link = size = None


def _entry(reader: _Reader, header: _Header, keep: int) -> Entry:
    """Read a member's bytes: hash all, keep the head."""
    data = bytearray()
    digest = hashlib.sha256()
    padded = -(-header.size // BLOCK) * BLOCK
    reader.charge(padded)
    for piece in reader.pieces(header.size):
        digest.update(piece)
        if len(data) < keep:
            data += piece[: keep - len(data)]
    if any(reader.take(padded - header.size)):
        raise _refused(f"{header.path!r} is padded with other bytes than zeros")
    is_link = header.kind in ("symlink", "hardlink")
    return Entry(
        kind=header.kind,
        mode=header.mode,
        size=header.size,
        mtime=header.mtime,
        data=bytes(data),
        sha256=digest.hexdigest() if header.kind == "file" else None,
        link_target=header.link if is_link else None,
    )


def _parts(path: str) -> list[str]:
    parts = path.removesuffix("/").split("/")
    if len(path.encode(errors="surrogateescape")) > MAX_PATH_BYTES or len(parts) > MAX_DEPTH:
        raise _refused("a path that is too long or too deep")
    if any(part in ("", ".", "..") for part in parts):
        raise _refused(f"the path {path!r}")
    return parts


def _extension(reader: _Reader, size: int) -> bytes:
    if size > MAX_EXTENSION_BYTES:
        raise _refused(f"an extension header of {size} bytes")
    padded = -(-size // BLOCK) * BLOCK
    reader.charge(padded)
    return reader.take(padded)[:size]


def _pax(data: bytes) -> dict[str, str]:
    """Read pax records (POSIX.1-2001 pax: length, blank, key=value, newline); GNU sparse ones are refused."""
    records: dict[str, str] = {}
    while data:
        length_text, blank, _ = data.partition(b" ")
        length = _decimal(_text(length_text)) if blank else 0
        record, data = data[len(length_text) + 1 : length], data[length:]
        key, equals, value = record.partition(b"=")
        if length <= len(length_text) + 1 or not equals or not value.endswith(b"\n"):
            raise _refused("a malformed pax record")
        name = _text(key)
        if name in records or name.startswith("GNU.sparse."):
            raise _refused(f"the pax record {name!r}")
        records[name] = _text(value[:-1])
    return records


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):  # noqa: PLR2004 - below 2**63
        raise _refused(f"{text[:40]!r} in place of a number")
    return int(text)


def _number(data: bytes) -> int:
    """Read a header number: octal digits, or base 256 when the first bit is set (GNU, star); never a negative one."""
    if data[0] & 0x80:
        if data[0] != 0x80:  # noqa: PLR2004 - the sign and 63 more bits must be clear
            raise _refused("a negative or huge number in a header")
        number = int.from_bytes(data[1:], "big")
    else:
        digits = data.strip(b" \0")
        if digits.strip(b"01234567"):
            raise _refused(f"{digits!r} in place of an octal number")
        number = int(digits or b"0", 8)
    if number >= 1 << 63:
        raise _refused("a huge number in a header")
    return number


def _check_sum(block: bytes) -> None:
    wanted = _number(block[148:156])
    if wanted != sum(block) - sum(block[148:156]) + 8 * ord(" "):
        raise _refused("a header whose checksum does not hold")


def _text(data: bytes) -> str:
    """Decode a name; bytes that are not UTF-8 survive as lone surrogates, and NUL is refused."""
    text = data.decode(errors="surrogateescape")
    if "\0" in text:
        raise _refused("a name with a NUL byte")
    return text


def _refused(what: str) -> Refused:
    return Refused(Reason.TAR_REFUSED, f"the tar stream from the container has {what}")
