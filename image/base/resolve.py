"""Resolving the requested packages against a live mirror, with apt in a private directory (no root needed)."""

from __future__ import annotations

import email.utils
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from guest.errors import EnvironmentFault
from guest.reason import Reason
from image.base.lock import LockedPackage

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def resolve(requested: Sequence[str], *, suite: str, mirror: str) -> tuple[int, tuple[LockedPackage, ...]]:
    """Give the suite's date (Unix seconds) and the packages of its main component that `requested` needs.

    That is every essential package, apt, and the requested ones with their dependencies, without recommendations.
    Raises EnvironmentFault: TOOL_MISSING where apt or Debian's archive keys are absent, NETWORK_UNAVAILABLE with
    apt's words when the mirror or a package is not to be had.
    """
    if shutil.which("apt-get") is None or not _KEYRING.exists():
        raise EnvironmentFault(
            Reason.TOOL_MISSING,
            f"resolving packages needs apt-get and {_KEYRING}",
            "refresh the lock on Debian or Ubuntu with the package debian-archive-keyring installed",
        )
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        _private_apt(root, suite, mirror)
        _apt(root, "apt-get", "update")
        simulated = _apt(root, "apt-get", "install", "--simulate", "?essential", "apt", *requested)
        chosen = re.findall(r"^Inst (\S+) \((\S+) ", simulated, re.MULTILINE)
        shown = _apt(root, "apt-cache", "show", *(f"{name}={version}" for name, version in chosen))
        release = next((root / "lists").glob("*_InRelease")).read_text()
        packages = {package.name: package for package in map(_package, shown.strip().split("\n\n"))}
        if sorted(packages) != sorted(name for name, _ in chosen):
            raise EnvironmentFault(Reason.TOOL_FAILED, "apt-cache did not show every package that apt-get chose")
        return _date(release), tuple(packages[name] for name in sorted(packages))


def _private_apt(root: Path, suite: str, mirror: str) -> None:
    for name in ("lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d"):
        (root / name).mkdir(parents=True)
    (root / "status").touch()
    (root / "etc/sources.list").write_text(f"deb [arch=amd64 signed-by={_KEYRING}] {mirror} {suite} main\n")
    (root / "apt.conf").write_text(
        f'Dir "{root}";\nDir::State "{root}";\nDir::State::status "{root}/status";\nDir::State::Lists "lists";\n'
        f'Dir::Cache "cache";\nDir::Etc "{root}/etc";\nAPT::Architecture "amd64";\nAPT::Architectures {{"amd64";}};\n'
        'APT::Install-Recommends "false";\nAPT::Sandbox::User "root";\nAcquire::Languages "none";\n'
        'Acquire::GzipIndexes "false";\n'
    )


def _apt(root: Path, *command: str) -> str:
    env = {**os.environ, "APT_CONFIG": str(root / "apt.conf"), "LC_ALL": "C.UTF-8"}
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    # a failed download is only a warning to apt-get update
    if run.returncode or "\nW: Failed to fetch" in f"\n{run.stderr}":
        raise EnvironmentFault(
            Reason.NETWORK_UNAVAILABLE,
            f"`{' '.join(command[:2])}` could not resolve the lock: {run.stderr.strip()[-1500:]}",
        )
    return run.stdout


def _package(paragraph: str) -> LockedPackage:
    fields = dict(line.split(": ", 1) for line in paragraph.split("\n") if ": " in line and line[0] not in " \t")
    return LockedPackage(
        name=fields["Package"],
        version=fields["Version"],
        path=fields["Filename"],
        size=int(fields["Size"]),
        sha256=fields["SHA256"],
    )


def _date(release: str) -> int:
    date = re.search(r"^Date: (.+)$", release, re.MULTILINE)
    if date is None:
        raise EnvironmentFault(Reason.TOOL_FAILED, "the suite's release file has no date")
    return int(email.utils.parsedate_to_datetime(date[1]).timestamp())
