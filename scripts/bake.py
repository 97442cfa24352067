"""`evalguest bake`: have every task's image before a run needs it, pin images by digest, publish built ones."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guest.errors import UsageFault
from guest.reason import Reason

if TYPE_CHECKING:
    from guest.tasks.cache import TaskCache
    from guest.tasks.task import Task
    from guest.trial.engine import Engine
    from guest.trial.image import ImageFailure, ResolvedImage
    from guest.trial.image_reference import ImageReference
    from image.task_images import Say

    Images = Mapping[str, ResolvedImage | ImageFailure]
    Pins = Mapping[str, str | ImageFailure]

CHECKOUT = Path(__file__).resolve().parent.parent


def bake(
    tasks: Annotated[list[str] | None, typer.Argument(help="Task ids; all of the cache when none is named.")] = None,
    *,
    cache: Annotated[Path, typer.Option("--cache", help="The task cache or pack.")] = CHECKOUT / "task-cache",
    publish: Annotated[
        str | None,
        typer.Option("--publish", metavar="REPO", help="Push what was built there; write the digests to images.json."),
    ] = None,
    pin: Annotated[
        bool, typer.Option("--pin", help="Pull nothing: write the digest of each docker_image to images.json.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Pull or build each task's image once, several at a time; what is there already is left alone.

    A pinned image is pulled by digest; else the task's docker_image is pulled, or its Dockerfile built. All are tried;
    when one could not be had it ends with 1, and images.json is left as it was.

    Example: evalguest bake --cache ~/packs/terminal-bench-2.1 --pin
    """
    from guest.tasks.cache import load_cache
    from guest.tasks.images import image_pins_document
    from guest.tasks.json_file import write_json
    from guest.trial.engine import connect
    from scripts.progress import Progress
    from scripts.stop_signals import stop_on_signals

    repository = _repository(publish)
    if pin and repository is not None:
        raise UsageFault(Reason.USAGE, "--pin asks for what is published, --publish publishes: give one of them")
    held = load_cache(cache)
    chosen = held.select(tasks or [])
    if pin and not any(task.definition.docker_image for task in chosen):
        message = "none of these tasks names a docker_image, so there is nothing to pin"
        raise UsageFault(Reason.USAGE, message, "--publish REPO publishes built images and pins them")
    engine = connect()
    images: Images = {}
    with stop_on_signals("stopping: breaking off the pulls and builds") as stop, Progress(total=0) as progress:
        if pin:
            pins = _pin(engine, chosen, progress.say, stop)
        else:
            images = _bake(engine, chosen, held, progress.say, stop, publishing=repository is not None)
            pins = _publish(engine, repository, images, progress.say, stop) if repository is not None else {}
    failures = _failures(images) | _failures(pins)
    written = cache / "images.json" if pins and not failures else None
    if written is not None:
        found = {task_id: text for task_id, text in pins.items() if isinstance(text, str)}
        write_json(written, image_pins_document({**held.image_pins, **found}))
    rows = [_row(task.task_id, images, pins, failures) for task in chosen]
    if as_json:
        document = {
            "schema_version": 1,
            "cache": str(cache),
            "tasks": rows,
            "written": str(written) if written else None,
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _print(rows, written)
    if failures:
        raise typer.Exit(1)


def _repository(text: str | None) -> ImageReference | None:
    from guest.errors import Refused
    from guest.trial.image_reference import parse_reference

    if text is None:
        return None
    try:
        reference = parse_reference(text)
    except Refused as refusal:
        raise UsageFault(Reason.USAGE, f"--publish: {refusal.message}") from refusal
    if reference.tag or reference.digest:
        raise UsageFault(Reason.USAGE, f"--publish is {text!r}; expected a repository without tag or digest")
    return reference


def _bake(
    engine: Engine, chosen: Sequence[Task], held: TaskCache, say: Say, stop: threading.Event, *, publishing: bool
) -> Images:
    from image.base.ensure import ensure_base
    from image.task_images import bake as bake_images
    from scripts.cache_dir import cache_dir

    dockerfiles = [task.files["environment/Dockerfile"].data for task in chosen if task.has_dockerfile]
    if any(b"FROM evalguest-base:" in text for text in dockerfiles):
        ensure_base(engine.api, cache_dir(), lambda words: say("base image", words))
    # What is to be published anew must not be what was published before.
    pins = {} if publishing else held.image_pins
    return bake_images(engine.api, chosen, pins=pins, say=say, stop=stop)


def _pin(engine: Engine, chosen: Sequence[Task], say: Say, stop: threading.Event) -> Pins:
    from image.pins import pin

    return pin(engine.api, chosen, say=say, stop=stop)


def _publish(engine: Engine, repository: ImageReference, images: Images, say: Say, stop: threading.Event) -> Pins:
    from guest.trial.image import ResolvedImage
    from image.pins import publish

    there = {task_id: image for task_id, image in images.items() if isinstance(image, ResolvedImage)}
    if len(there) < len(images):
        return {}  # images.json would not be written, so nothing is pushed
    return publish(engine.api, repository, there, say=say, stop=stop)


def _failures(results: Mapping[str, object]) -> dict[str, ImageFailure]:
    from guest.trial.image import ImageFailure

    return {task_id: result for task_id, result in results.items() if isinstance(result, ImageFailure)}


def _row(task_id: str, images: Images, pins: Pins, failures: Mapping[str, ImageFailure]) -> dict[str, Any]:
    failure, image, pin = failures.get(task_id), images.get(task_id), pins.get(task_id)
    return {
        "task_id": task_id,
        "image": vars(image) if image is not None and image is not failure else None,
        "pin": pin if isinstance(pin, str) else None,
        "error": {"reason": failure.reason, "message": failure.message} if failure else None,
    }


def _print(rows: Sequence[Mapping[str, Any]], written: Path | None) -> None:
    """A line a task, never cut: references are there to be copied."""
    lines = [["task", "source", "image", "note"]]
    for row in rows:
        image, error = row["image"] or {}, row["error"]
        source = image.get("source") or ("registry" if row["pin"] else "-")
        note = image.get("note", "") if image or row["pin"] else "names no docker_image"
        note = f"failed ({error['reason']})" if error else note
        lines.append([row["task_id"], source, row["pin"] or image.get("ref", "-"), " ".join(note.split())])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    failed = [row for row in rows if row["error"]]
    for row in failed:
        print(f"\n{row['task_id']}: {row['error']['message']}")
    if failed:
        print(f"\n{len(failed)} of {len(rows)} tasks failed")
    if written is not None:
        print(f"\nwrote {written}")
