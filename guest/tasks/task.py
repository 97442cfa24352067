"""One task as it is run: its definition, its digest, and all its files in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.definition import TaskDefinition, parse_task_toml
from guest.tasks.tree import TreeFile, digest_of

MAX_INSTRUCTION_BYTES = 1024 * 1024

_MARKER = re.compile(r"(?:<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
_COMPOSE_FILES = ("docker-compose.yaml", "docker-compose.yml")


@dataclass(frozen=True)
class Task:
    """A task that passed every check of its form. `tree_digest` is the wire's `task_config_sha256`."""

    definition: TaskDefinition
    tree_digest: str
    instruction: str = field(repr=False)
    files: Mapping[str, TreeFile] = field(repr=False)

    @property
    def task_id(self) -> str:
        """The bare id."""
        return self.definition.task_id

    def subtree(self, prefix: str) -> dict[str, TreeFile]:
        """Give the files below one directory of the task, by path relative to it: `subtree("tests")["test.sh"]`."""
        start = prefix.rstrip("/") + "/"
        return {path.removeprefix(start): file for path, file in self.files.items() if path.startswith(start)}

    @property
    def has_dockerfile(self) -> bool:
        """Whether an image can be built for the task."""
        return "environment/Dockerfile" in self.files


def task_from_files(task_id: str, files: Mapping[str, TreeFile]) -> Task:
    """Check a tree that was read and give the task.

    Raises Refused(TASK_MALFORMED) when a file the format requires is missing, and Refused(TASK_UNSUPPORTED) when a file
    asks for what this runner does not do.
    """
    if "task.toml" not in files:
        raise _malformed(task_id, "no task.toml")
    definition = parse_task_toml(files["task.toml"].data, directory_name=task_id)
    _check_unsupported_files(task_id, files)
    for path in ("instruction.md", "tests/test.sh"):
        if path not in files:
            raise _malformed(task_id, f"no {path}")
    return Task(definition, digest_of(files), _instruction(task_id, files["instruction.md"].data), files)


def strip_provenance_marker(text: str) -> str:
    """Drop the leading comment lines that hold the word "canary", and the blank lines that follow them.

    Such lines mark benchmark files so that they can be kept out of training data; an agent is not shown them.
    """
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _MARKER.fullmatch(lines[start].strip()):
        start += 1
    while start and start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])


def _instruction(task_id: str, data: bytes) -> str:
    if len(data) > MAX_INSTRUCTION_BYTES:
        raise _malformed(task_id, f"instruction.md has {len(data)} bytes; at most {MAX_INSTRUCTION_BYTES} are read")
    try:
        text = strip_provenance_marker(data.decode())
    except UnicodeDecodeError as error:
        raise _malformed(task_id, f"instruction.md is not UTF-8: {error.reason} at byte {error.start}") from error
    if not text.strip():
        raise _malformed(task_id, "instruction.md says nothing")
    return text


def _check_unsupported_files(task_id: str, files: Mapping[str, TreeFile]) -> None:
    for path in files:
        if path in {f"environment/{name}" for name in _COMPOSE_FILES}:
            raise _unsupported(task_id, path, "a task is one container")
        if path == "trajectory.json":
            raise _unsupported(task_id, path, "agents start without prior context")
        if path.startswith(("tests/", "solution/")) and path.endswith("/.harborignore"):
            raise _unsupported(task_id, path, "every file of a task is used")


def _malformed(task_id: str, message: str) -> Refused:
    return Refused(Reason.TASK_MALFORMED, f"{task_id}: {message}")


def _unsupported(task_id: str, path: str, why: str) -> Refused:
    return Refused(Reason.TASK_UNSUPPORTED, f"{task_id}/{path} is not supported: {why}")
