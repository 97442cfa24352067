"""lock.json: what the base image is made of, in a closed form, and what must come out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from guest.errors import Refused
from guest.reason import Reason

LOCK_PATH = Path(__file__).with_name("lock.json")
REPOSITORY = "evalguest-base"

Sha256 = Annotated[str, StringConstraints(pattern=r"\A[0-9a-f]{64}\z")]
PackageName = Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9+.-]+\z")]
_CLOSED = ConfigDict(frozen=True, strict=True, extra="forbid")


class LockedPackage(BaseModel):
    """One Debian package: `path` is where a mirror keeps it, below the mirror's root; `size` is in bytes."""

    model_config = _CLOSED

    name: PackageName
    version: Annotated[str, StringConstraints(pattern=r"\A[0-9][A-Za-z0-9.+:~-]*\z")]
    path: Annotated[str, StringConstraints(pattern=r"\Apool/main(/[a-z0-9][A-Za-z0-9.+~_-]*)+\.deb\z")]
    size: int = Field(gt=0, lt=2**32)
    sha256: Sha256


class LockedWheel(BaseModel):
    """One pure Python wheel from the package index."""

    model_config = _CLOSED

    name: Annotated[str, StringConstraints(pattern=r"\A[a-z0-9]+(-[a-z0-9]+)*\z")]
    version: Annotated[str, StringConstraints(pattern=r"\A[0-9][a-z0-9.]*\z")]
    sha256: Sha256


class Expected(BaseModel):
    """What a build of the lock gives: the SHA-256 of the root filesystem's tar, of the image configuration, and of the
    image manifest.
    """

    model_config = _CLOSED

    tar_sha256: Sha256
    config_sha256: Sha256
    manifest_sha256: Sha256


class BaseLock(BaseModel):
    """The whole lock. `epoch` (Unix seconds) dates everything inside the image: the suite's release file's date."""

    model_config = _CLOSED

    schema_version: int = Field(default=1, ge=1, le=1)
    suite: Annotated[str, StringConstraints(pattern=r"\A[a-z]+\z")]
    architecture: Literal["amd64"] = "amd64"
    epoch: int = Field(gt=0, lt=2**32)
    requested: tuple[PackageName, ...] = Field(strict=False)
    packages: tuple[LockedPackage, ...] = Field(strict=False, min_length=1)
    wheels: tuple[LockedWheel, ...] = Field(strict=False)
    expected: Expected

    @model_validator(mode="after")
    def _sorted_once(self) -> Self:
        for what, names in (
            ("requested", list(self.requested)),
            ("packages", [package.name for package in self.packages]),
            ("wheels", [wheel.name for wheel in self.wheels]),
        ):
            if names != sorted(set(names)):
                raise ValueError(f"{what} must be sorted by name, each name once")
        missing = sorted(set(self.requested) - {package.name for package in self.packages})
        if missing:
            raise ValueError(f"requested but not among packages: {', '.join(missing)}")
        return self

    @property
    def ref(self) -> str:
        """The image's name, which carries the digest of its configuration."""
        return f"{REPOSITORY}:sha256-{self.expected.config_sha256}"

    @property
    def snapshot(self) -> str:
        """The moment, in the snapshot service's form, at which that service had every package of the lock.

        A day after the release file's date: a mirror run of the same hour may still be the one before it.
        """
        return (datetime.fromtimestamp(self.epoch, UTC) + timedelta(days=1)).strftime("%Y%m%dT%H%M%SZ")


def parse_lock(text: bytes, *, where: str) -> BaseLock:
    """Read a lock. Raises Refused(LOCK_MALFORMED) that says which member is wrong."""
    try:
        return BaseLock.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise Refused(
            Reason.LOCK_MALFORMED,
            f"{where}: {place}: {first['msg']}",
            "restore the file, or write it anew with lock write",
        ) from None


def read_lock(path: Path = LOCK_PATH) -> BaseLock:
    """Read the lock of the checkout, or the one at `path`."""
    return parse_lock(path.read_bytes(), where=str(path))


def lock_bytes(lock: BaseLock) -> bytes:
    """Give the lock as it is kept: a package a line, so that a change reads well."""
    members = []
    for name, value in lock.model_dump(mode="json").items():
        if name in ("packages", "wheels"):
            rows = ",\n".join("    " + json.dumps(row) for row in value)
            members.append(f'  "{name}": [\n{rows}\n  ]' if value else f'  "{name}": []')
        else:
            members.append(f'  "{name}": {json.dumps(value)}')
    return ("{\n" + ",\n".join(members) + "\n}\n").encode()
