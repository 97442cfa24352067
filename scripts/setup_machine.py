"""Stage two of set-up: an engine that answers, and the base image in it. What is there already is left alone."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from guest.errors import EnvironmentFault, UsageFault
from guest.reason import Reason
from scripts import apt
from scripts.cache_dir import cache_dir
from scripts.dockerd import Daemon, is_installed, start
from scripts.engine_socket import DEFAULT, Address, answers, find_address
from scripts.failures import run_reporting

_PACKAGES = ("docker.io", "apparmor", "ca-certificates")
"""The engine, and of what it only recommends: the parser of its confinement profile, the roots it pulls with."""


@dataclass(frozen=True)
class Facts:
    """What decides how an engine can be had here."""

    address: Address
    answers: bool
    allowed: bool
    """Whether we may open the socket, if there is one."""
    root: bool
    has_dockerd: bool
    has_systemd: bool
    """Whether systemd runs this machine's services."""
    has_apt: bool
    is_linux: bool = True


class Step(Enum):
    """The next thing to do on the way to an engine."""

    USE = "use the engine that answers"
    START_SERVICE = "starting the engine's service with systemctl"
    START_DAEMON = "starting dockerd"
    INSTALL = "installing docker.io with apt-get"


def plan_engine(facts: Facts) -> Step:
    """Give the next step. Raises UsageFault for an address we refuse, EnvironmentFault with what a person has to do."""
    address, named_by = facts.address.url, facts.address.named_by
    if facts.address.path is None:
        raise UsageFault(
            Reason.USAGE,
            f"{named_by} says that the engine is at {address!r}; only a Unix socket (unix:///path) is accepted",
            "unset DOCKER_HOST" if named_by == "DOCKER_HOST" else "choose another one: docker context use default",
        )
    if facts.answers:
        return Step.USE
    if not facts.allowed:
        hint = "join its group (sudo usermod -aG docker $USER, then log in again), or run this as root"
        raise _no_engine(f"the engine's socket {facts.address.path} may not be opened by this user", hint)
    if named_by and facts.address.path != DEFAULT:
        raise _no_engine(f"no engine answers on {address}, which {named_by} names", "start that engine, or unset it")
    if not facts.is_linux:
        raise _no_engine(f"no engine answers on {address}", "start Docker Desktop or Colima, and run this again")
    if facts.has_dockerd:
        if not facts.root:
            hint = "start it (sudo systemctl start docker), or run this as root"
            raise _no_engine("Docker is installed and does not run", hint)
        return Step.START_SERVICE if facts.has_systemd else Step.START_DAEMON
    if facts.root and facts.has_apt:
        return Step.INSTALL
    raise _no_engine(
        "no container engine is installed",
        "install one (on Debian or Ubuntu: sudo apt-get install docker.io, or run this as root), and run this again",
    )


def gather() -> Facts:
    """Look at this machine."""
    address = find_address()
    path = address.path
    return Facts(
        address=address,
        answers=path is not None and answers(path),
        allowed=path is None or not path.exists() or os.access(path, os.R_OK | os.W_OK),
        root=os.geteuid() == 0,
        has_dockerd=is_installed(),
        has_systemd=Path("/run/systemd/system").is_dir(),
        has_apt=shutil.which("apt-get") is not None,
        is_linux=platform.system() == "Linux",
    )


def ensure_engine() -> None:
    """Bring this machine to an engine that answers; two that try at the same time wait for one another."""
    if plan_engine(gather()) is Step.USE:
        return
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "engine.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        done: set[Step] = set()
        while (step := plan_engine(gather())) is not Step.USE:
            if step in done:
                raise _no_engine(f"no engine answers after {step.value}", "start one yourself, and run this again")
            done.add(step)
            say(step.value)
            _take(step)


def ensure_ps() -> None:
    """Bring in `ps`, which an engine lists a container's processes with and small images of Debian lack."""
    if shutil.which("ps") is not None:
        return
    if not apt.can_install():
        raise EnvironmentFault(
            Reason.TOOL_MISSING,
            "ps is not installed, and an engine lists a container's processes with it",
            "install it (on Debian or Ubuntu: sudo apt-get install procps), and run this again",
        )
    say("installing procps with apt-get")
    apt.install("procps")


def ensure_base_image() -> None:
    """Bring the base image into the engine, unless it is there."""
    from guest.trial.engine import connect
    from image.base.ensure import ensure_base

    ensure_base(connect(find_address().url).api, cache_dir(), say)


def say(words: str) -> None:
    """Tell on stderr what set-up does."""
    sys.stderr.write(f"set-up: {words}\n")
    sys.stderr.flush()


def _take(step: Step) -> None:
    if step is Step.INSTALL:
        apt.install(*_PACKAGES)
    elif step is Step.START_SERVICE:
        apt.run("systemctl", "start", "docker")  # returns when it is ready
    else:
        log = cache_dir() / "dockerd.log"
        say(f"its output goes to {log}")
        start(Daemon(), log)


def _no_engine(message: str, hint: str) -> EnvironmentFault:
    return EnvironmentFault(Reason.ENGINE_UNAVAILABLE, message, hint)


def _main() -> int:
    ensure_engine()
    ensure_ps()
    ensure_base_image()
    return 0


if __name__ == "__main__":
    sys.exit(run_reporting(_main))
