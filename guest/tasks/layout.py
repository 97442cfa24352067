"""Where the tasks of a cache directory are: the two pack layouts and the content-hash layout of one task."""

from __future__ import annotations

import os
from pathlib import Path

from guest.errors import Refused, UsageFault
from guest.reason import Reason
from guest.tasks.task_id import check_task_id

MAX_DIRECTORIES = 10_000


def task_root(directory: Path) -> Path | None:
    """The directory that holds `task.toml`: the task's own, or its one subdirectory that does (named by a digest).

    None when there is none. Raises Refused(TASK_MALFORMED) when several subdirectories do.
    """
    if (directory / "task.toml").is_file():
        return directory
    inner = sorted(path for path in _directories(directory) if (path / "task.toml").is_file())
    if len(inner) > 1:
        names = ", ".join(path.name for path in inner[:4])
        raise Refused(Reason.TASK_MALFORMED, f"{directory.name}: several subdirectories hold a task.toml: {names}")
    return inner[0] if inner else None


def find_tasks(root: Path) -> dict[str, Path | Refused]:
    """Give, for each task directory of a pack, the directory that holds its `task.toml`, or why it is none.

    Tasks lie in `root/tasks/`, where every directory must be one, or directly under `root`, where other directories are
    passed over. Order: code points of the names. Raises UsageFault when `root` is no directory, Refused(TASK_MALFORMED)
    when two names differ in case only.
    """
    if not root.is_dir():
        raise UsageFault(Reason.USAGE, f"{root} is not a directory", "give a directory of tasks with --cache DIR")
    own_folder = (root / "tasks").is_dir() and not (root / "tasks" / "task.toml").is_file()
    found: dict[str, Path | Refused] = {}
    for directory in sorted(_directories(root / "tasks" if own_folder else root)):
        try:
            place = task_root(directory)
            if place is not None:
                check_task_id(directory.name)
        except Refused as refusal:
            found[directory.name] = refusal
            continue
        if place is not None:
            found[directory.name] = place
        elif own_folder:
            found[directory.name] = Refused(Reason.TASK_MALFORMED, f"{directory.name}: no task.toml")
    _refuse_case_clashes(found)
    return found


def _directories(path: Path) -> list[Path]:
    """Real directories only (no link is followed), without hidden ones such as `.git`."""
    try:
        with os.scandir(path) as scan:
            names = [entry.name for entry in scan if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise Refused(Reason.TASK_MALFORMED, f"{path} cannot be read: {error.strerror}") from error
    if len(names) > MAX_DIRECTORIES:
        raise Refused(Reason.TASK_MALFORMED, f"{path} holds more than {MAX_DIRECTORIES} directories")
    return [path / name for name in names if not name.startswith(".")]


def _refuse_case_clashes(found: dict[str, Path | Refused]) -> None:
    seen: dict[str, str] = {}
    for name in list(found):
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            for clashing in (name, other):
                found[clashing] = Refused(
                    Reason.TASK_MALFORMED,
                    f"{other} and {name}: two tasks whose names differ in case only",
                    "rename one",
                )
