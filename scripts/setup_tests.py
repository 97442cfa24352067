"""The programs that the tests run beside the engine, from Debian packages of the same names."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from scripts import apt
from scripts.failures import run_reporting
from scripts.setup_machine import say

PROGRAMS = {
    "git": "importing a task pack from a repository",
    "mmdebstrap": "building the base image",
    "skopeo": "reading the image archives that we write",
    "docker-registry": "publishing, pinning and pulling by digest",
}


def ensure_programs() -> None:
    """Install what is missing where that is possible; elsewhere say which tests it will fail."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not missing:
        return
    if not apt.can_install():
        for program in missing:
            say(f"{program} is not installed: tests of {PROGRAMS[program]} will fail or be skipped")
        return
    say(f"installing {', '.join(missing)} with apt-get, for the tests")
    apt.install(*missing)
    if "docker-registry" in missing and Path("/run/systemd/system").is_dir():
        # its package also starts it as a service for everybody; the tests run their own
        apt.run("systemctl", "disable", "--now", "docker-registry")


def _main() -> int:
    ensure_programs()
    return 0


if __name__ == "__main__":
    sys.exit(run_reporting(_main))
