"""A submitted agent's archive: every limit it must keep, and what is in it.

Nothing is ever extracted to a disk of ours: the files go from here into the agent host, over the channel.
"""

from __future__ import annotations

import ast
import stat
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from guest.agent.zip_form import ZipEntry, read_zip
from guest.errors import Refused
from guest.reason import Reason
from guest.wire.agent_identity import agent_hash, package_tree_sha

MAX_ARCHIVE_BYTES = 1_048_576
MAX_FILES = 200
MAX_ENTRIES = 2 * MAX_FILES
MAX_DEPTH = 12
MAX_NAME = 180
MAX_TOTAL_BYTES = 20 * 1024 * 1024
MAX_RATIO = 100
MAX_ENTRY_POINT_BYTES = 1024 * 1024
"""Parsing takes some hundred times the memory of its source."""
ENTRY_POINT = "agent.py"

ARCHIVE_SUFFIXES = (
    *(".zip", ".jar", ".war", ".whl", ".egg", ".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tzst"),
    *(".gz", ".bz2", ".xz", ".lzma", ".zst", ".7z", ".rar", ".cab", ".iso", ".deb", ".rpm"),
)
COMPILED_SUFFIXES = (".pth", ".pyc", ".pyo", ".pyd", ".so", ".dll", ".dylib", ".a", ".o", ".exe")
_ARCHIVE_MARKS = (
    *(b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"7z\xbc\xaf\x27\x1c", b"\x28\xb5\x2f\xfd"),
    *(b"Rar!\x1a\x07", b"MSCF", b"!<arch>\n"),
)
_COMPILED_MARKS = (b"\x7fELF", b"MZ\x90\x00", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_TAR_MARK_AT = 257


@dataclass(frozen=True)
class PackageFile:
    """One file of an agent: its content and whether its owner may execute it."""

    data: bytes = field(repr=False)
    executable: bool = False


@dataclass(frozen=True)
class AgentPackage:
    """An agent that keeps every limit: its files by path, the hash of its archive and of its tree (hex)."""

    files: Mapping[str, PackageFile] = field(repr=False)
    sha256: str
    tree_sha256: str


def load_archive(data: bytes) -> AgentPackage:
    """Read an agent's ZIP file. Raises Refused with the reason of the first limit it breaks."""
    if len(data) > MAX_ARCHIVE_BYTES:
        raise Refused(
            Reason.AGENT_ARCHIVE_TOO_LARGE,
            f"the archive has {len(data)} bytes, at most {MAX_ARCHIVE_BYTES} are allowed",
        )
    files: dict[str, PackageFile] = {}
    left = MAX_TOTAL_BYTES
    for entry in read_zip(data, MAX_ENTRIES):
        _check_kind(entry)
        path = entry.name.removesuffix("/")
        check_path(path)
        if entry.name.endswith("/"):
            if entry.size:
                _refuse(Reason.AGENT_ENTRY_REFUSED, f"{path!a} is a directory with content")
            continue
        content = _content(entry, left)
        left -= len(content)
        if path in files:
            _refuse(Reason.AGENT_PATH_DUPLICATE, f"{path!a} is there twice")
        files[path] = PackageFile(content, bool(entry.mode & 0o100))
    check_files(files)
    tree = package_tree_sha((path, file.data) for path, file in files.items())
    return AgentPackage(files, agent_hash(data), tree)


def check_files(files: Mapping[str, PackageFile]) -> None:
    """Hold files whose paths were checked to the limits of number, size, names and contents. Raises Refused."""
    if len(files) > MAX_FILES:
        _refuse(Reason.AGENT_TOO_MANY_FILES, f"there are {len(files)} files, at most {MAX_FILES} are allowed")
    total = sum(len(file.data) for file in files.values())
    if total > MAX_TOTAL_BYTES:
        _refuse(Reason.AGENT_ARCHIVE_EXPANDS, f"the files have {total} bytes, at most {MAX_TOTAL_BYTES} are allowed")
    _check_distinct(files)
    for path, file in files.items():
        _check_content(path, file.data)
    _check_entry_point(files)


def check_path(path: str) -> None:
    """Refuse a path that could mean something else than a file inside the agent's directory. Raises Refused."""
    parts = path.split("/")
    if not path.isprintable() or "\\" in path:
        _refuse(Reason.AGENT_PATH_REFUSED, f"{path[:200]!a} has a backslash or a character that cannot be printed")
    if any(part in {"", ".", ".."} for part in parts):
        _refuse(Reason.AGENT_PATH_REFUSED, f"{path[:200]!a} is absolute, or has an empty, '.' or '..' part")
    if len(parts) > MAX_DEPTH:
        _refuse(Reason.AGENT_PATH_REFUSED, f"{path[:200]!a} has {len(parts)} parts, at most {MAX_DEPTH} are allowed")
    longest = max(len(part.encode()) for part in parts)
    if longest > MAX_NAME:
        _refuse(
            Reason.AGENT_PATH_REFUSED, f"{path[:200]!a} has a part of {longest} bytes, at most {MAX_NAME} are allowed"
        )


def _check_kind(entry: ZipEntry) -> None:
    kind = stat.S_IFMT(entry.mode)
    wanted = stat.S_IFDIR if entry.name.endswith("/") else stat.S_IFREG
    if kind not in {0, wanted}:
        _refuse(Reason.AGENT_ENTRY_REFUSED, f"{entry.name!a} is a link or a special file (mode {entry.mode:#o})")
    if entry.mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX):
        _refuse(Reason.AGENT_ENTRY_REFUSED, f"{entry.name!a} has set-id or sticky bits (mode {entry.mode:#o})")


def _content(entry: ZipEntry, left: int) -> bytes:
    packed = len(entry.compressed)
    if entry.size > packed * MAX_RATIO:
        _refuse(
            Reason.AGENT_ARCHIVE_EXPANDS,
            f"{entry.name!a} says it inflates {packed} bytes to {entry.size}, at most {MAX_RATIO} times are allowed",
        )
    return entry.content(min(left, packed * MAX_RATIO))


def _check_distinct(files: Mapping[str, PackageFile]) -> None:
    """Refuse paths that some file system takes for one another, and a file in the place of a directory."""
    seen: dict[str, str] = {}
    for path in files:
        folded = _folded(path)
        if folded in seen:
            _refuse(Reason.AGENT_PATH_DUPLICATE, f"{path!a} and {seen[folded]!a} differ in case or spelling only")
        seen[folded] = path
    for path in files:
        parts = _folded(path).split("/")
        for length in range(1, len(parts)):
            above = "/".join(parts[:length])
            if above in seen:
                _refuse(Reason.AGENT_PATH_DUPLICATE, f"{seen[above]!a} is a file, and the directory of {path!a}")


def _folded(path: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def _check_content(path: str, data: bytes) -> None:
    name = path.lower()
    tar = data[_TAR_MARK_AT : _TAR_MARK_AT + 5] == b"ustar"
    if name.endswith(ARCHIVE_SUFFIXES) or data.startswith(_ARCHIVE_MARKS) or tar:
        _refuse(Reason.AGENT_ARCHIVE_NESTED, f"{path!a} is an archive inside the archive", "unpack it first")
    if name.endswith(COMPILED_SUFFIXES) or data.startswith(_COMPILED_MARKS):
        _refuse(
            Reason.AGENT_FILE_REFUSED,
            f"{path!a} is compiled code or a .pth file",
            "leave it out; agents are source code",
        )


def _check_entry_point(files: Mapping[str, PackageFile]) -> None:
    if ENTRY_POINT not in files:
        hint = f"put {ENTRY_POINT} at the root of the archive, not in a folder"
        _refuse(Reason.AGENT_ENTRY_POINT_MISSING, f"there is no {ENTRY_POINT}", hint)
    source = files[ENTRY_POINT].data
    if len(source) > MAX_ENTRY_POINT_BYTES:
        _refuse(
            Reason.AGENT_ENTRY_POINT_MALFORMED,
            f"{ENTRY_POINT} has {len(source)} bytes, at most {MAX_ENTRY_POINT_BYTES} are allowed",
        )
    try:
        module = ast.parse(source.decode("utf-8-sig"), ENTRY_POINT)
    except (UnicodeDecodeError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        words = f"{type(error).__name__}: {error}"[:300]
        raise Refused(
            Reason.AGENT_ENTRY_POINT_MALFORMED, f"{ENTRY_POINT} is not Python source in UTF-8: {words}"
        ) from error
    if not any(isinstance(node, ast.ClassDef) and node.name == "Agent" for node in module.body):
        _refuse(Reason.AGENT_ENTRY_POINT_MALFORMED, f"{ENTRY_POINT} has no class Agent at its top level")


def _refuse(reason: Reason, message: str, hint: str = "") -> NoReturn:
    raise Refused(reason, message, hint)
