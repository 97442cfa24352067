"""`evalguest lock` as a user meets it, against a mirror on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from image.base.lock import LOCK_PATH, read_lock
from tests.image.base.made import mirror

CHECKOUT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "scripts", "lock", *arguments]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(CHECKOUT), "HOME": "/nonexistent"}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_check_passes_while_the_mirror_serves_every_package() -> None:
    lock = read_lock()
    with mirror() as server:
        server.files.update({f"/debian/{quote(package.path, safe='/~')}": b"x" for package in lock.packages})
        done = run("check", "--mirror", f"{server.url}/debian/")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"base lock: {server.url}/debian serves all {len(lock.packages)} packages\n"
    assert len(server.asked) == len(lock.packages)


def test_check_names_what_the_mirror_no_longer_has_and_the_command_that_mends_it() -> None:
    lock = read_lock()
    gone = {package.name: package for package in lock.packages if package.name in ("git", "libc6")}
    with mirror() as server:
        kept = [package for package in lock.packages if package.name not in gone]
        server.files.update({f"/{quote(package.path, safe='/~')}": b"x" for package in kept})
        done = run("check", "--mirror", server.url)
    assert done.returncode == 3
    assert f"git {gone['git'].version}, libc6 {gone['libc6'].version}" in done.stderr
    assert "mirror_moved" in done.stderr
    assert "evalguest lock write --refresh" in done.stderr
    assert f"--mirror https://snapshot.debian.org/archive/debian/{lock.snapshot}" in done.stderr


@pytest.mark.parametrize("command", ["check", "write"])
@pytest.mark.parametrize("url", ["ftp://mirror.example.org/debian", "deb.debian.org", "", "-o"])
def test_what_is_no_mirror_is_refused_and_changes_nothing(command: str, url: str) -> None:
    before = LOCK_PATH.read_bytes()
    done = run(command, f"--mirror={url}")
    assert done.returncode == 2
    assert "expected http://… or https://…" in done.stderr
    assert LOCK_PATH.read_bytes() == before


def test_a_refresh_that_cannot_resolve_changes_nothing() -> None:
    before = LOCK_PATH.read_bytes()
    with mirror() as server:
        done = run("write", "--refresh", "--mirror", server.url)
    assert done.returncode == 3
    assert LOCK_PATH.read_bytes() == before
