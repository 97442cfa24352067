"""`evalguest agent`: pack a directory into the archive that is submitted, and check one before anybody else does."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guest.errors import Refused, UsageFault
from guest.reason import Reason

if TYPE_CHECKING:
    from guest.agent.archive import AgentPackage, PackageFile

LEFT_OUT = frozenset(
    {"__pycache__", ".git", ".hg", ".svn", ".DS_Store", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
_EPOCH = (1980, 1, 1, 0, 0, 0)

agent_app = typer.Typer(no_args_is_help=True, help="Pack an agent into its archive, and check an archive.")


@agent_app.command()
def pack(
    *,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that has agent.py in it.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the archive goes.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Pack a directory into an archive: the same files give the same bytes, and so the same agent hash.

    Nothing is written unless the archive keeps every limit.

    Example: evalguest agent pack my-agent -o agent.zip
    """
    from guest.agent.archive import load_archive

    data, left_out = pack_directory(directory)
    package = load_archive(data)
    temporary = output.with_name(f".{output.name}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(output)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageFault(Reason.USAGE, f"{output} cannot be written: {error.strerror}") from error
    for path in left_out:
        sys.stderr.write(f"left out: {path}\n")
    _tell(package, len(data), as_json=as_json)


@agent_app.command()
def check(
    *,
    path: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", exists=True, help="An archive, or a directory to be one.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Hold an archive to every limit that a submission must keep, and print its agent hash.

    Example: evalguest agent check agent.zip
    """
    package, size = read_package(path)
    _tell(package, size, as_json=as_json)


def read_package(path: Path) -> tuple[AgentPackage, int]:
    """Give an agent from its archive, or from a directory as `pack` would pack it, and the archive's size in bytes.

    Raises Refused for an agent that breaks a limit, UsageFault for a path that cannot be read.
    """
    from guest.agent.archive import MAX_ARCHIVE_BYTES, load_archive

    if path.is_dir():
        data, _ = pack_directory(path)
    else:
        try:
            with path.open("rb") as file:
                data = file.read(MAX_ARCHIVE_BYTES + 1)
        except OSError as error:
            raise UsageFault(Reason.USAGE, f"{path} cannot be read: {error.strerror}") from error
    return load_archive(data), len(data)


def pack_directory(root: Path) -> tuple[bytes, list[str]]:
    """Give a directory's archive and the paths left out of it (caches, version control).

    Files are stored as they are, which every build of zlib does alike; only what would then be too large is deflated.
    Raises Refused for what an archive may not hold, UsageFault for a directory that cannot be read.
    """
    from guest.agent.archive import MAX_ARCHIVE_BYTES

    if not root.is_dir():
        raise UsageFault(Reason.USAGE, f"{root} is no directory")
    files, left_out = _read_directory(root)
    data = _zip(files, zipfile.ZIP_STORED)
    if len(data) > MAX_ARCHIVE_BYTES:
        data = _zip(files, zipfile.ZIP_DEFLATED)
    return data, left_out


def _read_directory(root: Path) -> tuple[dict[str, PackageFile], list[str]]:
    from guest.agent.archive import MAX_FILES, MAX_TOTAL_BYTES, PackageFile, check_files, check_path

    files: dict[str, PackageFile] = {}
    left_out: list[str] = []
    left = MAX_TOTAL_BYTES
    try:
        for folder, folders, names in os.walk(root, onerror=_raise):
            here = Path(folder)
            left_out += [(here / name).relative_to(root).as_posix() for name in {*folders, *names} & LEFT_OUT]
            links = [name for name in folders if (here / name).is_symlink()]
            folders[:] = sorted(set(folders) - LEFT_OUT - set(links))
            for name in sorted({*names, *links} - LEFT_OUT):
                full = here / name
                path = full.relative_to(root).as_posix()
                status = full.lstat()
                if not stat.S_ISREG(status.st_mode):
                    raise Refused(Reason.AGENT_ENTRY_REFUSED, f"{path!a} is a link or a special file")
                check_path(path)
                left -= status.st_size
                if left < 0 or len(files) == MAX_FILES:
                    words = f"{root} holds more than {MAX_FILES} files or {MAX_TOTAL_BYTES} bytes"
                    raise Refused(Reason.AGENT_TOO_MANY_FILES, words)
                files[path] = PackageFile(full.read_bytes(), bool(status.st_mode & 0o100))
    except OSError as error:
        raise UsageFault(Reason.USAGE, f"{root} cannot be read: {error}") from error
    check_files(files)
    return dict(sorted(files.items())), sorted(left_out)


def _zip(files: dict[str, PackageFile], method: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, file in files.items():
            info = zipfile.ZipInfo(path, _EPOCH)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | (0o755 if file.executable else 0o644)) << 16
            info.compress_type = method if file.data else zipfile.ZIP_STORED
            archive.writestr(info, file.data, compresslevel=9)
    return made.getvalue()


def _tell(package: AgentPackage, size: int, *, as_json: bool) -> None:
    total = sum(len(file.data) for file in package.files.values())
    if as_json:
        document = {
            "schema_version": 1,
            "agent_hash": package.sha256,
            "package_tree_sha": package.tree_sha256,
            "archive_bytes": size,
            "files": {path: len(file.data) for path, file in package.files.items()},
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    print(f"agent hash        {package.sha256}")
    print(f"package tree sha  {package.tree_sha256}")
    print(f"{len(package.files)} files, {total} bytes, {size} in the archive")


def _raise(error: OSError) -> None:
    raise error
