"""Which image a task's container runs, and pulling one that is pinned by digest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import docker
from docker.errors import ImageNotFound

from guest.errors import Refused
from guest.reason import Reason
from guest.trial.engine import engine_call

_PINNED = re.compile(r"(?P<repository>[a-z0-9][a-z0-9._:/-]{0,254})@(?P<digest>sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class ResolvedImage:
    """An image in the engine. `ref` is what containers are made from: `repo@sha256:…` (kind digest) or its id.

    `note` says what somebody reading a record should know, such as why the image was built here.
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


def pull_pinned(api: docker.APIClient, ref: str) -> ResolvedImage:
    """Give the image `repo@sha256:…`, pulled unless the engine has it, and checked to carry that digest.

    Raises Refused(IMAGE_MISMATCH) for a reference without digest or an engine that has another image under it,
    EnvironmentFault with the engine's words when it cannot be pulled.
    """
    match = _PINNED.fullmatch(ref)
    if match is None:
        raise Refused(Reason.IMAGE_MISMATCH, f"{ref!r} is not pinned by digest; expected name@sha256:<64 hex digits>")
    source: Literal["pulled", "present"] = "present"
    found = find_image(api, ref)
    if found is None:
        source = "pulled"
        with engine_call(f"pull {ref}"):
            # The tag argument of the pull call takes a digest as well.
            api.pull(match["repository"], tag=match["digest"])
        found = find_image(api, ref)
    digests = [] if found is None else found.get("RepoDigests") or []
    wanted = canonical(ref)
    if found is None or wanted not in [canonical(digest) for digest in digests]:
        raise Refused(Reason.IMAGE_MISMATCH, f"the engine's image for {ref} carries {digests or 'no digest'}")
    return ResolvedImage(found["Id"], ref, "digest", source, workdir_of(found))


def workdir_of(description: Mapping[str, Any]) -> str:
    """Give the working directory an image sets, empty when it sets none."""
    return str((description.get("Config") or {}).get("WorkingDir") or "")


def canonical(ref: str) -> str:
    """Spell a reference in full, so that short and long forms of one name compare equal.

    >>> canonical("ubuntu:24.04"), canonical("docker.io/library/ubuntu:24.04")
    ('docker.io/library/ubuntu:24.04', 'docker.io/library/ubuntu:24.04')
    >>> canonical("somebody/task@sha256:00"), canonical("localhost:5000/task")
    ('docker.io/somebody/task@sha256:00', 'localhost:5000/task')
    """
    first, slash, rest = ref.partition("/")
    if not slash:
        return f"docker.io/library/{ref}"
    if first == "index.docker.io":
        first = "docker.io"
    if "." not in first and ":" not in first and first != "localhost":
        return f"docker.io/{ref}"
    if first == "docker.io" and "/" not in rest:
        return f"docker.io/library/{rest}"
    return f"{first}/{rest}"
