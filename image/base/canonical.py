"""Rewriting the tar of a root filesystem so that equal trees give equal bytes, whichever tool wrote it."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from guest.errors import Refused
from guest.reason import Reason
from image.base.content import ImageFile, is_left_out

_KINDS = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)


class _Hashing:
    """A file to write to that knows the SHA-256 of what went through it."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._out.write(data)


def write_canonical(raw: Path, out: Path, *, own: Mapping[str, ImageFile], epoch: int) -> str:
    """Write the tree in the tar `raw` to `out`, without what the image leaves out and with `own` laid over it.

    Entries are sorted by path components; owner and mode are kept, every time is `epoch`, names and extended
    attributes are dropped. Gives the SHA-256 (hex) of the result.
    Raises Refused(LOCK_MISMATCH) for a tree with something else in it than files, directories and links.
    """
    with tarfile.open(raw, mode="r:") as tree, out.open("wb") as stream:
        members = {name: member for member in tree if (name := _name(member)) and not is_left_out(name)}
        members = {name: member for name, member in members.items() if name not in own}
        hashing = _Hashing(stream)
        with tarfile.open(fileobj=hashing, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as result:  # type: ignore[call-overload]
            for name in sorted({*members, *own, *_parents(own)}, key=_order):
                if name in members:
                    entry = _canonical(members[name], name, epoch, members)
                    result.addfile(entry, tree.extractfile(members[name]) if members[name].isreg() else None)
                elif name in own:
                    file = own[name]
                    result.addfile(
                        _entry(name, tarfile.REGTYPE, file.mode, epoch, len(file.data)), io.BytesIO(file.data)
                    )
                else:
                    result.addfile(_entry(name, tarfile.DIRTYPE, 0o755, epoch))
        return hashing.digest.hexdigest()


def _name(member: tarfile.TarInfo) -> str:
    name = member.name.removeprefix("./").strip("/")
    return "" if name == "." else name


def _order(path: str) -> list[bytes]:
    return path.encode().split(b"/")


def _parents(own: Mapping[str, ImageFile]) -> set[str]:
    return {"/".join(parts[:depth]) for path in own for parts in [path.split("/")] for depth in range(1, len(parts))}


def _canonical(member: tarfile.TarInfo, name: str, epoch: int, kept: Mapping[str, tarfile.TarInfo]) -> tarfile.TarInfo:
    if member.type not in _KINDS:
        raise Refused(Reason.LOCK_MISMATCH, f"/{name} in the built tree is of tar type {member.type!r}")
    entry = _entry(name, member.type, member.mode & 0o7777, epoch, member.size if member.isreg() else 0)
    entry.uid, entry.gid = member.uid, member.gid
    if member.issym():
        entry.linkname, entry.mode = member.linkname, 0o777
    elif member.islnk():
        entry.linkname = member.linkname.removeprefix("./").strip("/")
        target = kept.get(entry.linkname)
        if target is None or _order(entry.linkname) >= _order(name):
            raise Refused(
                Reason.LOCK_MISMATCH, f"/{name} in the built tree is a hard link to /{entry.linkname}, not before it"
            )
    return entry


def _entry(name: str, kind: bytes, mode: int, epoch: int, size: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime, entry.size = kind, mode, epoch, size
    return entry
