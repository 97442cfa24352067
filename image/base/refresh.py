"""Writing a new lock, and the places that carry the base image's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from image.base.build import Bootstrap
from image.base.ensure import alone, archive_path, built
from image.base.lock import REPOSITORY, BaseLock
from image.base.resolve import resolve

_FROM_LINE = re.compile(rb"^(FROM[ \t]+)" + REPOSITORY.encode() + rb":\S+", re.IGNORECASE | re.MULTILINE)


def resolved_anew(lock: BaseLock, mirror: str) -> BaseLock:
    """Give the lock with the versions that the mirror serves today; its expectation is still the old one."""
    epoch, packages = resolve(lock.requested, suite=lock.suite, mirror=mirror)
    return lock.model_copy(update={"epoch": epoch, "packages": packages})


def rebuilt(lock: BaseLock, cache_dir: Path, mirror: str, say: Callable[[str], None], bootstrap: Bootstrap) -> BaseLock:
    """Build the lock's packages and give the lock with what came out as its expectation; keeps the archive."""
    cache_dir.mkdir(parents=True, exist_ok=True)
    with alone(cache_dir, say), built(lock, cache_dir, say, mirror=mirror, bootstrap=bootstrap) as result:
        new = lock.model_copy(update={"expected": result.expected})
        result.archive.replace(archive_path(new, cache_dir))
    return new


def rewrite_from_lines(dockerfiles: Iterable[Path], ref: str) -> list[Path]:
    """Make every `FROM evalguest-base:…` line of the files name `ref`, and give the files that changed."""
    changed = []
    for path in dockerfiles:
        old = path.read_bytes()
        new = _FROM_LINE.sub(rb"\1" + ref.encode(), old)
        if new != old:
            path.write_bytes(new)
            changed.append(path)
    return changed
