"""The images of tasks: each pulled or built once, whatever the number of tasks and trials that use it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import docker

from guest.errors import EnvironmentFault, EvalguestError
from guest.reason import Reason
from guest.tasks.task import Task
from guest.trial.engine import engine_call
from guest.trial.image import ImageFailure, ResolvedImage, canonical, find_image, pull_pinned, workdir_of
from guest.trial.tarstream import TarFile
from image.builder import build

REPOSITORY = "evalguest-task"
WORKERS = 4
Say = Callable[[str, str], None]


def built_name(task: Task) -> str:
    """Give the name of the image built from a task's Dockerfile: it carries the digest of the build context."""
    return f"{REPOSITORY}:{task.environment_digest}"


def bake(
    api: docker.APIClient,
    tasks: Sequence[Task],
    *,
    pins: Mapping[str, str],
    say: Say,
    stop: threading.Event,
) -> dict[str, ResolvedImage | ImageFailure]:
    """Give each task's image by task id, pulling or building what the engine lacks; several at once.

    In this order: the pinned digest in `pins`; the task's `docker_image`, from the engine or pulled; its Dockerfile. A
    task whose image cannot be had gets an ImageFailure and never stops the others. `say` gets (task id, what is done),
    and nothing for an image that is there.
    """
    groups: dict[tuple[str | None, ...], list[Task]] = {}
    for task in tasks:
        pin = pins.get(task.task_id)
        key = (pin,) if pin else (None, task.definition.docker_image, built_name(task) if task.has_dockerfile else None)
        groups.setdefault(key, []).append(task)
    with ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="bake") as pool:
        obtained = list(
            pool.map(lambda group: _obtain(api, group[0], pins.get(group[0].task_id), say, stop), groups.values())
        )
    return {
        task.task_id: _with_workdir(task, result)
        for group, result in zip(groups.values(), obtained, strict=True)
        for task in group
    }


def _obtain(
    api: docker.APIClient, task: Task, pin: str | None, say: Say, stop: threading.Event
) -> ResolvedImage | ImageFailure:
    try:
        if pin is not None:
            return pull_pinned(api, pin)
        return _by_definition(api, task, say, stop)
    except EvalguestError as error:
        return ImageFailure(error.reason, error.message)


def _by_definition(api: docker.APIClient, task: Task, say: Say, stop: threading.Event) -> ResolvedImage:
    tag = task.definition.docker_image
    note = ""
    if tag is not None:
        found = find_image(api, tag)
        if found is not None:
            return _resolved(found, tag, "present")
        say(task.task_id, f"pulling {tag}")
        try:
            with engine_call(f"pull {tag}"):
                _pull(api, tag, stop)
            found = find_image(api, tag)
        except EnvironmentFault as fault:
            if not task.has_dockerfile:
                raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, fault.message) from fault
            note = f"built from its Dockerfile, since {fault.message}"
        if found is not None:
            return _resolved(found, tag, "pulled")
    if not task.has_dockerfile:
        raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, "the task names no image and has no Dockerfile")
    name = built_name(task)
    found = find_image(api, name)
    if found is None:
        say(task.task_id, f"building {name[: len(REPOSITORY) + 13]}")
        files = {
            path: TarFile(file.data, 0o755 if file.executable else 0o644)
            for path, file in task.subtree("environment").items()
        }
        build(api, name, files, seconds=task.definition.build_timeout_sec, stop=stop)
        found = find_image(api, name)
    if found is None:
        raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, f"the build ended well, yet the engine has no {name}")
    return ResolvedImage(found["Id"], found["Id"], "id", "built", workdir_of(found), note)


def _pull(api: docker.APIClient, tag: str, stop: threading.Event) -> None:
    for item in api.pull(tag, stream=True, decode=True):
        if stop.is_set():
            raise EnvironmentFault(Reason.INTERRUPTED, "stopped while an image was being pulled")
        if "error" in item:
            raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, f"could not pull {tag}: {item['error']}")


def _resolved(found: Mapping[str, Any], tag: str, source: Literal["pulled", "present"]) -> ResolvedImage:
    """Prefer the digest a registry gave the image; an image without one is known by its id."""
    repository = canonical(tag).rsplit("@", 1)[0].rsplit(":", 1)[0]
    for digest in found.get("RepoDigests") or []:
        if canonical(digest).startswith(f"{repository}@sha256:"):
            return ResolvedImage(found["Id"], digest, "digest", source, workdir_of(found))
    return ResolvedImage(found["Id"], found["Id"], "id", source, workdir_of(found))


def _with_workdir(task: Task, result: ResolvedImage | ImageFailure) -> ResolvedImage | ImageFailure:
    """Refuse an image without a working directory, unless the task sets one: tests refuse to run in `/`."""
    if isinstance(result, ImageFailure) or task.definition.workdir or result.workdir.strip("/"):
        return result
    return ImageFailure(
        Reason.WORKDIR_UNSUITABLE, f"the image's working directory is {result.workdir!r}, expected one below /"
    )
