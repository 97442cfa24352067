"""Tasks made for a test, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guest.tasks.budgets import Budget
from guest.tasks.definition import TaskDefinition
from guest.tasks.task import Task, task_from_files
from guest.tasks.tree import TreeFile

BUDGET = Budget(
    agent_cpu_sec=60.0,
    verifier_cpu_sec=60.0,
    agent_wall_sec=60.0,
    verifier_wall_sec=60.0,
    isolation="isolated",
    network="none",
)

TOML = """
schema_version = "1.1"
[task]
name = "made/{task_id}"
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 60.0
[environment]
cpus = 1
memory_mb = 256
allow_internet = false
"""


def make_task(
    task_id: str = "made",
    *,
    solve: str = "true",
    test: str = "echo 1 > /logs/verifier/reward.txt",
    dockerfile: str = "FROM scratch",
    toml: str = "",
    files: Mapping[str, str] | None = None,
) -> Task:
    """Give a task with this solution and verifier; `toml` is added to the definition, `files` to the tree."""
    tree = {
        "task.toml": TOML.format(task_id=task_id) + toml,
        "instruction.md": "Do it.\n",
        "environment/Dockerfile": dockerfile,
        "solution/solve.sh": solve,
        "tests/test.sh": test,
        **(files or {}),
    }
    return task_from_files(task_id, {path: TreeFile(text.encode(), executable=False) for path, text in tree.items()})


def make_definition(**changes: Any) -> TaskDefinition:
    """Give a definition with some members changed."""
    return make_task().definition.model_copy(update=changes)


def write_task(root: Path, task: Task) -> None:
    """Write a made task's tree under a cache directory, as `root/<id>/`."""
    for path, file in task.files.items():
        target = root / task.task_id / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
