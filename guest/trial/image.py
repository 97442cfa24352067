"""Which image a task's container runs, and pulling one that is pinned by digest."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import docker
from docker.errors import ImageNotFound

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.engine import engine_call
from guest.trial.image_reference import ImageReference, parse_reference
from guest.trial.long_answer import follow


@dataclass(frozen=True)
class ResolvedImage:
    """An image in the engine. `ref` is what containers are made from: `repo@sha256:…` (kind digest) or its id.

    `workdir` is the working directory the image sets, empty when it sets none. `note` says what somebody reading a
    record should know, such as why the image was built here.
    """

    image_id: str
    ref: str
    kind: Literal["digest", "id"]
    source: Literal["pulled", "built", "present"]
    workdir: str
    note: str = ""


@dataclass(frozen=True)
class ImageFailure:
    """Why a task's image could not be had, in the engine's own words."""

    reason: Reason
    message: str


def find_image(api: docker.APIClient, ref: str) -> Mapping[str, Any] | None:
    """Give the engine's description of an image it has, None when it has not. Raises EnvironmentFault."""
    with engine_call(f"look for the image {ref}"):
        try:
            description: dict[str, Any] = api.inspect_image(ref)
        except ImageNotFound:
            return None
    return description


def pull(api: docker.APIClient, reference: ImageReference, *, seconds: float, stop: threading.Event) -> None:
    """Pull an image. Raises EnvironmentFault with the engine's words, or after `seconds`, and Refused(INTERRUPTED)."""

    def call(client: docker.APIClient) -> Any:  # noqa: ANN401 - the client library is not typed
        # The tag argument of the pull call takes a digest as well.
        return client.pull(reference.name, tag=reference.selector, stream=True, decode=True)

    try:
        for _ in follow(api, f"pull {reference}", call, seconds=seconds, stop=stop):
            pass
    except EnvironmentFault as fault:
        raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, fault.message) from fault


def pull_pinned(api: docker.APIClient, ref: str, *, seconds: float, stop: threading.Event) -> ResolvedImage:
    """Give the image `repo@sha256:…`, pulled unless the engine has it, and checked to carry that digest.

    Raises Refused: IMAGE_MALFORMED for a reference without a digest, IMAGE_MISMATCH when the engine's image under it
    carries another; EnvironmentFault with the engine's words when it cannot be pulled.
    """
    reference = parse_reference(ref)
    if reference.digest is None:
        raise Refused(Reason.IMAGE_MALFORMED, f"{ref!r} is not pinned; expected repository@sha256:<64 hex digits>")
    pinned = str(reference)
    source: Literal["pulled", "present"] = "present"
    found = find_image(api, pinned)
    if found is None:
        source = "pulled"
        pull(api, reference, seconds=seconds, stop=stop)
        found = find_image(api, pinned)
    digests = [] if found is None else found.get("RepoDigests") or []
    if found is None or reference.digest not in [digest_in(each, reference.name) for each in digests]:
        raise Refused(Reason.IMAGE_MISMATCH, f"the engine's image for {pinned} carries {digests or 'no digest'}")
    return ResolvedImage(found["Id"], pinned, "digest", source, workdir_of(found))


def digest_in(repo_digest: str, name: str) -> str | None:
    """Give the digest of one of an image's RepoDigests, None when it is of another repository than `name`."""
    try:
        reference = parse_reference(repo_digest)
    except Refused:  # `<none>@<none>`, or a digest of another algorithm
        return None
    return reference.digest if reference.name == name else None


def workdir_of(description: Mapping[str, Any]) -> str:
    """Give the working directory an image sets, empty when it sets none."""
    return str((description.get("Config") or {}).get("WorkingDir") or "")


def is_suitable_workdir(workdir: str) -> bool:
    """Say whether a program may start there: tests refuse to run in the root, so it has to be a directory below it."""
    return posixpath.normpath(f"/{workdir}").strip("/") != ""
