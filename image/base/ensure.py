"""Getting the base image into an engine: present already, loaded from the cached archive, or built."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import docker
from docker.errors import APIError, ImageNotFound

from guest.errors import EnvironmentFault
from guest.reason import Reason
from guest.trial.engine import engine_call
from image.base.build import Bootstrap, bootstrap_on_host, build_tar, host_can_bootstrap, run_tool
from image.base.content import CMD, ENV
from image.base.fetch import DEFAULT_MIRROR, fetch_debs, fetch_wheels, sources
from image.base.in_container import BUILDER_IMAGE, bootstrap_in_container
from image.base.lock import BaseLock, Expected, read_lock
from image.layout import ImageDigests, Layer, image_config, image_digests, write_layout

_ROOM_BYTES = 2_000_000_000
"""Packages, unpacked tree, raw tar, canonical tar and archive at once."""

_CREATED_BY = "evalguest image/base/lock.json"
_WORK_PREFIX = "base-work-"


@dataclass(frozen=True)
class BaseImage:
    """The base image in an engine: the name task Dockerfiles use, the engine's id for it, and what that id digests.

    `id_is` is "config" for an engine with its own image store and "manifest" for one on the containerd store.
    """

    ref: str
    image_id: str
    id_is: Literal["config", "manifest"]


@dataclass(frozen=True)
class Built:
    """A finished build: the archive for the engine, and the digests to compare with the lock's."""

    archive: Path
    expected: Expected
    digests: ImageDigests


def ensure_base(
    engine: docker.APIClient,
    cache_dir: Path,
    say: Callable[[str], None],
    *,
    lock: BaseLock | None = None,
    mirror: str = DEFAULT_MIRROR,
    builder: str = BUILDER_IMAGE,
) -> BaseImage:
    """Give the base image of the lock (default: the checkout's), bringing it into the engine if it is not there.

    Archives and packages are kept in `cache_dir`; processes that ask at the same time wait for one another. `say` gets
    a sentence for each thing that is done, and nothing when nothing is. `builder` is the image to build in on a
    machine that is not a Debian or Ubuntu with root. Raises EnvironmentFault: what could not be fetched, built,
    stored or loaded, LOCK_MISMATCH when the build gives other bytes than the lock expects.
    """
    lock = lock or read_lock()
    if present := find_base(engine, lock):
        return present
    cache_dir.mkdir(parents=True, exist_ok=True)
    with alone(cache_dir, say):
        if present := find_base(engine, lock):
            return present
        archive = archive_path(lock, cache_dir)
        if archive.exists():
            say(f"loading the base image from {archive}")
            loaded = _load(engine, lock, archive)
            if isinstance(loaded, BaseImage):
                return loaded
            say(f"building the base image again, since the engine did not take the cached archive: {loaded}")
            archive.unlink()
        with built(lock, cache_dir, say, mirror=mirror, bootstrap=choose_bootstrap(engine, builder)) as result:
            check_expected(lock, result.expected)
            result.archive.replace(archive)
        say(f"loading the base image into the engine as {lock.ref}")
        loaded = _load(engine, lock, archive)
        if isinstance(loaded, BaseImage):
            return loaded
    raise EnvironmentFault(Reason.ENGINE_FAULT, f"the engine could not load {archive}: {loaded}")


def find_base(engine: docker.APIClient, lock: BaseLock) -> BaseImage | None:
    """Give the base image if the engine has the very one that the lock expects under its name."""
    with engine_call(f"inspect {lock.ref}"):
        try:
            image_id = str(engine.inspect_image(lock.ref)["Id"])
        except ImageNotFound:
            return None
    config = f"sha256:{lock.expected.config_sha256}"
    if image_id == config:
        return BaseImage(lock.ref, image_id, "config")
    if image_id == f"sha256:{lock.expected.manifest_sha256}":
        return BaseImage(lock.ref, image_id, "manifest")
    return None


def archive_path(lock: BaseLock, cache_dir: Path) -> Path:
    """Give where the finished archive of a lock is kept."""
    return cache_dir / f"base-{lock.expected.config_sha256}.tar"


def choose_bootstrap(engine: docker.APIClient | None, builder: str = BUILDER_IMAGE) -> Bootstrap:
    """Give the way to run mmdebstrap here: on this machine where that works, else in a container of the engine."""
    if host_can_bootstrap():
        return bootstrap_on_host
    if engine is None:
        raise EnvironmentFault(
            Reason.TOOL_MISSING,
            "building the base image needs root on an x86-64 Debian or Ubuntu, or a container engine",
            "start Docker and run this again",
        )
    return partial(bootstrap_in_container, engine=engine, builder=builder)


@contextmanager
def built(
    lock: BaseLock, cache_dir: Path, say: Callable[[str], None], *, mirror: str, bootstrap: Bootstrap
) -> Iterator[Built]:
    """Build the lock's image in a temporary directory below `cache_dir`, which goes with the context.

    The archive inside may be moved away. Nothing is compared with the lock's expectation here.
    """
    _check_room(cache_dir)
    debs = fetch_debs(lock, cache_dir, sources(lock, mirror), say)
    wheels = fetch_wheels(lock, cache_dir, say)
    work = Path(tempfile.mkdtemp(prefix=_WORK_PREFIX, dir=cache_dir))
    work.chmod(0o755)
    try:
        tar, tar_sha256 = build_tar(lock, debs, wheels, work, say, bootstrap=bootstrap)
        layer = Layer(tar, sha256=tar_sha256, size=tar.stat().st_size, diff_sha256=tar_sha256)
        config = image_config([tar_sha256], epoch=lock.epoch, created_by=_CREATED_BY, env=ENV, cmd=CMD)
        digests = image_digests(config, [layer])
        expected = Expected(
            tar_sha256=tar_sha256,
            config_sha256=digests.config.removeprefix("sha256:"),
            manifest_sha256=digests.manifest.removeprefix("sha256:"),
        )
        archive = work / "archive.tar"
        name = lock.model_copy(update={"expected": expected}).ref
        with archive.open("wb") as out:
            write_layout(out, config=config, layers=[layer], name=name, epoch=lock.epoch)
            out.flush()
            os.fsync(out.fileno())
        yield Built(archive, expected, digests)
    finally:
        remove_work(work)


@contextmanager
def alone(cache_dir: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the cache's lock file; work directories found then belong to nobody and are removed."""
    with (cache_dir / "base.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that prepares the base image")
            fcntl.flock(handle, fcntl.LOCK_EX)
        for left in sorted(cache_dir.glob(f"{_WORK_PREFIX}*")):
            say(f"removing {left}, left by a build that was stopped")
            remove_work(left)
        yield


def check_expected(lock: BaseLock, got: Expected) -> None:
    """Raise EnvironmentFault(LOCK_MISMATCH) when a build gave other bytes than the lock expects."""
    if got != lock.expected:
        raise EnvironmentFault(
            Reason.LOCK_MISMATCH,
            f"the base image came out differently: root filesystem SHA-256 {got.tar_sha256}, expected "
            f"{lock.expected.tar_sha256}; configuration {got.config_sha256}, expected {lock.expected.config_sha256}",
            "if image/base was changed on purpose, `evalguest lock write` writes what comes out now; "
            "if not, report the versions of mmdebstrap and apt on this machine",
        )


def remove_work(work: Path) -> None:
    """Remove a build directory; what a failed build left mounted in it is unmounted first."""
    mounts = Path("/proc/self/mountinfo")
    if mounts.exists():
        inside = f"{work.resolve()}/"
        points = [_unescape(line.split(" ")[4]) for line in mounts.read_text().splitlines()]
        for point in reversed([point for point in points if point.startswith(inside)]):
            run_tool(["umount", point], os.environ)
    shutil.rmtree(work)


def _unescape(mount_point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), mount_point)


def _check_room(cache_dir: Path) -> None:
    free = shutil.disk_usage(cache_dir).free
    if free < _ROOM_BYTES:
        raise EnvironmentFault(
            Reason.NO_SPACE,
            f"building the base image needs {_ROOM_BYTES / 1e9:.1f} GB in {cache_dir}, {free / 1e9:.1f} GB are free",
            "free some space, or choose another cache directory",
        )


def _load(engine: docker.APIClient, lock: BaseLock, archive: Path) -> BaseImage | str:
    """Load the archive, or give the engine's words when it finds it damaged or holding another image."""
    with engine_call(f"load {archive}"), archive.open("rb") as stream:
        try:
            for item in engine.load_image(stream):
                if "error" in item:
                    return str(item["error"])
        except APIError as error:
            return str(error.explanation or error)
    return find_base(engine, lock) or f"it holds no {lock.ref} of the digest that the lock names"
