"""Debian packages by apt-get, and other programs of the system that set-up runs; their output is shown on failure."""

from __future__ import annotations

import os
import shutil
import subprocess

from guest.errors import EnvironmentFault
from guest.reason import Reason

_INSTALL = ("apt-get", "-qq", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300")


def can_install() -> bool:
    """Say whether packages can be installed: root on a Debian or Ubuntu."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(*packages: str) -> None:
    """Install packages from the machine's own sources. Raises EnvironmentFault with apt's words."""
    # One dead source among several is no reason to stop: the installation itself decides.
    run("apt-get", "-qq", "update", may_fail=True)
    run(*_INSTALL, *packages)


def run(*command: str, may_fail: bool = False) -> None:
    """Run a program to its end without input. Raises EnvironmentFault with the end of its output when it fails."""
    done = subprocess.run(
        command,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode and not may_fail:
        raise EnvironmentFault(
            Reason.TOOL_FAILED,
            f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout.strip()[-2000:]}",
            "mend what it complains of, and run this again",
        )
