"""Building the base image's root filesystem from the locked packages, offline, with mmdebstrap."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from guest.errors import EnvironmentFault
from guest.reason import Reason
from image.base.canonical import write_canonical
from image.base.content import DPKG_OPTIONS, own_files, wheel_files
from image.base.deb import packages_index
from image.base.lock import BaseLock

_GRACE_SEC = 20
_INSTALL = ("apt-get", "-qq", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300")

Bootstrap = Callable[[BaseLock, Path, Path, Callable[[str], None]], None]
"""Makes the raw tar (third argument: the file to write) of a lock from a flat repository directory (second)."""


def build_tar(
    lock: BaseLock,
    debs: Mapping[str, Path],
    wheels: Mapping[str, Path],
    work: Path,
    say: Callable[[str], None],
    *,
    bootstrap: Bootstrap,
) -> tuple[Path, str]:
    """Build the root filesystem in the directory `work` and give its tar and the tar's SHA-256 (hex).

    The result depends on the lock alone, not on the place, umask, locale, time zone, clock or user. It is not compared
    with what the lock expects. Raises EnvironmentFault when a tool is missing or fails, Refused for altered input.
    """
    repository = work / "repository"
    write_repository(lock, debs, repository)
    raw, tar = work / "raw.tar", work / "base.tar"
    bootstrap(lock, repository, raw, say)
    say("writing the root filesystem in its canonical form")
    own = own_files(lock)
    for wheel in wheels.values():
        own.update(wheel_files(wheel))
    digest = write_canonical(raw, tar, own=own, epoch=lock.epoch)
    raw.unlink()
    return tar, digest


def write_repository(lock: BaseLock, debs: Mapping[str, Path], repository: Path) -> None:
    """Make a flat repository: the packages under their hashes, and an index that holds what the lock says."""
    repository.mkdir(mode=0o755)
    for sha256, deb in debs.items():
        target = repository / f"{sha256}.deb"
        try:
            os.link(deb.resolve(), target)
        except OSError:  # another filesystem, or one without hard links
            shutil.copyfile(deb, target)
    (repository / "Packages").write_bytes(packages_index(lock, debs))


def mmdebstrap_command(lock: BaseLock, repository: str, out: str) -> list[str]:
    """Give the command that makes the raw tar `out` from the flat repository at `repository`."""
    command = ["mmdebstrap", "--mode=root", "--variant=apt", "--format=tar"]
    command += [f"--architectures={lock.architecture}", f"--include={','.join(lock.requested)}"]
    command += [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    # the packages may lie where apt's own user cannot read
    command += ['--aptopt=APT::Sandbox::User "root"']
    # copy, not file: the packages are brought in without a mount that a failure could leave behind
    return [*command, "", out, f"deb [trusted=yes] copy://{quote(repository)} ./"]


def build_environment(lock: BaseLock, temporary: str) -> dict[str, str]:
    """Give the whole environment of the build: nothing of the user's, all that a result could depend on fixed."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(lock.epoch),
        "PYTHONHASHSEED": "0",
        "TMPDIR": temporary,
    }


def host_can_bootstrap() -> bool:
    """Say whether mmdebstrap runs, or can be installed, right here: root on an x86-64 Debian or Ubuntu."""
    return platform.machine() == "x86_64" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def bootstrap_on_host(lock: BaseLock, repository: Path, raw: Path, say: Callable[[str], None]) -> None:
    """Run mmdebstrap on this machine, installing it first where it is missing."""
    if shutil.which("mmdebstrap") is None:
        say("installing mmdebstrap with apt-get")
        noninteractive = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        try:
            run_tool(["apt-get", "-qq", "update"], noninteractive)
        except EnvironmentFault as fault:  # one dead source among several: the installation decides
            say(fault.message)
        run_tool([*_INSTALL, "mmdebstrap"], noninteractive)
    say(f"building the root filesystem from {len(lock.packages)} packages (about half a minute)")
    temporary = raw.parent / "mmdebstrap"
    temporary.mkdir(mode=0o755)
    run_tool(mmdebstrap_command(lock, str(repository), str(raw)), build_environment(lock, str(temporary)))


def run_tool(command: list[str], env: Mapping[str, str]) -> None:
    """Run a program to its end; when this is interrupted, end it and what it started.

    Raises EnvironmentFault(TOOL_FAILED) with the end of what it said when it fails.
    """
    with subprocess.Popen(
        command,
        env=env,
        umask=0o022,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as run:
        try:
            said, _ = run.communicate()
        except BaseException:
            # TERM first: mmdebstrap then unmounts and removes what it made
            os.killpg(run.pid, signal.SIGTERM)
            try:
                run.communicate(timeout=_GRACE_SEC)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
            raise
    if run.returncode:
        words = said.decode(errors="replace").strip()[-2000:]
        raise EnvironmentFault(Reason.TOOL_FAILED, f"{command[0]} ended with status {run.returncode}:\n{words}")
