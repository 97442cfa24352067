"""Tar streams that cross a container border: deterministic archives in, a bounded reader of hostile answers out.

The reader is our own, not the standard library's tarfile, because tarfile trusts declared sizes, follows PAX, GNU and
sparse extensions and names that escape, and wants a file object where the engine gives chunks. It takes only what
the engine writes (ustar headers with PAX records for what does not fit them), so all else is refused by being unknown.

Format: POSIX.1-2017 `pax`, "ustar Interchange Format" and "pax Extended Header".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

from guest.errors import Refused
from guest.reason import Reason

Kind = Literal["file", "dir", "symlink", "hardlink", "fifo", "char_device", "block_device"]

BLOCK: Final = 512
# 2020-01-01 UTC: fixed, so that equal files make equal archives; after 1980, which zip files cannot go below.
MTIME: Final = 1_577_836_800
PATH_BYTES: Final = 4096
PATH_DEPTH: Final = 64
PAX_BYTES: Final = 16 << 10  # a path, a link target and one capability attribute fit twice over

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
_OCTAL_SIZE_MAX: Final = 0o77777777777
_MODE_BITS: Final = 0o7777
# What the engine, GNU tar (`--format=posix`) and we write. The file's attributes are read past, never applied.
_PAX_READ: Final = frozenset({b"path", b"linkpath", b"size", b"mtime"})
_PAX_PASSED: Final = frozenset({b"uid", b"gid", b"uname", b"gname", b"atime", b"ctime"})
_PAX_PASSED_PREFIX: Final = b"SCHILY.xattr."
_PAX_RECORD: Final = re.compile(rb"([1-9][0-9]{0,5}) ([^=\n\x00]{1,255})=")
_PAX_SIZE: Final = re.compile(rb"[1-9][0-9]{0,18}")
_PAX_TIME: Final = re.compile(rb"(-?[0-9]{1,12})(\.[0-9]{0,18})?")


@dataclass(frozen=True)
class TarFile:
    """A regular file to upload: its content and permission bits."""

    data: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class TarLimits:
    """Bounds of one `unpack`: bytes of the whole stream, number of entries, bytes kept of each file."""

    total_bytes: int
    entries: int
    keep_bytes: int


@dataclass(frozen=True)
class Entry:
    """One entry as the stream described it. Links and special files are told, never followed or made.

    `size` and `sha256` (lower-case hex) are of the whole content, `data` is its head; `truncated` says that they
    differ. `sha256` is empty and `data` too for all kinds but `file`. `mode` has the 12 permission bits, `mtime` is in
    Unix seconds as claimed, `link_target` is for reading by people.
    """

    kind: Kind
    mode: int
    size: int
    mtime: int
    data: bytes = b""
    sha256: str = ""
    truncated: bool = False
    link_target: str | None = None


def pack(files: Mapping[str, TarFile], directories: Mapping[str, int] | None = None) -> bytes:
    """Make an archive of `files` (relative path to file) and `directories` (relative path to permission bits).

    Equal input gives equal bytes: owner 0:0, fixed mtime, sorted, so parents come first. A parent that is not named
    is left to the receiver, since an entry for it would change the mode of one that exists.

    Raises Refused(TAR_REFUSED) for a path that is absolute, has an empty, `.` or `..` part or a NUL, is too long or
    deep, or that one file and another entry claim; and for a mode with other than permission bits.
    """
    directories = directories or {}
    parts: list[bytes] = []
    for path in sorted({*files, *directories}):
        where = f"to upload {_shown(path)}"
        raw = _encoded(path, where)
        _check_path(path, raw, where)
        parents = {path[:at] for at, letter in enumerate(path) if letter == "/"}
        if (path in files and path in directories) or not parents.isdisjoint(files):
            _refuse(where, "the path of a file cannot be a directory as well")
        file = files.get(path)
        mode = directories[path] if file is None else file.mode
        if not 0 <= mode <= _MODE_BITS:
            _refuse(where, f"mode is {mode:#o}, expected permission bits only")
        if file is None:
            parts += _entry_head(raw + b"/", b"5", mode, 0)
        else:
            parts += [*_entry_head(raw, b"0", mode, len(file.data)), file.data, _padding(len(file.data))]
    return b"".join([*parts, bytes(2 * BLOCK)])


def unpack(chunks: Iterable[bytes], limits: TarLimits) -> dict[str, Entry]:
    """Read an answer of the engine's archive call: path relative to the first entry (`""` for itself) to entry.

    At most one chunk and the kept bytes are held. Declared sizes are held against `limits` before anything is read.

    Raises Refused(TAR_REFUSED) for anything beyond the limits, outside the first entry, named twice, whose parent is
    no directory of the same stream, not UTF-8, of a type or with a record the engine does not write, cut short or
    followed by other than zeros. What `chunks` raises is passed on.
    """
    stream = _Stream(chunks, limits.total_bytes)
    entries: dict[str, Entry] = {}
    root = ""
    while (head := _read_head(stream)) is not None:
        if len(entries) >= limits.entries:
            _refuse(head.where, f"there are more than {limits.entries} entries")
        path = head.path
        if not entries:
            if "/" in path or path in ("", ".."):
                _refuse(head.where, "the first entry must be the thing asked for, by its base name")
            root, path = path + "/", ""
        else:
            if not path.startswith(root):
                _refuse(head.where, f"not inside the first entry, {_shown(root)}")
            path = path[len(root) :]
            _check_path(path, path.encode(), head.where)
            if path in entries:
                _refuse(head.where, "there are two entries of this name")
            parent = entries.get(path.rpartition("/")[0])
            if parent is None or parent.kind != "dir":
                _refuse(head.where, "its parent is not a directory in this stream")
        entries[path] = _read_entry(stream, head, limits.keep_bytes)
    if not entries:
        _refuse("at byte 0", "the stream holds no entry")
    return entries


@dataclass(frozen=True)
class _Head:
    """A header, PAX records applied; `path` has no trailing slash, `where` is for messages."""

    where: str
    path: str
    kind: Kind
    mode: int
    size: int
    mtime: int
    link_target: str | None


class _Stream:
    """Chunks read as a row of bytes, never past `limit` in all."""

    def __init__(self, chunks: Iterable[bytes], limit: int) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")
        self._limit = limit
        self.offset = 0

    def pieces(self, count: int, where: str) -> Iterator[memoryview]:
        """Give the next `count` bytes in pieces. Raises Refused past the limit (before reading) or at the end."""
        if self.offset + count > self._limit:
            _refuse(where, f"needs {count} bytes more after {self.offset}, the limit is {self._limit} in all")
        while count:
            if not self._rest and not self._next_chunk():
                _refuse(where, f"the stream ends at byte {self.offset}, {count} bytes short")
            piece = self._rest[:count]
            self._rest = self._rest[count:]
            self.offset += len(piece)
            count -= len(piece)
            yield piece

    def read(self, count: int, where: str) -> bytes:
        """Give exactly the next `count` bytes."""
        return b"".join(self.pieces(count, where))

    def end(self) -> None:
        """Read to the end, where only zeros may follow."""
        while self._rest or self._next_chunk():
            where = f"at byte {self.offset}"
            if self.read(len(self._rest), where).strip(b"\0"):
                _refuse(where, "something follows the end of the archive")

    def _next_chunk(self) -> bool:
        for chunk in self._chunks:
            if chunk:
                self._rest = memoryview(chunk)
                return True
        return False


def _read_head(stream: _Stream) -> _Head | None:
    """Read the next header with its PAX records, None at the end of the archive."""
    where = f"at byte {stream.offset}"
    block = stream.read(BLOCK, where)
    records: dict[bytes, bytes] = {}
    if block[156:157] == b"x":
        size = _checked_size(block, where)
        if size > PAX_BYTES:
            _refuse(where, f"a PAX header of {size} bytes, at most {PAX_BYTES} are accepted")
        records = _pax_records(stream.read(size, where), where)
        _read_padding(stream, size, where)
        block = stream.read(BLOCK, where)
    elif not any(block):
        if any(stream.read(BLOCK, where)):
            _refuse(where, "one zero block where the archive's end has two")
        stream.end()
        return None
    size = _size(block, records, where)
    path = _decoded(_path(block, records, where), where)
    where = f"{where}, entry {_shown(path)}"
    kind = _KINDS.get(block[156:157])
    if kind is None:
        _refuse(where, f"type {block[156:157]!r} is not one the engine writes")
    if size and kind != "file":
        _refuse(where, f"a {kind} with {size} bytes of content")
    if path.endswith("/"):
        if kind != "dir":
            _refuse(where, f"a {kind} whose name ends with a slash")
        path = path[:-1]
    return _Head(
        where=where,
        path=path,
        kind=kind,
        mode=_octal(block[100:108], where) & _MODE_BITS,
        size=size,
        mtime=_mtime(block, records, where),
        link_target=_link_target(block, records, where) if kind in ("symlink", "hardlink") else None,
    )


def _read_entry(stream: _Stream, head: _Head, keep: int) -> Entry:
    if head.kind != "file":
        return Entry(head.kind, head.mode, 0, head.mtime, link_target=head.link_target)
    digest = hashlib.sha256()
    kept = bytearray()
    for piece in stream.pieces(head.size, head.where):
        digest.update(piece)
        kept += piece[: keep - len(kept)]
    _read_padding(stream, head.size, head.where)
    return Entry("file", head.mode, head.size, head.mtime, bytes(kept), digest.hexdigest(), len(kept) < head.size)


def _read_padding(stream: _Stream, size: int, where: str) -> None:
    if any(stream.read(-size % BLOCK, where)):
        _refuse(where, "the padding after the content is not zero")


def _checked_size(block: bytes, where: str) -> int:
    """Check magic and checksum of a header block and give its size field."""
    if block[257:265] != _MAGIC:
        _refuse(where, f"magic {block[257:265]!r}, expected {_MAGIC!r}: not a header the engine writes")
    if _octal(block[148:156], where) != _checksum(block):
        _refuse(where, "the header's checksum is wrong")
    return _octal(block[124:136], where)


def _size(block: bytes, records: Mapping[bytes, bytes], where: str) -> int:
    """Give the size of the content; only what the octal field cannot hold may have a PAX record."""
    size = _checked_size(block, where)
    if b"size" not in records:
        return size
    record = records[b"size"]
    if size or not _PAX_SIZE.fullmatch(record) or int(record) <= _OCTAL_SIZE_MAX:
        _refuse(where, f"PAX size {record[:40]!r} overrides a size that fits the header")
    return int(record)


def _pax_records(data: bytes, where: str) -> dict[bytes, bytes]:
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        found = _PAX_RECORD.match(data, at)
        end = at + int(found[1]) if found else 0
        if found is None or end <= found.end() or end > len(data) or data[end - 1 : end] != b"\n":
            _refuse(where, f"a malformed PAX record: {data[at : at + 40]!r}")
        key = found[2]
        if key not in _PAX_READ and key not in _PAX_PASSED and not key.startswith(_PAX_PASSED_PREFIX):
            _refuse(where, f"PAX record {key[:60]!r} is not one the engine writes")
        if key in records:
            _refuse(where, f"PAX record {key[:60]!r} stands twice")
        records[key] = data[found.end() : end - 1]
        at = end
    return records


def _path(block: bytes, records: Mapping[bytes, bytes], where: str) -> bytes:
    if b"path" in records:
        return _override(records[b"path"], where)
    name, prefix = _text(block[:100], where), _text(block[345:500], where)
    return prefix + b"/" + name if prefix else name


def _link_target(block: bytes, records: Mapping[bytes, bytes], where: str) -> str:
    raw = _override(records[b"linkpath"], where) if b"linkpath" in records else _text(block[157:257], where)
    return raw.decode(errors="backslashreplace")


def _override(value: bytes, where: str) -> bytes:
    """Give a PAX path, which may only say what the header's field cannot hold."""
    if b"\0" in value or len(value) > PATH_BYTES or (len(value) <= _NAME_FIELD and value.isascii()):
        _refuse(where, f"PAX path {value[:60]!r} is not one the header could not hold")
    return value


def _mtime(block: bytes, records: Mapping[bytes, bytes], where: str) -> int:
    if b"mtime" not in records:
        return _octal(block[136:148], where)
    found = _PAX_TIME.fullmatch(records[b"mtime"])
    if found is None:
        _refuse(where, f"PAX mtime {records[b'mtime'][:40]!r} is not a time")
    return int(found[1])


def _text(field: bytes, where: str) -> bytes:
    """Give a header's text up to its NUL; only NULs may follow, lest two readers see two names."""
    text = field.rstrip(b"\0")
    if b"\0" in text:
        _refuse(where, f"text after a NUL in {field[:60]!r}")
    return text


def _octal(field: bytes, where: str) -> int:
    """Give a header's number: octal digits ended by NUL or space. Base-256 (GNU) and signs are refused."""
    digits = field.rstrip(b"\0 ")
    if not digits or len(digits) == len(field) or digits.strip(b"01234567"):
        _refuse(where, f"{field!r} is not an octal number")
    return int(digits, 8)


def _checksum(block: bytes) -> int:
    """Sum the header's bytes, its own checksum field taken as spaces."""
    return sum(block[:148]) + 8 * 0x20 + sum(block[156:])


def _check_path(path: str, raw: bytes, where: str) -> None:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        _refuse(where, "the path must be relative, without empty parts, '.', '..' and NUL")
    if len(raw) > PATH_BYTES or len(parts) > PATH_DEPTH:
        _refuse(where, f"the path has {len(raw)} bytes and {len(parts)} parts, at most {PATH_BYTES} and {PATH_DEPTH}")


def _entry_head(name: bytes, kind: bytes, mode: int, size: int) -> list[bytes]:
    if len(name) <= _NAME_FIELD and name.isascii():
        return [_header(name, kind, mode, size)]
    body = b" path=" + name + b"\n"
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    record = str(length).encode() + body
    head = _header(b"PaxHeader", b"x", 0o644, len(record))
    cut = name[:_NAME_FIELD].decode("ascii", "replace").replace("\ufffd", "_").encode()
    return [head, record, _padding(len(record)), _header(cut, kind, mode, size)]


def _header(name: bytes, kind: bytes, mode: int, size: int) -> bytes:
    if size > _OCTAL_SIZE_MAX:
        _refuse(f"to upload {name[:60]!r}", f"{size} bytes do not fit a header")
    start = name.ljust(_NAME_FIELD, b"\0") + b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (mode, 0, 0, size, MTIME)
    rest = kind + bytes(100) + _MAGIC + bytes(64) + b"%07o\0%07o\0" % (0, 0) + bytes(167)
    return start + b"%06o\0 " % _checksum(start + bytes(8) + rest) + rest


def _padding(size: int) -> bytes:
    return bytes(-size % BLOCK)


def _encoded(path: str, where: str) -> bytes:
    try:
        return path.encode()
    except UnicodeEncodeError:
        _refuse(where, "the path is not UTF-8")


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        _refuse(f"{where}, entry {raw[:60]!r}", "the name is not UTF-8")


def _shown(path: str) -> str:
    """Quote a path for a message, its middle left out when it is long."""
    return repr(path) if len(path) <= 120 else repr(path[:60] + "…" + path[-50:])  # noqa: PLR2004 - a line's length


def _refuse(where: str, what: str) -> NoReturn:
    raise Refused(Reason.TAR_REFUSED, f"tar stream {where}: {what}")
