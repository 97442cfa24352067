"""Names of images as the engine reads them, in one full spelling.

Grammar: https://github.com/distribution/reference (the part every engine and registry accepts).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from guest.errors import Refused
from guest.reason import Reason

DEFAULT_REGISTRY = "docker.io"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]{{1,5}})?", re.ASCII)
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_MAX_NAME = 255


@dataclass(frozen=True)
class ImageReference:
    """A repository in a registry, and what is meant in it: a digest, else a tag, else (both None) the tag `latest`."""

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """Registry and repository: `docker.io/library/ubuntu`."""
        return f"{self.registry}/{self.repository}"

    @property
    def selector(self) -> str:
        """What a pull asks the repository for: a digest or a tag."""
        return self.digest or self.tag or "latest"

    def __str__(self) -> str:
        """Spell it in full. A tag beside a digest means nothing to a pull, and is left out."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.selector}"


def parse_reference(text: str) -> ImageReference:
    """Read `[registry/]repository[:tag][@sha256:<64 hex>]`, so that long and short forms of one name become equal.

    Raises Refused(IMAGE_MALFORMED) for anything else.

    >>> str(parse_reference("ubuntu:24.04")), str(parse_reference("docker.io/library/ubuntu:24.04"))
    ('docker.io/library/ubuntu:24.04', 'docker.io/library/ubuntu:24.04')
    >>> str(parse_reference("somebody/task")), str(parse_reference("localhost:5000/task:1"))
    ('docker.io/somebody/task:latest', 'localhost:5000/task:1')
    """
    rest, at, digest = text.partition("@")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # no tag; a colon before the last slash belongs to the registry's port
        name, tag = rest, ""
    first, slash, remainder = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        registry, repository = first, remainder
    else:
        registry, repository = DEFAULT_REGISTRY, name
    if registry == "index.docker.io":
        registry = DEFAULT_REGISTRY
    if registry == DEFAULT_REGISTRY and "/" not in repository:
        repository = f"library/{repository}"
    if (
        (at and _DIGEST.fullmatch(digest) is None)
        or (len(rest) > len(name) and _TAG.fullmatch(tag) is None)
        or _REGISTRY.fullmatch(registry) is None
        or _REPOSITORY.fullmatch(repository) is None
        or len(registry) + 1 + len(repository) > _MAX_NAME
    ):
        expected = "[registry/]repository[:tag][@sha256:<64 hex digits>]"
        raise Refused(Reason.IMAGE_MALFORMED, f"{text[:200]!r} names no image; expected {expected}")
    return ImageReference(registry, repository, tag or None, digest or None)
