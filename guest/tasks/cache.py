"""A task cache: a directory of tasks, with the manifest, budgets and image pins that stand beside them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.budgets import Budget, load_budgets
from guest.tasks.images import load_image_pins
from guest.tasks.layout import find_tasks
from guest.tasks.manifest import Difference, DigestManifest, TreeSummary, load_manifest, verify
from guest.tasks.task import Task, task_from_files
from guest.tasks.task_id import bare
from guest.tasks.tree import MAX_TREE_BYTES, digest_of, read_tree

MAX_CACHE_BYTES = 2 * 1024 * 1024 * 1024


@dataclass(frozen=True)
class TaskCache:
    """What a cache directory holds.

    `tasks` are the tasks that can be run, `refused` says of each other one why not (among them those that the manifest
    names and the directory lacks), `trees` has the digest of every tree that could be read, runnable or not.
    """

    root: Path
    tasks: Mapping[str, Task] = field(repr=False)
    refused: Mapping[str, Refused]
    trees: Mapping[str, TreeSummary]
    manifest: DigestManifest | None
    budgets: Mapping[str, Budget]
    image_pins: Mapping[str, str]

    @property
    def digests(self) -> dict[str, str]:
        """Bare task id to tree digest (hex), of every tree that could be read."""
        return {task_id: tree.digest for task_id, tree in self.trees.items()}

    @property
    def unreadable(self) -> dict[str, Refused]:
        """Of the refused tasks those that are there and whose tree could not be read, so that it has no digest."""
        return {
            task_id: why
            for task_id, why in self.refused.items()
            if task_id not in self.trees and why.reason != Reason.TASK_DIGEST_MISMATCH
        }

    def select(self, ids: Sequence[str]) -> list[Task]:
        """Give the named tasks in code-point order of their ids; all of them when none is named.

        A task is named by its id, with or without `terminal-bench/`, or by the name its `task.toml` carries. Raises
        Refused: TASK_UNKNOWN for a name the cache lacks, the task's own reason for one that was refused, TASK_MALFORMED
        when two names mean the same task.
        """
        wanted: dict[str, str] = {}
        for text in ids:
            task_id = self._resolve(text)
            if task_id in wanted:
                message = f"{wanted[task_id]!r} and {text!r} are the same task"
                raise Refused(Reason.TASK_MALFORMED, message, "name it once")
            wanted[task_id] = text
        selected = sorted(wanted or self.tasks.keys() | self.refused.keys())
        refused = [self.refused[task_id] for task_id in selected if task_id in self.refused]
        if refused:
            hint = refused[0].hint or ("" if wanted else "name the tasks to run, or leave this one out of the cache")
            raise Refused(refused[0].reason, "; ".join(each.message for each in refused), hint)
        if not selected:
            raise Refused(Reason.TASK_UNKNOWN, f"{self.root} holds no tasks", "give a cache directory with --cache DIR")
        return [self.tasks[task_id] for task_id in selected]

    def _resolve(self, text: str) -> str:
        known = self.tasks.keys() | self.refused.keys()
        if bare(text) in known:
            return bare(text)
        for task_id, task in self.tasks.items():
            if task.definition.name == text:
                return task_id
        near = difflib.get_close_matches(bare(text), known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`evalguest tasks list` shows the tasks there are"
        raise Refused(Reason.TASK_UNKNOWN, f"{self.root} has no task {text[:120]!r}", hint)


def load_cache(root: Path) -> TaskCache:
    """Read a cache: `root/tasks/<id>/`, or `<id>/` directly under `root`; and the files beside them, if any.

    One bad task never hides the others: it is in `refused`. When there is a manifest, so is every task whose tree
    differs from it, that it does not name, or that is missing. Raises UsageFault when `root` is no directory, Refused
    when a file beside the tasks is malformed, among that budgets for a task there is not.
    """
    manifest = load_manifest(root / "manifest.json") if (root / "manifest.json").exists() else None
    budgets = load_budgets(root / "budgets.json") if (root / "budgets.json").exists() else {}
    image_pins = load_image_pins(root / "images.json") if (root / "images.json").exists() else {}
    tasks: dict[str, Task] = {}
    refused: dict[str, Refused] = {}
    trees: dict[str, TreeSummary] = {}
    left = MAX_CACHE_BYTES
    for task_id, place in find_tasks(root).items():
        if isinstance(place, Refused):
            refused[task_id] = place
            continue
        try:
            files = read_tree(place, max_bytes=min(left, MAX_TREE_BYTES))
            left -= sum(len(file.data) for file in files.values())
            trees[task_id] = TreeSummary(digest_of(files), len(files))
            tasks[task_id] = task_from_files(task_id, files)
        except Refused as refusal:
            refused[task_id] = refusal
    _refuse_collapsing_names(tasks, refused)
    if manifest is not None:
        for difference in verify({task_id: tree.digest for task_id, tree in trees.items()}, manifest.digests):
            if difference.kind == "missing" and difference.task_id in refused:
                continue  # it is there, and why its tree could not be read says more
            tasks.pop(difference.task_id, None)
            refused[difference.task_id] = _mismatch(difference, root)
    stray = sorted(budgets.keys() - tasks.keys() - refused.keys())
    if stray:
        message = f"{root / 'budgets.json'} has entries for tasks that the cache lacks: {', '.join(stray[:5])}"
        raise Refused(Reason.BUDGETS_MALFORMED, message, "remove or rename the entries")
    return TaskCache(root, tasks, refused, trees, manifest, budgets, image_pins)


def _refuse_collapsing_names(tasks: dict[str, Task], refused: dict[str, Refused]) -> None:
    """Two directories whose `task.toml` carry one name are told apart by nobody who reads the results."""
    by_name: dict[str, list[str]] = {}
    for task_id, task in tasks.items():
        by_name.setdefault(bare(task.definition.name), []).append(task_id)
    for name, ids in by_name.items():
        if len(ids) > 1:
            for task_id in ids:
                del tasks[task_id]
                refused[task_id] = Refused(
                    Reason.TASK_MALFORMED,
                    f"{', '.join(ids)}: all carry the name {name!r}",
                    "give each task its own name",
                )


def _mismatch(difference: Difference, root: Path) -> Refused:
    hint = f"when the change is meant, write the manifest anew: evalguest tasks digest --write --cache {root}"
    return Refused(Reason.TASK_DIGEST_MISMATCH, f"{difference} in {root / 'manifest.json'}", hint)
