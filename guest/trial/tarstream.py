"""Tar streams that cross a container border: deterministic archives in, a bounded reader of hostile answers out.

The reader is our own, not the standard library's tarfile, because tarfile trusts declared sizes, follows PAX, GNU and
sparse extensions and names that escape, and wants a file object where the engine gives chunks. It takes only what
the engine writes (ustar headers with PAX records for what does not fit them), so all else is refused by being unknown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from guest.errors import Refused
from guest.reason import Reason
from guest.trial import ustar
from guest.trial.ustar import Kind, MalformedError


@dataclass(frozen=True)
class TarFile:
    """A regular file to upload: its content and permission bits."""

    data: bytes = field(repr=False)
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
    differ. All three are empty for kinds other than `file`. `mode` has the 12 permission bits, `mtime` is in Unix
    seconds as claimed, `link_target` is for reading by people.
    """

    kind: Kind
    mode: int
    size: int
    mtime: int
    data: bytes = field(default=b"", repr=False)
    sha256: str = ""
    truncated: bool = False
    link_target: str | None = None


def pack(files: Mapping[str, TarFile], directories: Mapping[str, int] | None = None) -> bytes:
    """Make an archive of `files` (relative path to file) and `directories` (relative path to permission bits).

    Equal input gives equal bytes: owner 0:0, fixed mtime, sorted, so parents come first. A parent that is not named
    is left to the receiver, since an entry for it would change the mode of one that exists.

    Raises Refused(TAR_REFUSED) for a path that is absolute, has an empty, `.` or `..` part or a NUL, is too long or
    deep, or that a file and another entry claim; and for a mode with other than permission bits.
    """
    directories = directories or {}
    parts: list[bytes] = []
    for path in sorted({*files, *directories}):
        try:
            _check_claims(path, files, directories)
            file = files.get(path)
            if file is None:
                parts.append(ustar.write_header(path, "dir", directories[path], 0))
            else:
                head = ustar.write_header(path, "file", file.mode, len(file.data))
                parts += [head, file.data, ustar.padding(len(file.data))]
        except MalformedError as error:
            raise Refused(Reason.TAR_REFUSED, f"cannot upload {_shown(path)}: {error}") from error
    return b"".join([*parts, bytes(2 * ustar.BLOCK)])


def unpack(chunks: Iterable[bytes], limits: TarLimits) -> dict[str, Entry]:
    """Read an answer of the engine's archive call: path relative to the first entry (`""` for itself) to entry.

    At most one chunk and the kept bytes are held. Declared sizes are held against `limits` before anything is read.

    Raises Refused(TAR_REFUSED) for anything beyond the limits, outside the first entry, named twice, whose parent is
    no directory of the same stream, not UTF-8, of a type or with a record the engine does not write, cut short or
    followed by other than zeros. What `chunks` raises is passed on.
    """
    stream = _Stream(chunks, limits.total_bytes)
    entries: dict[str, Entry] = {}
    where, root = "at byte 0", ""
    try:
        while (header := _next_header(stream)) is not None:
            where = f"at byte {stream.offset}, entry {_shown(header.path)}"
            root = root if entries else header.path
            path = _relative(header.path, root, entries, limits.entries)
            entries[path] = _read_entry(stream, header, limits.keep_bytes)
            where = f"at byte {stream.offset}"
    except MalformedError as error:
        raise Refused(Reason.TAR_REFUSED, f"tar stream {where}: {error}") from error
    if not entries:
        raise Refused(Reason.TAR_REFUSED, "tar stream: it holds no entry")
    return entries


class _Stream:
    """Chunks read as one row of bytes, never past `limit` in all."""

    def __init__(self, chunks: Iterable[bytes], limit: int) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")
        self._limit = limit
        self.offset = 0

    def pieces(self, count: int) -> Iterator[memoryview]:
        """Give the next `count` bytes in pieces. Raises MalformedError at the end, and past the limit unread."""
        if self.offset + count > self._limit:
            raise MalformedError(f"{count} bytes more are announced, {self._limit} are allowed in all")
        while count:
            if not self._rest and not self._next_chunk():
                raise MalformedError(f"the stream ends {count} bytes short")
            piece = self._rest[:count]
            self._rest = self._rest[count:]
            self.offset += len(piece)
            count -= len(piece)
            yield piece

    def read(self, count: int) -> bytes:
        """Give exactly the next `count` bytes."""
        return b"".join(self.pieces(count))

    def skip_padding(self, size: int) -> None:
        """Read past the zeros that fill up the last block of `size` bytes."""
        if any(self.read(len(ustar.padding(size)))):
            raise MalformedError("the padding of the last block is not zero")

    def finish(self) -> None:
        """Read the second zero block and to the end, where only zeros may follow."""
        rest = ustar.BLOCK
        while rest:
            if self.read(rest).strip(b"\0"):
                raise MalformedError("something follows the end of the archive")
            rest = len(self._rest) if self._rest or self._next_chunk() else 0

    def _next_chunk(self) -> bool:
        for chunk in self._chunks:
            if chunk:
                self._rest = memoryview(chunk)
                return True
        return False


def _next_header(stream: _Stream) -> ustar.Header | None:
    """Read the next header with its PAX records, None at the end of the archive."""
    block = stream.read(ustar.BLOCK)
    if not any(block):
        stream.finish()
        return None
    records: dict[bytes, bytes] = {}
    if ustar.is_pax(block):
        size = ustar.declared_size(block)
        if size > ustar.PAX_BYTES:
            raise MalformedError(f"PAX records of {size} bytes, {ustar.PAX_BYTES} are allowed")
        records = ustar.parse_records(stream.read(size))
        stream.skip_padding(size)
        block = stream.read(ustar.BLOCK)
    return ustar.parse(block, records)


def _check_claims(path: str, files: Mapping[str, TarFile], directories: Mapping[str, int]) -> None:
    """Check that no file's path is a directory's as well."""
    parents = (path[:at] for at, letter in enumerate(path) if letter == "/")
    if (path in files and path in directories) or any(parent in files for parent in parents):
        raise MalformedError("a file's path cannot be a directory's as well")


def _relative(path: str, root: str, entries: Mapping[str, Entry], limit: int) -> str:
    """Give a path relative to the first entry's, having checked that it may stand where it does."""
    if len(entries) >= limit:
        raise MalformedError(f"there are more than {limit} entries")
    if not entries:
        if "/" in root or root in ("", ".."):
            raise MalformedError("the first entry must be what was asked for, by its base name")
        return ""
    if not path.startswith(root + "/"):
        raise MalformedError(f"it is not inside the first entry, {_shown(root)}")
    path = path[len(root) + 1 :]
    ustar.check_path(path)
    if path in entries:
        raise MalformedError("there are two entries of this name")
    parent = entries.get(path.rpartition("/")[0])
    if parent is None or parent.kind != "dir":
        raise MalformedError("its parent is not a directory in this stream")
    return path


def _read_entry(stream: _Stream, header: ustar.Header, keep: int) -> Entry:
    if header.kind != "file":
        return Entry(header.kind, header.mode, 0, header.mtime, link_target=header.link_target)
    digest = hashlib.sha256()
    kept = bytearray()
    for piece in stream.pieces(header.size):
        digest.update(piece)
        kept += piece[: keep - len(kept)]
    stream.skip_padding(header.size)
    data = bytes(kept)
    return Entry("file", header.mode, header.size, header.mtime, data, digest.hexdigest(), len(data) < header.size)


def _shown(path: str) -> str:
    """Quote a path for a message, its middle left out when it is long."""
    return repr(path) if len(path) <= 120 else repr(f"{path[:60]}…{path[-50:]}")  # noqa: PLR2004 - about a line
