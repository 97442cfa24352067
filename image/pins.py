"""Image pins: the digest that a registry reports for an image, asked for without pulling, or after a push."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import docker

from guest.errors import EvalguestError, Refused
from guest.reason import Reason
from guest.tasks.task import Task
from guest.trial.engine import engine_call
from guest.trial.image import ImageFailure, ResolvedImage
from guest.trial.image_reference import ImageReference, parse_reference
from guest.trial.long_answer import follow
from image.task_images import Say

_WORKERS = 4
_PUSH_SEC = 3600.0


def pin(
    api: docker.APIClient, tasks: Sequence[Task], *, say: Say, stop: threading.Event
) -> dict[str, str | ImageFailure]:
    """Give `repo@sha256:…` for each task that names a `docker_image`, as its registry has it now. Pulls nothing."""

    def ask(task_id: str, name: str) -> str:
        reference = parse_reference(name)
        say(task_id, f"asking for the digest of {reference}")
        return _reported(api, reference)

    named = {task.task_id: task.definition.docker_image for task in tasks if task.definition.docker_image}
    return _each({task_id: partial(ask, task_id, name) for task_id, name in named.items()}, stop)


def publish(
    api: docker.APIClient,
    repository: ImageReference,
    images: Mapping[str, ResolvedImage],
    *,
    say: Say,
    stop: threading.Event,
) -> dict[str, str | ImageFailure]:
    """Push each image that only this machine has to `repository`, and give every task's `repo@sha256:…` by task id.

    An image known by its digest is in a registry already, and keeps that name. A pushed one gets the tag
    `<task id>-<12 hex digits of its id>`.
    """

    def push(task_id: str, image: ResolvedImage) -> str:
        if image.kind == "digest":
            return image.ref
        tag = f"{task_id}-{image.image_id.removeprefix('sha256:')[:12]}"
        target = ImageReference(repository.registry, repository.repository, tag)
        say(task_id, f"pushing {target}")
        with engine_call(f"tag {target}"):
            api.tag(image.image_id, target.name, tag)

        def call(client: docker.APIClient) -> Any:  # noqa: ANN401 - the client library is not typed
            return client.push(target.name, tag=tag, stream=True, decode=True)

        pushed = [
            str(item["aux"]["Digest"])
            for item in follow(api, f"push {target}", call, seconds=_PUSH_SEC, stop=stop)
            if "aux" in item
        ]
        reported = _reported(api, target)
        if not any(reported == f"{target.name}@{digest}" for digest in pushed):
            message = f"pushed {', '.join(pushed) or 'nothing'} as {target}, and its registry reports {reported}"
            raise Refused(Reason.IMAGE_MISMATCH, message, "has somebody else pushed that tag?")
        return reported

    return _each({task_id: partial(push, task_id, image) for task_id, image in images.items()}, stop)


def _reported(api: docker.APIClient, reference: ImageReference) -> str:
    with engine_call(f"ask the registry for {reference}"):
        answer: dict[str, Any] = api.inspect_distribution(str(reference))
    return str(parse_reference(f"{reference.name}@{answer['Descriptor']['digest']}"))


def _each(work: Mapping[str, Callable[[], str]], stop: threading.Event) -> dict[str, str | ImageFailure]:
    """Do the work of each task, several at once; one that fails stops no other."""

    def guarded(make: Callable[[], str]) -> str | ImageFailure:
        try:
            if stop.is_set():
                raise Refused(Reason.INTERRUPTED, "stopped before it was looked at")
            return make()
        except EvalguestError as error:
            return ImageFailure(error.reason, f"{error.message} ({error.hint})" if error.hint else error.message)

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="pin") as pool:
        return dict(zip(work, pool.map(guarded, work.values()), strict=True))
