"""The images of tasks: each pulled or built once, whatever the number of tasks and trials that use it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

import docker

from guest.errors import EnvironmentFault, EvalguestError, Refused
from guest.reason import Reason
from guest.tasks.task import Task
from guest.trial.image import (
    ImageFailure,
    ResolvedImage,
    digest_in,
    find_image,
    is_suitable_workdir,
    pull,
    pull_pinned,
    workdir_of,
)
from guest.trial.image_reference import ImageReference, parse_reference
from image.builder import build, last_words
from image.buildkit import find_buildkit
from image.context import BuildContext, context_of

KIND_LABEL = "evalguest.image"
"""On every image built here, with the value `task`: how to find and remove them all."""
WHY_LABEL = "evalguest.why"
"""Why an image was built although its task names one that could have been pulled."""
_WORKERS = 4

Say = Callable[[str, str], None]


def bake(
    api: docker.APIClient,
    tasks: Sequence[Task],
    *,
    pins: Mapping[str, str],
    say: Say,
    stop: threading.Event,
) -> dict[str, ResolvedImage | ImageFailure]:
    """Give each task's image by task id, pulling or building what the engine lacks; several at once.

    A task with a pin (`repo@sha256:…`) gets that image and no other. The others get their `docker_image`, or else what
    their Dockerfile makes: whichever is present, else pulled, else built. A task whose image cannot be had, or that
    sets no working directory for a task that sets none, gets an ImageFailure and never stops the others; so does each
    that is not done when `stop` is set. `say` gets (task id, what is done), and nothing for an image that is there.
    """
    bakery = _Bakery(api, pins, say, stop)
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="bake") as pool:
        return dict(zip([task.task_id for task in tasks], pool.map(bakery.image_of, tasks), strict=True))


class _Bakery:
    """One bake. Its methods are called from several threads."""

    def __init__(self, api: docker.APIClient, pins: Mapping[str, str], say: Say, stop: threading.Event) -> None:
        self._api = api
        self._pins = pins
        self._say = say
        self._stop = stop
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[ResolvedImage]] = {}

    def image_of(self, task: Task) -> ResolvedImage | ImageFailure:
        """Give a task's image, or why it has none."""
        try:
            if self._stop.is_set():
                raise Refused(Reason.INTERRUPTED, "stopped before its image was looked for")
            image = self._resolve(task)
        except EvalguestError as error:
            return ImageFailure(error.reason, f"{error.message} ({error.hint})" if error.hint else error.message)
        if task.definition.workdir is None and not is_suitable_workdir(image.workdir):
            message = f"the working directory of its image is {image.workdir!r}; expected a directory below /"
            return ImageFailure(Reason.WORKDIR_UNSUITABLE, message)
        return image

    def _resolve(self, task: Task) -> ResolvedImage:
        pin = self._pins.get(task.task_id)
        if pin is not None:
            return self._pinned(task, parse_reference(pin))
        name = task.definition.docker_image
        reference = parse_reference(name) if name is not None else None
        context = context_of(task)
        same = f"{reference} {context and context.image_name}"  # tasks of which both are equal get one answer
        return self._once(same, lambda: self._by_definition(task, reference, context))

    def _by_definition(
        self, task: Task, reference: ImageReference | None, context: BuildContext | None
    ) -> ResolvedImage:
        if reference is not None and (found := find_image(self._api, str(reference))):
            return self._pinned(task, reference) if reference.digest else _described(found, reference, "present")
        if context is not None and (found := find_image(self._api, context.image_name)):
            return _built(found)
        why = ""
        if reference is not None:
            try:
                if reference.digest is not None:
                    return self._pinned(task, reference)
                return self._once(str(reference), lambda: self._pull(task, reference))
            except EnvironmentFault as fault:
                if context is None:
                    raise
                why = last_words(fault.message)
                self._say(task.task_id, f"{why}; building it from its Dockerfile")
        if context is None:
            raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, "the task names no image and has no Dockerfile")
        return self._once(context.image_name, lambda: self._build(task, context, why))

    def _once(self, key: str, make: Callable[[], ResolvedImage]) -> ResolvedImage:
        """Make what has this key, or wait for the thread that does; all get one result, or one error."""
        with self._lock:
            future = self._under_way.get(key)
            mine = future is None
            if future is None:
                future = self._under_way[key] = Future()
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:  # noqa: BLE001 - raised below, in every thread that waits
                future.set_exception(error)
        return future.result()

    def _pinned(self, task: Task, reference: ImageReference) -> ResolvedImage:
        def make() -> ResolvedImage:
            if find_image(self._api, str(reference)) is None:
                self._say(task.task_id, f"pulling {reference}")
            seconds = task.definition.build_timeout_sec
            return pull_pinned(self._api, str(reference), seconds=seconds, stop=self._stop)

        return self._once(str(reference), make)

    def _pull(self, task: Task, reference: ImageReference) -> ResolvedImage:
        self._say(task.task_id, f"pulling {reference}")
        pull(self._api, reference, seconds=task.definition.build_timeout_sec, stop=self._stop)
        found = find_image(self._api, str(reference))
        if found is None:
            raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, f"the pull ended well, yet the engine has no {reference}")
        return _described(found, reference, "pulled")

    def _build(self, task: Task, context: BuildContext, why: str) -> ResolvedImage:
        self._say(task.task_id, "building its image from its Dockerfile")
        began = time.monotonic()
        labels = {KIND_LABEL: "task", **({WHY_LABEL: why} if why else {})}
        seconds = task.definition.build_timeout_sec
        build(self._api, context, labels, buildkit=find_buildkit(), seconds=seconds, stop=self._stop)
        found = find_image(self._api, context.image_name)
        if found is None:
            message = f"the build ended well, yet the engine has no {context.image_name}"
            raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, message)
        self._say(task.task_id, f"built in {time.monotonic() - began:.1f} s")
        return _built(found)


def _described(
    found: Mapping[str, Any], reference: ImageReference, source: Literal["pulled", "present"]
) -> ResolvedImage:
    """Name an image by the digest a registry gave it, else by its id: a tag that is present here proves nothing."""
    given = [digest_in(each, reference.name) for each in found.get("RepoDigests") or []]
    digest = min(filter(None, given), default=None)
    if digest is None:
        return ResolvedImage(found["Id"], found["Id"], "id", source, workdir_of(found))
    return ResolvedImage(found["Id"], f"{reference.name}@{digest}", "digest", source, workdir_of(found))


def _built(found: Mapping[str, Any]) -> ResolvedImage:
    why = ((found.get("Config") or {}).get("Labels") or {}).get(WHY_LABEL, "")
    note = f"built from its Dockerfile: {why}" if why else ""
    return ResolvedImage(found["Id"], found["Id"], "id", "built", workdir_of(found), note)
