"""Reads a task's directory into memory: every regular file, no link followed, everything bounded.

A task tree may come from a stranger, so what is not a regular file is never opened, sizes are checked before bytes are
read, and a name that UTF-8 cannot spell is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from guest.errors import Refused
from guest.reason import Reason
from guest.wire.tree_digest import task_tree_digest

MAX_FILES = 20_000
MAX_ENTRIES = 50_000
MAX_DEPTH = 32
MAX_TREE_BYTES = 512 * 1024 * 1024
"""The largest published task of Terminal-Bench 2.1 is far below this; a sparse file of gigabytes is above it."""


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One regular file: its content and whether its owner may execute it."""

    data: bytes = field(repr=False)
    executable: bool = False


def digest_of(files: Mapping[str, TreeFile]) -> str:
    """The task tree digest (hex) of files that were read."""
    return task_tree_digest((path, file.data) for path, file in files.items())


def read_tree(root: Path, *, max_bytes: int = MAX_TREE_BYTES) -> dict[str, TreeFile]:
    """Give every regular file under `root`, by relative path with `/` between the parts, in code-point order.

    Symbolic links (to files, to directories, dangling), directories and special files are skipped; nothing is skipped
    by name. Raises Refused(TASK_MALFORMED) for a name that is not valid UTF-8, a tree that is too large or too deep,
    and a file or directory that cannot be read.
    """
    left = max_bytes
    files: dict[str, TreeFile] = {}
    try:
        for path, full in _regular_files(root):
            file = _read_file(full, path, left)
            if file is None:
                continue
            left -= len(file.data)
            files[path] = file
            if len(files) > MAX_FILES:
                raise _malformed(f"{root} holds more than {MAX_FILES} files")
    except OSError as error:
        raise _malformed(f"{root} cannot be read: {error}") from error
    return dict(sorted(files.items()))


def _regular_files(root: Path) -> Iterator[tuple[str, bytes]]:
    """Walk without following links; names stay bytes until they are proved to be UTF-8."""
    pending: list[tuple[str, bytes, int]] = [("", os.fsencode(root), 0)]
    entries = 0
    while pending:
        prefix, directory, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise _malformed(f"{root} is nested more than {MAX_DEPTH} directories deep")
        with os.scandir(directory) as scan:
            for entry in scan:
                entries += 1
                if entries > MAX_ENTRIES:
                    raise _malformed(f"{root} holds more than {MAX_ENTRIES} entries")
                try:
                    path = prefix + entry.name.decode()
                except UnicodeDecodeError as error:
                    raise _malformed(f"{root} holds a name that is not valid UTF-8: {entry.name!r}") from error
                if entry.is_dir(follow_symlinks=False):
                    pending.append((path + "/", entry.path, depth + 1))
                elif entry.is_file(follow_symlinks=False):
                    yield path, entry.path


def _read_file(full: bytes, path: str, limit: int) -> TreeFile | None:
    """Read one file of at most `limit` bytes; None when it stopped being a regular file since it was listed."""
    # No link is followed and a pipe put in the file's place cannot block the open.
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _malformed(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        data = b"" if status.st_size > limit else stream.read(limit + 1)
        if status.st_size > limit or len(data) > limit:
            raise _malformed(f"{path} makes the tree larger than its limit; {limit} bytes of it were left")
    return TreeFile(data, executable=bool(status.st_mode & stat.S_IXUSR))


def _malformed(message: str) -> Refused:
    return Refused(Reason.TASK_MALFORMED, message)
