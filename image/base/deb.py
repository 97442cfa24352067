"""Debian package files: their control paragraph, and a repository index written from the lock.

Format: deb(5), an ar archive with debian-binary, control.tar.* and data.tar.*.
"""

from __future__ import annotations

import io
import lzma
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from guest.errors import Refused
from guest.reason import Reason
from image.base.lock import BaseLock

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_CONTROL_LIMIT = 4 * 1024 * 1024


def control_paragraph(deb: Path) -> str:
    """Give a package's control file, without its final newline. Raises Refused(LOCK_MISMATCH) for anything else."""
    try:
        return _control_file(_control_member(deb))
    except (ValueError, EOFError, OSError, tarfile.TarError, lzma.LZMAError, zlib.error) as error:
        raise Refused(Reason.LOCK_MISMATCH, f"{deb}: not a Debian package: {error}") from error


def packages_index(lock: BaseLock, debs: Mapping[str, Path]) -> bytes:
    """Give the Packages index of a flat repository that holds each package as `<sha256>.deb`.

    Sizes and hashes are the lock's, not the files', so that apt itself refuses a file that was altered since.
    """
    paragraphs = []
    for package in lock.packages:
        control = control_paragraph(debs[package.sha256])
        fields = f"Filename: ./{package.sha256}.deb\nSize: {package.size}\nSHA256: {package.sha256}"
        paragraphs.append(f"{control}\n{fields}\n")
    return "\n".join(paragraphs).encode()


def _control_file(control: bytes) -> str:
    with tarfile.open(fileobj=io.BytesIO(control), mode="r:*") as tar:
        for member in tar:
            if member.name.removeprefix("./") == "control" and member.isreg() and member.size < _CONTROL_LIMIT:
                stream = tar.extractfile(member)
                if stream is not None:
                    return stream.read().decode().rstrip("\n")
    raise ValueError("no control file in it")


def _control_member(deb: Path) -> bytes:
    with deb.open("rb") as stream:
        if stream.read(len(_AR_MAGIC)) != _AR_MAGIC:
            raise ValueError("no ar archive")
        while header := stream.read(_AR_HEADER):
            if len(header) != _AR_HEADER or header[58:] != b"`\n" or not header[48:58].strip().isdigit():
                raise ValueError("broken ar header")
            size = int(header[48:58])
            if header.startswith(b"control.tar"):
                if size > _CONTROL_LIMIT:
                    raise ValueError(f"control member of {size} bytes")
                return stream.read(size)
            stream.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError("no control member")
