"""Content digests of a task tree and of a data set, as the deployed service computes them.

Pure functions over (path, bytes) pairs: walking a directory is the business of `guest.tasks.tree`. Neither digest
covers modes, owners, times, empty directories or links, and paths are hashed exactly as stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from guest.errors import Refused
from guest.reason import Reason


def tree_line(path: str, data: bytes) -> bytes:
    """One file's line of the tree digest: path in UTF-8, a zero byte, hex SHA-256 of the content, a newline.

    Raises Refused(TASK_MALFORMED) for a path that UTF-8 cannot spell.
    """
    try:
        name = path.encode()
    except UnicodeEncodeError as error:
        raise Refused(Reason.TASK_MALFORMED, f"file name {path!r} is not valid UTF-8") from error
    return name + b"\0" + sha256(data).hexdigest().encode() + b"\n"


def task_tree_digest(files: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256, as lowercase hex, over the lines of all files in code-point order of their paths.

    `files` gives relative paths with `/` between the parts, and raw content. An empty tree has the digest of no bytes.
    Raises Refused(TASK_MALFORMED) for a path that occurs twice or is not valid UTF-8.
    """
    digest = sha256()
    previous: str | None = None
    for path, data in sorted(files):
        if path == previous:
            raise Refused(Reason.TASK_MALFORMED, f"path {path!r} occurs twice in one tree")
        previous = path
        digest.update(tree_line(path, data))
    return digest.hexdigest()


def dataset_digest(tasks: Mapping[str, str]) -> str:
    """SHA-256, as lowercase hex, over `name NUL digest LF` for each bare task name in code-point order.

    `tasks` maps the bare name to the task tree digest in hex. Raises Refused(TASK_MALFORMED) for a name that is not
    valid UTF-8.
    """
    digest = sha256()
    for name in sorted(tasks):
        try:
            digest.update(f"{name}\0{tasks[name]}\n".encode())
        except UnicodeEncodeError as error:
            raise Refused(Reason.TASK_MALFORMED, f"task name {name!r} is not valid UTF-8") from error
    return digest.hexdigest()
