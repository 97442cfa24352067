"""`evalguest tasks`: list, check, pin and import the tasks of a cache."""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guest.errors import UsageFault
from guest.reason import Reason

if TYPE_CHECKING:
    from guest.tasks.cache import TaskCache
    from guest.tasks.manifest import Difference, DigestManifest

CHECKOUT = Path(__file__).resolve().parent.parent
PACKS = CHECKOUT / "task-cache" / "packs"
POOL_SIZE = 30
"""The published service draws its tasks from this many first names, in code-point order, unless told otherwise."""

Cache = Annotated[
    Path,
    typer.Option(
        "--cache", help="The cache or pack: tasks/<id>/, or <id>/ directly under it.", show_default="task-cache/"
    ),
]
Manifest = Annotated[Path | None, typer.Option("--manifest", help="Compare with this manifest, not the cache's own.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Offline = Annotated[bool, typer.Option("--offline", help="Open no socket.")]

tasks_app = typer.Typer(no_args_is_help=True, help="List, check, pin and import the tasks of a cache.")


@tasks_app.command("list")
def list_tasks(*, cache: Cache = CHECKOUT / "task-cache", manifest: Manifest = None, as_json: Json = False) -> None:
    """List the tasks of a cache, what each asks for, and why one cannot be run.

    Example: evalguest tasks list --cache ~/packs/terminal-bench-2.1
    """
    from guest.tasks.budgets import budget_for
    from guest.tasks.cache import load_cache

    held = load_cache(cache)
    pins = _manifest(manifest).digests if manifest else held.manifest.digests if held.manifest else {}
    rows: list[dict[str, Any]] = []
    for task_id, task in sorted(held.tasks.items()):
        asks = task.definition
        budget = budget_for(asks, held.budgets.get(task_id), attested=False, chosen=False)
        rows.append(
            {
                "task_id": task_id,
                "tree_digest": task.tree_digest,
                "pinned": pins.get(task_id) == task.tree_digest,
                "cpus": asks.cpus,
                "memory_mb": asks.memory_mb,
                "agent_timeout_sec": asks.agent_timeout_sec,
                "verifier_timeout_sec": asks.verifier_timeout_sec,
                "network": budget.network,
                "isolation": budget.isolation,
                "docker_image": asks.docker_image,
            }
        )
    refused = [
        {"task_id": task_id, "reason_code": refusal.reason, "message": refusal.message}
        for task_id, refusal in sorted(held.refused.items())
    ]
    if as_json:
        _print_json({"cache": str(cache), "tasks": rows, "refused": refused})
        return
    _print_rows(
        ["task", "cpus", "MiB", "agent s", "verifier s", "network", "isolation", "pinned", "tree"],
        [
            [
                row["task_id"],
                f"{row['cpus']:g}",
                str(row["memory_mb"]),
                f"{row['agent_timeout_sec']:g}",
                f"{row['verifier_timeout_sec']:g}",
                row["network"],
                row["isolation"],
                "yes" if row["pinned"] else "no",
                row["tree_digest"][:12],
            ]
            for row in rows
        ],
    )
    for each in refused:
        sys.stdout.write(f"refused ({each['reason_code']}): {each['message']}\n")


@tasks_app.command()
def verify(
    *,
    cache: Cache = CHECKOUT / "task-cache",
    manifest: Manifest = None,
    pool: Annotated[
        str | None,
        typer.Option(
            help=f"A published set pinned here: compare with its pins, and require its first {POOL_SIZE} tasks."
        ),
    ] = None,
    offline: Offline = False,  # noqa: ARG001 - accepted, since scripts that verify pass it everywhere; no socket is used
    as_json: Json = False,
) -> None:
    """Compare a cache's trees with a manifest; name each missing, extra and changed task, and end with 1 on any.

    Example: evalguest tasks verify --cache ~/packs/terminal-bench-2.1 --pool terminal-bench-2.1
    """
    from guest.tasks import manifest as manifests
    from guest.tasks.cache import load_cache

    held = load_cache(cache)
    digests, unreadable = held.digests, held.unreadable
    own = cache / "manifest.json"
    missing_of_pool = _pool_differences(digests, pool) if pool else []
    if manifest is None and pool is not None:
        manifest = PACKS / pool / "manifest.json"
    if manifest is None and held.manifest is None:
        raise UsageFault(Reason.USAGE, f"there is no {own}", "say what to compare with: --manifest FILE")
    pins = _manifest(manifest) if manifest is not None else held.manifest
    differences: list[Difference] = []
    if pins is not None:
        found = manifests.verify(digests, pins.digests)
        differences = [each for each in found if each.task_id not in unreadable]
    holds = not (differences or missing_of_pool or unreadable)
    if as_json:
        _print_json(
            {
                "cache": str(cache),
                "manifest": str(manifest or own),
                "holds": holds,
                "total_tasks": len(digests),
                "differences": [vars(difference) for difference in differences],
                "pool": {"name": pool, "differences": [vars(each) for each in missing_of_pool]} if pool else None,
                "unreadable": [{"task_id": name, "message": why.message} for name, why in unreadable.items()],
            }
        )
    else:
        lines = [str(difference) for difference in differences]
        lines += [f"pool {pool}: {difference}" for difference in missing_of_pool]
        lines += [f"unreadable: {why.message}" for why in unreadable.values()]
        verdict = "all are as pinned" if holds else f"{len(lines)} differences"
        lines.append(f"tasks read: {len(digests)}; compared with {manifest or own}: {verdict}")
        sys.stdout.write("\n".join(lines) + "\n")
    if not holds:
        raise typer.Exit(1)


@tasks_app.command()
def digest(
    *,
    cache: Cache = CHECKOUT / "task-cache",
    manifest: Annotated[
        Path | None, typer.Option("--manifest", help="Print what this manifest pins instead of reading trees.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Also write the cache's own manifest.json: do so after changing a task.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print each task's tree digest and the data-set digest.

    Example: evalguest tasks digest --write
    """
    from guest.tasks.cache import load_cache
    from guest.tasks.json_file import write_json

    if manifest is not None and write:
        raise UsageFault(Reason.USAGE, "--write writes the cache's own manifest; it does not go with --manifest")
    if manifest is not None:
        read = _manifest(manifest)
        digests, dataset = read.digests, read.canonical_content_digest_sha256
    else:
        held = load_cache(cache)
        if held.unreadable:
            raise next(iter(held.unreadable.values()))
        document = _document(held)
        digests, dataset = held.digests, document["canonical_content_digest_sha256"]
        if write:
            write_json(cache / "manifest.json", document)
            sys.stderr.write(f"wrote {cache / 'manifest.json'}\n")
    if as_json:
        _print_json({"dataset_digest": dataset, "total_tasks": len(digests), "tasks": digests})
        return
    for name in sorted(digests):
        sys.stdout.write(f"{digests[name]}  {name}\n")
    sys.stdout.write(f"{dataset}  data set of {len(digests)} tasks\n")


@tasks_app.command("import")
def import_tasks(
    source: Annotated[
        str, typer.Argument(metavar="SRC[@REV]", help="A directory, a git URL, or either at a revision.")
    ],
    *,
    manifest: Annotated[Path, typer.Option("--manifest", help="What every tree must be, by digest.")],
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Where the pack goes; default: packs/<name> in the cache directory.")
    ] = None,
    network_both: Annotated[
        list[str] | None, typer.Option(help="A task whose agent phase has the network too (repeatable).")
    ] = None,
    shared: Annotated[
        list[str] | None, typer.Option(help="A task whose tests need a daemon the agent left running (repeatable).")
    ] = None,
    without: Annotated[list[str] | None, typer.Option(help="A task to leave out (repeatable).")] = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Bring a task pack in, after each tree's digest was checked; on any difference nothing is put in place.

    Budgets are written for it: CPU and wall time from the limits, a network for the verifier where the task has one.

    Example: evalguest tasks import ~/src/their-tasks@v1 --manifest pins.json --shared needs-a-daemon
    """
    from scripts.task_import import ImportChoices, import_pack

    pins = _manifest(manifest)
    target = cache or _default_target(pins)
    choices = ImportChoices(shared or (), network_both or (), without or ())
    commit: str | None = None
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".import-", dir=target.parent) as scratch:
        directory = Path(source)
        if not directory.is_dir():
            commit = _fetch(source, Path(scratch), offline=offline)
            directory = Path(scratch)
        done = import_pack(directory, pins, target, choices)
    if as_json:
        _print_json(
            {
                "cache": str(done.cache),
                "commit": commit,
                "dataset_digest": done.dataset_digest,
                "tasks": done.tasks,
                "left_out": done.left_out,
            }
        )
        return
    if done.left_out:
        sys.stderr.write(f"left out, not in the manifest: {', '.join(done.left_out)}\n")
    sys.stdout.write(
        f"imported {len(done.tasks)} tasks into {done.cache} (data set {done.dataset_digest})\n"
        f"run them: evalguest dry-run --cache {done.cache}\n"
    )


def _fetch(source: str, target: Path, *, offline: bool) -> str:
    from scripts.git_fetch import fetch, parse_git_source

    parsed = parse_git_source(source)
    if parsed is None:
        raise UsageFault(
            Reason.USAGE,
            f"{source!r} is neither a directory nor a git URL",
            "give a directory, DIR@REV, or a URL that begins with https://, ssh:// or file://",
        )
    if offline and not parsed.is_local:
        raise UsageFault(
            Reason.USAGE, f"{parsed.repository} needs the network, and --offline was given", "import a directory"
        )
    return fetch(parsed, target)


def _default_target(pins: DigestManifest) -> Path:
    from guest.tasks.task_id import is_task_id
    from scripts.cache_dir import cache_dir

    if pins.dataset is None or not is_task_id(pins.dataset):
        raise UsageFault(Reason.USAGE, "the manifest's data set has no plain name", "say where with --cache DIR")
    return cache_dir() / "packs" / pins.dataset


def _manifest(path: Path) -> DigestManifest:
    from guest.tasks.manifest import load_manifest

    return load_manifest(path)


def _pool_differences(digests: dict[str, str], pool: str) -> list[Difference]:
    from guest.tasks import manifest as manifests

    path = PACKS / pool / "manifest.json"
    if not path.exists():
        known = ", ".join(sorted(each.parent.name for each in PACKS.glob("*/manifest.json")))
        raise UsageFault(Reason.USAGE, f"--pool is {pool!r}; pins are here for: {known}")
    pins = _manifest(path).digests
    drawn = {name: pins[name] for name in sorted(pins)[:POOL_SIZE]}
    return manifests.verify({name: got for name, got in digests.items() if name in drawn}, drawn)


def _document(held: TaskCache) -> dict[str, Any]:
    """The cache's manifest as it should be; what the present one says of its origin is kept."""
    from guest.tasks.manifest import manifest_document

    old = held.manifest
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return manifest_document(
        held.trees,
        dataset=(old and old.dataset) or held.root.resolve().name,
        frozen_at_utc=old.frozen_at_utc if old is not None and old.digests == held.digests else today,
        ground_truth=old.ground_truth if old else None,
        public_sources=old.public_sources if old else None,
    )


def _print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"schema_version": 1, **document}, indent=2) + "\n")


def _print_rows(header: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        sys.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")
