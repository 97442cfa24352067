"""Fetches one revision of a git repository into an empty directory, running nothing that the repository brings."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from guest.errors import EnvironmentFault, UsageFault
from guest.reason import Reason

TIMEOUT_SEC = 3600

_URL = re.compile(r"(?:https?|ssh|git|file)://\S+|[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:\S+")
_RAW_BYTES = "* -text -filter -ident -working-tree-encoding\n"
"""Attributes above those of the repository: files come out as they were committed, through no filter of the user's."""

_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")

# Nothing but bytes may come from the repository: no hook, no submodule, no helper protocol.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.symlinks=true",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "advice.detachedHead=false",
    "init.defaultBranch=main",
    "gc.auto=0",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
)


@dataclass(frozen=True)
class GitSource:
    """A repository (URL, or a directory of this machine as an absolute path) and a revision; None is its HEAD."""

    repository: str
    revision: str | None

    @property
    def is_local(self) -> bool:
        """Whether reading it opens no socket."""
        return self.repository.startswith(("/", "file://"))


def parse_git_source(text: str) -> GitSource | None:
    """Read `URL`, `URL@REV` or `DIR@REV`; None for anything else. A REV holds no slash: a commit, a tag, a branch."""
    head, at, tail = text.rpartition("@")
    if at and _REVISION.fullmatch(tail):
        if _URL.fullmatch(head):
            return GitSource(head, tail)
        if Path(head).is_dir():
            return GitSource(str(Path(head).resolve()), tail)
    return GitSource(text, None) if _URL.fullmatch(text) else None


def fetch(source: GitSource, target: Path) -> str:
    """Check the revision's files out into `target` (an empty directory) and give the full commit id.

    Raises EnvironmentFault when there is no git or the repository cannot be read, UsageFault when it has no such
    revision.
    """
    _git(target, "init", "--quiet", "--template=")
    (target / ".git" / "info").mkdir(exist_ok=True)
    (target / ".git" / "info" / "attributes").write_text(_RAW_BYTES)
    _git(target, "remote", "add", "origin", source.repository)
    wanted = source.revision or "HEAD"
    # Most servers give any branch, tag or full commit id alone; a shortened id needs the whole history.
    alone = _git(target, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", wanted, may_fail=True)
    commit = "FETCH_HEAD"
    if alone.returncode != 0:
        refs = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
        _git(target, "fetch", "--quiet", "origin", *refs)
        commit = wanted
    found = _git(target, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", may_fail=True)
    if found.returncode != 0:
        raise UsageFault(
            Reason.USAGE,
            f"{source.repository} has no revision {wanted!r}",
            "give a branch or tag without a slash in its name, or a commit id",
        )
    commit = found.stdout.strip()
    _git(target, "checkout", "--quiet", "--detach", commit)
    return commit


def _git(directory: Path, *arguments: str, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    environment = os.environ | {
        "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set while a hook of somebody's checkout runs us
        environment.pop(name, None)
    try:
        done = subprocess.run(
            ["git", *settings, *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SEC,
            check=False,
        )
    except FileNotFoundError as error:
        raise EnvironmentFault(Reason.TOOL_MISSING, "git is not installed", "install it: apt install git") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(
            Reason.NETWORK_UNAVAILABLE, f"git {arguments[0]} did not end within {TIMEOUT_SEC} s"
        ) from error
    if done.returncode != 0 and not may_fail:
        words = " ".join(done.stderr.split())[-400:] or "no message"
        raise EnvironmentFault(
            Reason.NETWORK_UNAVAILABLE,
            f"git {arguments[0]} failed: {words}",
            "check the address and the network, or clone it yourself and import the directory",
        )
    return done
