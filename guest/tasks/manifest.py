"""The manifest of a data set: each task's tree digest, in the published data-set digest form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from guest.reason import Reason
from guest.tasks.json_file import read_model
from guest.tasks.task_id import bare, is_task_id
from guest.wire.tree_digest import dataset_digest

SCHEMA = "harbor-independence/dataset-digest@1"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]

HASHING_METHOD = {
    "task": "SHA-256 over, for each regular file of the task's directory in code-point order of its relative path: "
    "path in UTF-8, one zero byte, hex SHA-256 of the content, newline. Links are skipped, nothing is skipped by name.",
    "dataset": "SHA-256 over, for each bare task name in code-point order: name, one zero byte, task digest, newline.",
}


class ManifestTask(BaseModel):
    """One task of a manifest. Only the content digest is used."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    content_digest_sha256: Sha256
    harbor_registry_ref: str | None = None
    file_count: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one_digest(self) -> Self:
        if self.harbor_registry_ref not in (None, f"sha256:{self.content_digest_sha256}"):
            raise ValueError("harbor_registry_ref and content_digest_sha256 carry different digests")
        return self


class DigestManifest(BaseModel):
    """A manifest as read: what is said about its origin is kept loosely, what is checked against is strict."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    schema_: Literal["harbor-independence/dataset-digest@1"] = Field(alias="schema")
    dataset: str | None = None
    frozen_at_utc: str | None = None
    ground_truth: dict[str, Any] = {}
    public_sources: dict[str, Any] = {}
    canonical_content_digest_sha256: Sha256
    task_count: int | None = None
    tasks: dict[str, ManifestTask]

    @model_validator(mode="after")
    def _recomputes(self) -> Self:
        digests = self.digests
        if len(digests) != len(self.tasks):
            raise ValueError("two task names are one without the terminal-bench/ prefix")
        for name in digests:
            if not is_task_id(name):
                raise ValueError(f"{name[:120]!r} is not a task name")
        if self.task_count not in (None, len(digests)):
            raise ValueError(f"task_count is {self.task_count}, there are {len(digests)} tasks")
        recomputed = dataset_digest(digests)
        if recomputed != self.canonical_content_digest_sha256:
            claimed = self.canonical_content_digest_sha256
            raise ValueError(f"canonical_content_digest_sha256 is {claimed}, the tasks give {recomputed}")
        return self

    @property
    def digests(self) -> dict[str, str]:
        """Bare task name to tree digest (hex)."""
        return {bare(name): task.content_digest_sha256 for name, task in self.tasks.items()}


@dataclass(frozen=True)
class TreeSummary:
    """What a manifest records of one tree."""

    digest: str
    file_count: int


@dataclass(frozen=True)
class Difference:
    """One task that differs between a tree and a manifest; `expected` is the manifest's digest, `got` the tree's."""

    task_id: str
    kind: Literal["missing", "extra", "changed"]
    expected: str | None
    got: str | None

    def __str__(self) -> str:
        """Say it in words."""
        if self.kind == "missing":
            return f"{self.task_id}: missing (the manifest has {self.expected})"
        if self.kind == "extra":
            return f"{self.task_id}: extra (not in the manifest; its tree is {self.got})"
        return f"{self.task_id}: changed (expected {self.expected}, got {self.got})"


def load_manifest(path: Path) -> DigestManifest:
    """Read a manifest.

    Raises UsageFault when there is no such file, and Refused(MANIFEST_MALFORMED) when it is not of the form or its
    data-set digest or task count is not what its own tasks give.
    """
    return read_model(path, DigestManifest, Reason.MANIFEST_MALFORMED)


def verify(trees: Mapping[str, str], manifest: Mapping[str, str]) -> list[Difference]:
    """Compare tree digests with a manifest's, both by bare task name. Gives each difference in code-point order."""
    found: list[Difference] = []
    for name in sorted(trees.keys() | manifest.keys()):
        expected, got = manifest.get(name), trees.get(name)
        if got is None:
            found.append(Difference(name, "missing", expected, None))
        elif expected is None:
            found.append(Difference(name, "extra", None, got))
        elif expected != got:
            found.append(Difference(name, "changed", expected, got))
    return found


def manifest_document(
    trees: Mapping[str, TreeSummary],
    *,
    dataset: str,
    frozen_at_utc: str | None = None,
    ground_truth: Mapping[str, Any] | None = None,
    public_sources: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The manifest of these trees as a JSON document, with every member of the published form.

    `gate` and `harbor_version` say how the publisher of the first such manifest made it; ours have neither.
    """
    return {
        "schema": SCHEMA,
        "dataset": dataset,
        "frozen_at_utc": frozen_at_utc,
        "gate": None,
        "harbor_version": None,
        "ground_truth": dict(ground_truth or {}),
        "public_sources": dict(public_sources or {}),
        "hashing_method": HASHING_METHOD,
        "canonical_content_digest_sha256": dataset_digest({name: tree.digest for name, tree in trees.items()}),
        "task_count": len(trees),
        "tasks": {
            name: {
                "content_digest_sha256": tree.digest,
                "file_count": tree.file_count,
                "harbor_registry_ref": f"sha256:{tree.digest}",
            }
            for name, tree in trees.items()
        },
    }
