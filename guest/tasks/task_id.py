"""Task ids: the one safe spelling that is used in directory, container and network names."""

from __future__ import annotations

import re
from typing import TypeVar

from guest.errors import Refused
from guest.reason import Reason

PREFIX = "terminal-bench/"
"""Published lists spell the same task with and without this."""

_Value = TypeVar("_Value")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def is_task_id(text: str) -> bool:
    """Whether `text` is a bare task id: 1 to 100 of `A-Za-z0-9._-`, beginning with a letter or digit, without `..`."""
    return _ID.fullmatch(text) is not None and ".." not in text


def check_task_id(text: str) -> str:
    """Give `text` back when it is a bare task id. Raises Refused(TASK_MALFORMED) otherwise."""
    if not is_task_id(text):
        raise Refused(
            Reason.TASK_MALFORMED,
            f"{text[:120]!r} cannot be a task id: expected 1 to 100 of A-Z a-z 0-9 . _ -, beginning with a letter or "
            "digit and without '..'",
            "rename the task's directory",
        )
    return text


def bare(text: str) -> str:
    """Drop the `terminal-bench/` prefix when there is one."""
    return text.removeprefix(PREFIX)


def bare_ids(tasks: dict[str, _Value]) -> dict[str, _Value]:
    """Give a mapping back when each of its keys is a bare task id. Raises ValueError, for pydantic, otherwise."""
    for name in tasks:
        if not is_task_id(name):
            raise ValueError(f"{name[:120]!r} is not a bare task id")
    return tasks
