"""Which agent it is: the hash of its ZIP as submitted, and the digest of the files in it."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NoReturn

from guest.reason import Reason
from guest.wire.refusal import WireRefused, shown


def agent_hash(archive: bytes) -> str:
    """Give the SHA-256, in hex, of an agent's ZIP file: the very bytes, not anything inside."""
    return sha256(archive).hexdigest()


def package_tree_sha(files: Iterable[tuple[str, bytes]]) -> str:
    """Give the digest, in hex, of a package's files by path and content.

    SHA-256 over the raw leaves SHA-256(path, zero byte, content) in code-point order of the paths, which have `/`
    between their parts; `.` parts fall away. Raises WireRefused for no file, a path that is absolute, leaves the
    package, is not UTF-8, or is there twice.
    """
    leaves: dict[str, bytes] = {}
    for given, content in files:
        path = _normalise(given)
        if path in leaves:
            _refuse(given, "must be there only once")
        leaves[path] = sha256(path.encode() + b"\0" + content).digest()
    if not leaves:
        raise WireRefused(Reason.PACKAGE_MALFORMED, "", "must hold at least one file")
    return sha256(b"".join(leaves[path] for path in sorted(leaves))).hexdigest()


def _normalise(given: str) -> str:
    path = given.replace("\\", "/")
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if path.startswith("/") or not parts or ".." in parts:
        _refuse(given, "must be a relative path that stays inside the package")
    try:
        "/".join(parts).encode()
    except UnicodeEncodeError:
        _refuse(given, "must be a name that UTF-8 can spell")
    return "/".join(parts)


def _refuse(path: str, rule: str) -> NoReturn:
    raise WireRefused(Reason.PACKAGE_MALFORMED, "", f"has a file that {rule}", shown(path))
