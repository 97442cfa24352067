"""Getting what the lock names, each by SHA-256: package cache, then the mirror's pool, then the snapshot service."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import requests

from guest.errors import EnvironmentFault
from guest.reason import Reason
from image.base.lock import BaseLock, LockedPackage, LockedWheel

DEFAULT_MIRROR = "http://deb.debian.org/debian"
SNAPSHOT_SERVICE = "https://snapshot.debian.org/archive/debian"

_PARALLEL = 8
_ATTEMPTS = 3
_TIMEOUT_SEC = (10, 60)
_CHUNK = 1 << 18
_GONE = (404, 410)


class _PerThread(threading.local):
    """Keeps connections open between packages: a look-up of the mirror's name for each would dominate."""

    def __init__(self) -> None:
        self.session = requests.Session()


_http = _PerThread()


def sources(lock: BaseLock, mirror: str = DEFAULT_MIRROR) -> tuple[str, str]:
    """Give the roots to fetch packages from, in order: the mirror, and the snapshot service at the lock's moment."""
    return mirror.rstrip("/"), f"{SNAPSHOT_SERVICE}/{lock.snapshot}"


def moved_hint(snapshot: str) -> str:
    """Say what to do when a mirror has moved on; `snapshot` is a root that has the packages as they were."""
    return (
        "`evalguest lock write --refresh` writes a new lock; "
        f"`evalguest lock write --mirror {snapshot}` builds the locked image from packages as they were"
    )


def package_url(root: str, package: LockedPackage) -> str:
    """Give where `root` keeps the package."""
    return f"{root}/{quote(package.path, safe='/~')}"


def file_sha256(path: Path) -> str:
    """Give the SHA-256 (hex) of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch_debs(lock: BaseLock, cache_dir: Path, roots: Sequence[str], say: Callable[[str], None]) -> dict[str, Path]:
    """Bring every package of the lock into `cache_dir/debs` and give SHA-256 -> file.

    Raises EnvironmentFault: MIRROR_MOVED when a package is at none of the roots, LOCK_MISMATCH when only an altered
    one is, NETWORK_UNAVAILABLE when no root could be asked.
    """
    store = cache_dir / "debs"
    store.mkdir(parents=True, exist_ok=True)
    missing = [package for package in lock.packages if not _is_cached(store / package.sha256, package.sha256, say)]
    if missing:
        size = sum(package.size for package in missing) / 1e6
        say(f"fetching {len(missing)} of {len(lock.packages)} Debian packages ({size:.0f} MB) from {roots[0]}")
        pool = ThreadPoolExecutor(_PARALLEL)
        try:
            for job in [pool.submit(_fetch, package, store, roots) for package in missing]:
                job.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return {package.sha256: store / package.sha256 for package in lock.packages}


def fetch_wheels(lock: BaseLock, cache_dir: Path, say: Callable[[str], None]) -> dict[str, Path]:
    """Bring every wheel of the lock into `cache_dir/wheels` by pip, which knows the user's index; SHA-256 -> file.

    Raises EnvironmentFault with pip's own words.
    """
    store = cache_dir / "wheels"
    store.mkdir(parents=True, exist_ok=True)
    for wheel in lock.wheels:
        if not _is_cached(store / wheel.sha256, wheel.sha256, say):
            say(f"fetching {wheel.name} {wheel.version} from the Python package index")
            _pip_download(wheel, store)
    return {wheel.sha256: store / wheel.sha256 for wheel in lock.wheels}


def unserved(lock: BaseLock, root: str) -> list[LockedPackage]:
    """Give the packages of the lock that `root` no longer has. Raises EnvironmentFault when it cannot be asked."""

    def is_gone(package: LockedPackage) -> bool:
        url = package_url(root, package)
        try:
            answer = _http.session.head(url, timeout=_TIMEOUT_SEC, allow_redirects=True)
            if answer.status_code in _GONE:
                return True
            answer.raise_for_status()
        except requests.RequestException as error:
            raise EnvironmentFault(Reason.NETWORK_UNAVAILABLE, f"{url} could not be asked for ({error})") from error
        return False

    with ThreadPoolExecutor(_PARALLEL) as pool:
        return [package for package, gone in zip(lock.packages, pool.map(is_gone, lock.packages), strict=True) if gone]


def _is_cached(path: Path, sha256: str, say: Callable[[str], None]) -> bool:
    if not path.exists():
        return False
    if file_sha256(path) == sha256:
        return True
    say(f"{path} no longer has the content it is named for: fetching it again")
    path.unlink()
    return False


def _fetch(package: LockedPackage, store: Path, roots: Sequence[str]) -> None:
    tried: list[tuple[Reason, str]] = []
    for root in roots:
        url = package_url(root, package)
        refusal = _download(url, package, store)
        if refusal is None:
            return
        tried.append(refusal)
    reasons = {reason for reason, _ in tried}
    words = f"package {package.name} {package.version}: " + "; ".join(words for _, words in tried)
    if Reason.LOCK_MISMATCH in reasons:
        hint = "it was altered at the mirror or on the way: `evalguest lock write --mirror URL` builds from another"
        raise EnvironmentFault(Reason.LOCK_MISMATCH, words, hint)
    if Reason.MIRROR_MOVED in reasons:
        raise EnvironmentFault(Reason.MIRROR_MOVED, words, moved_hint(roots[-1]))
    raise EnvironmentFault(
        Reason.NETWORK_UNAVAILABLE,
        words,
        "check the network, or build from another mirror: `evalguest lock write --mirror URL`",
    )


def _download(url: str, package: LockedPackage, store: Path) -> tuple[Reason, str] | None:
    """Fetch one file into the store, or say why not."""
    words = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(0.5 * attempt)
        try:
            with _http.session.get(url, stream=True, timeout=_TIMEOUT_SEC) as answer:
                if answer.status_code in _GONE:
                    return Reason.MIRROR_MOVED, f"{url} is gone (HTTP {answer.status_code})"
                answer.raise_for_status()
                return _store(answer, url, package, store)
        except requests.RequestException as error:
            words = f"{url} could not be fetched ({error})"
    return Reason.NETWORK_UNAVAILABLE, words


def _store(answer: requests.Response, url: str, package: LockedPackage, store: Path) -> tuple[Reason, str] | None:
    digest, size = hashlib.sha256(), 0
    with tempfile.NamedTemporaryFile(dir=store, prefix="partial-", delete=False) as out:
        partial = Path(out.name)
        try:
            for chunk in answer.iter_content(_CHUNK):
                size += len(chunk)
                if size > package.size:
                    break
                digest.update(chunk)
                out.write(chunk)
            if (size, digest.hexdigest()) != (package.size, package.sha256):
                more = "more than " if size > package.size else ""
                got = f"{more}{min(size, package.size)} bytes, SHA-256 {digest.hexdigest()}"
                expected = f"{package.size} bytes, SHA-256 {package.sha256}"
                return Reason.LOCK_MISMATCH, f"{url} is not what the lock names: got {got}, expected {expected}"
            out.flush()
            partial.chmod(0o644)
            partial.replace(store / package.sha256)
        finally:
            partial.unlink(missing_ok=True)
    return None


def _pip_download(wheel: LockedWheel, store: Path) -> None:
    with tempfile.TemporaryDirectory(dir=store, prefix="partial-") as directory:
        requirement = Path(directory, "requirements.txt")
        requirement.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
        run = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
                *("--only-binary=:all:", "--dest", directory, "--requirement", str(requirement)),
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )
        found = [path for path in Path(directory).glob("*.whl") if file_sha256(path) == wheel.sha256]
        if run.returncode or not found:
            words = " ".join(run.stderr.split())[-600:] or "no such wheel was downloaded"
            raise EnvironmentFault(
                Reason.NETWORK_UNAVAILABLE,
                f"could not get {wheel.name} {wheel.version} by pip: {words}",
                "check the network and pip's configuration (pip config list)",
            )
        found[0].chmod(0o644)
        found[0].replace(store / wheel.sha256)
