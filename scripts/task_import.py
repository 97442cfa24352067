"""Brings somebody else's task pack in: every tree is checked against a manifest before anything is put in place."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from guest.errors import Refused, UsageFault
from guest.reason import Reason
from guest.tasks.budgets import Budget, budgets_document, default_budget
from guest.tasks.definition import Network
from guest.tasks.json_file import write_json
from guest.tasks.layout import find_tasks
from guest.tasks.manifest import Difference, DigestManifest, TreeSummary, manifest_document, verify
from guest.tasks.task import task_from_files
from guest.tasks.tree import TreeFile, digest_of, read_tree


@dataclass(frozen=True)
class ImportChoices:
    """What the user says about single tasks, by bare id.

    `shared`: their tests need a daemon that the agent left. `network_both`: their agent phase has a network too.
    `without`: they are not imported.
    """

    shared: Collection[str] = ()
    network_both: Collection[str] = ()
    without: Collection[str] = ()


@dataclass(frozen=True)
class Imported:
    """What an import did: the tasks now in `cache`, and those of the source that the manifest does not name."""

    cache: Path
    dataset_digest: str
    tasks: list[str]
    left_out: list[str]


def import_pack(source: Path, manifest: DigestManifest, cache: Path, choices: ImportChoices) -> Imported:
    """Check the tasks under `source` against a manifest and put them into the new directory `cache`.

    Only what was digested is copied: regular files, from memory, as `tasks/<id>/…`, with `manifest.json` and
    `budgets.json` beside them. Everything is written into a temporary directory that is renamed at the end, so a
    refused or broken import leaves nothing. Raises UsageFault when `cache` exists or a choice names a task the manifest
    lacks, Refused(TASK_DIGEST_MISMATCH) naming every task that is missing or differs, and Refused(TASK_UNSUPPORTED or
    TASK_MALFORMED) naming every task that this runner could not run.
    """
    _check_choices(manifest, choices)
    if cache.exists() and (not cache.is_dir() or any(cache.iterdir())):
        raise UsageFault(Reason.USAGE, f"{cache} exists already", "remove it, or give another place with --cache DIR")
    wanted = {name: digest for name, digest in manifest.digests.items() if name not in choices.without}
    if not wanted:
        raise UsageFault(Reason.USAGE, "there is nothing to import: the manifest names no task, or all are left out")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{cache.name}.", dir=cache.parent) as scratch:
        pack = Path(scratch) / "pack"
        trees, budgets, left_out = _copy(source, wanted, pack / "tasks", choices)
        document = manifest_document(
            trees,
            dataset=manifest.dataset or cache.name,
            frozen_at_utc=manifest.frozen_at_utc,
            ground_truth=manifest.ground_truth,
            public_sources=manifest.public_sources,
        )
        write_json(pack / "manifest.json", document)
        write_json(pack / "budgets.json", budgets_document(budgets))
        pack.rename(cache)
    return Imported(cache, document["canonical_content_digest_sha256"], sorted(trees), left_out)


def _copy(
    source: Path, wanted: Mapping[str, str], target: Path, choices: ImportChoices
) -> tuple[dict[str, TreeSummary], dict[str, Budget], list[str]]:
    """Copy the wanted tasks one at a time (a pack may be larger than memory); complain about all of them at the end."""
    trees: dict[str, TreeSummary] = {}
    budgets: dict[str, Budget] = {}
    refused: list[Refused] = []
    places = find_tasks(source)
    for task_id in sorted(wanted.keys() & places.keys()):
        try:
            files = _read(places[task_id])
            trees[task_id] = TreeSummary(digest_of(files), len(files))
            if trees[task_id].digest != wanted[task_id]:
                continue
            definition = task_from_files(task_id, files).definition
        except Refused as refusal:
            refused.append(refusal)
            continue
        network: Network = "verifier" if definition.network in ("verifier", "both") else "none"
        budgets[task_id] = default_budget(
            definition,
            isolation="shared" if task_id in choices.shared else "isolated",
            network="both" if task_id in choices.network_both else network,
        )
        _write(files, target / task_id)
    differences = verify({name: tree.digest for name, tree in trees.items()}, wanted)
    # A task that is there and could not be read has its own words in `refused`.
    _complain([d for d in differences if d.kind != "missing" or d.task_id not in places], refused)
    return trees, budgets, sorted(places.keys() - wanted.keys())


def _read(place: Path | Refused) -> dict[str, TreeFile]:
    if isinstance(place, Refused):
        raise place
    return read_tree(place)


def _write(files: Mapping[str, TreeFile], target: Path) -> None:
    for path, file in files.items():
        full = target / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(file.data)
        full.chmod(0o755 if file.executable else 0o644)


def _complain(differences: list[Difference], refused: list[Refused]) -> None:
    hint = "nothing was imported; leave a task out with --without ID"
    if differences:
        said = "; ".join([*map(str, differences), *(refusal.message for refusal in refused)])
        raise Refused(Reason.TASK_DIGEST_MISMATCH, f"{len(differences)} tasks differ from the manifest: {said}", hint)
    if refused:
        raise Refused(refused[0].reason, "; ".join(refusal.message for refusal in refused), hint)


def _check_choices(manifest: DigestManifest, choices: ImportChoices) -> None:
    for option, ids in (
        ("--shared", choices.shared),
        ("--network-both", choices.network_both),
        ("--without", choices.without),
    ):
        unknown = sorted(set(ids) - manifest.digests.keys())
        if unknown:
            raise UsageFault(Reason.USAGE, f"{option} names tasks that the manifest lacks: {', '.join(unknown)}")
