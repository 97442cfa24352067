"""`evalguest lock`: write the locks and check that they still hold. Today that is the base image's."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guest.errors import EnvironmentFault, UsageFault
from guest.reason import Reason

if TYPE_CHECKING:
    from image.base.build import Bootstrap

CHECKOUT = Path(__file__).resolve().parent.parent

Mirror = Annotated[
    str | None, typer.Option("--mirror", help="A Debian mirror, or a snapshot of one, instead of deb.debian.org.")
]

lock_app = typer.Typer(no_args_is_help=True, help="Write the locks, and check that they still hold.")


@lock_app.command()
def write(
    *,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Take the versions that the mirror serves today, not the locked ones.")
    ] = False,
    mirror: Mirror = None,
) -> None:
    """Build the base image, write what came out into its lock, and carry its new name into Dockerfiles and manifest.

    Example: evalguest lock write --refresh
    """
    from image.base.fetch import DEFAULT_MIRROR
    from image.base.lock import LOCK_PATH, lock_bytes, read_lock
    from image.base.refresh import rebuilt, resolved_anew, rewrite_from_lines
    from scripts.cache_dir import cache_dir

    mirror = _mirror(DEFAULT_MIRROR if mirror is None else mirror)
    old = read_lock()
    if refresh:
        _say(f"resolving {len(old.requested)} packages of {old.suite} at {mirror}")
    new = rebuilt(resolved_anew(old, mirror) if refresh else old, cache_dir(), mirror, _say, _bootstrap())
    if new != old:
        _replace(LOCK_PATH, lock_bytes(new))
        _say(f"wrote {LOCK_PATH}: {_changes(old.packages, new.packages)}")
    else:
        _say(f"{LOCK_PATH} stays as it is")
    dockerfiles = sorted(
        [*CHECKOUT.glob("task-cache/tasks/*/environment/Dockerfile"), *CHECKOUT.glob("tests/**/environment/Dockerfile")]
    )
    rewritten = rewrite_from_lines(dockerfiles, new.ref)
    for path in rewritten:
        _say(f"{path} now starts from {new.ref}")
    if any(path.is_relative_to(CHECKOUT / "task-cache") for path in rewritten):
        from scripts.tasks import digest

        digest(write=True)


@lock_app.command()
def check(
    *,
    mirror: Mirror = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Also build the base image anew and compare it with the lock.")
    ] = False,
) -> None:
    """Check that the lock is well-formed and that the mirror still serves every package in it.

    Example: evalguest lock check --rebuild
    """
    from image.base.ensure import built, check_expected
    from image.base.fetch import DEFAULT_MIRROR, moved_hint, sources, unserved
    from image.base.lock import read_lock

    mirror = _mirror(DEFAULT_MIRROR if mirror is None else mirror)
    lock = read_lock()
    if gone := unserved(lock, mirror):
        names = ", ".join(f"{package.name} {package.version}" for package in gone)
        raise EnvironmentFault(
            Reason.MIRROR_MOVED,
            f"{mirror} no longer serves {len(gone)} of {len(lock.packages)} locked packages: {names}",
            moved_hint(sources(lock)[-1]),
        )
    sys.stdout.write(f"base lock: {mirror} serves all {len(lock.packages)} packages\n")
    if rebuild:
        with (
            tempfile.TemporaryDirectory() as elsewhere,
            built(lock, Path(elsewhere), _say, mirror=mirror, bootstrap=_bootstrap()) as result,
        ):
            check_expected(lock, result.expected)
        sys.stdout.write(f"base lock: a new build gives the same image, {lock.ref}\n")


def _mirror(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise UsageFault(Reason.USAGE, f"--mirror is {url!r}; expected http://… or https://…")
    return url.rstrip("/")


def _bootstrap() -> Bootstrap:
    from guest.trial.engine import connect
    from image.base.build import host_can_bootstrap
    from image.base.ensure import choose_bootstrap

    return choose_bootstrap(None if host_can_bootstrap() else connect().api)


def _changes(old: tuple[object, ...], new: tuple[object, ...]) -> str:
    same = len(set(old) & set(new))
    return f"{len(new)} packages, {same} of them as before"


def _replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    temporary = Path(out.name)
    temporary.chmod(0o644)
    temporary.replace(path)


def _say(words: str) -> None:
    sys.stderr.write(f"base image: {words}\n")
