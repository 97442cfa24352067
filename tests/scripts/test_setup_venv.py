"""Stage one of set-up, in a checkout of its own whose lock names no package, or one that nobody can install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.setup_venv import is_current, stamp

CHECKOUT = Path(__file__).resolve().parents[2]
SETUP = 'set -euo pipefail; source "$0/scripts/setup.sh"; setup_venv'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What stage one reads, in a directory with a blank in its name."""
    place = tmp_path / "a checkout"
    for room in ("guest", "scripts"):
        shutil.copytree(CHECKOUT / room, place / room, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "requirements.lock").write_text("# nothing\n")
    return place


def set_up(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    cache = str(checkout.parent / "cache")
    env = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = ["bash", "-c", SETUP, str(checkout)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_made_once_and_made_anew_when_it_has_to_be(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    first = set_up(checkout)
    assert (first.returncode, first.stdout) == (0, "")
    assert [line.split()[:2] for line in first.stderr.splitlines()] == [
        ["set-up:", "making"],
        ["set-up:", "installing"],
    ]
    assert is_current(checkout)
    made = python.lstat().st_ctime_ns

    second = set_up(checkout)
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert python.lstat().st_ctime_ns == made

    (checkout / ".venv" / "set-up").unlink()  # as an interrupted run leaves it
    (checkout / ".venv" / "half").touch()
    assert not is_current(checkout)
    assert "making" in set_up(checkout).stderr
    assert python.lstat().st_ctime_ns > made
    assert not (checkout / ".venv" / "half").exists()


def test_two_at_once_make_it_once(checkout: Path) -> None:
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(checkout.parent / "cache")}
    command = ["bash", "-c", SETUP, str(checkout)]
    both = [subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = "".join(process.communicate(timeout=120)[1] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert told.count("set-up: making") == 1
    assert is_current(checkout)


def test_the_program_is_the_checkouts_from_any_directory(checkout: Path, tmp_path: Path) -> None:
    (checkout / "scripts" / "__main__.py").write_text("import sys\nprint(__file__, *sys.argv[1:])\n")
    assert set_up(checkout).returncode == 0
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "__main__.py").write_text("raise SystemExit('the wrong one')\n")
    command = [str(checkout / ".venv" / "bin" / "evalguest"), "a b", "*"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{checkout}/scripts/__main__.py a b *\n"


def test_a_package_that_is_not_as_locked_is_refused(checkout: Path) -> None:
    (checkout / "requirements.lock").write_text(f"iniconfig==2.3.1 --hash=sha256:{'0' * 64}\n")
    done = set_up(checkout, PIP_RETRIES="0")
    assert (done.returncode, done.stdout) == (3, "")
    assert "pip could not install" in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not is_current(checkout)


def test_what_the_stamp_depends_on(checkout: Path, tmp_path: Path) -> None:
    whole = stamp(checkout)
    (checkout / "requirements.lock").write_text("# nothing else\n")
    assert stamp(checkout) != whole
    moved = tmp_path / "moved"
    checkout.rename(moved)
    (moved / "requirements.lock").write_text("# nothing\n")
    assert stamp(moved) != whole


@pytest.mark.parametrize("version", ["3.10.12", None])
def test_no_python_ends_with_the_instruction(checkout: Path, tmp_path: Path, version: str | None) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "dirname", "cat", "cmp", "id"):
        found = shutil.which(tool)
        assert found
        (tools / tool).symlink_to(found)
    if version:  # one that is too old says no to whatever it is asked
        (tools / "python3").write_text("#!/bin/bash\nexit 1\n")
        (tools / "python3").chmod(0o755)
    done = set_up(checkout, PATH=str(tools))
    assert (done.returncode, done.stdout) == (3, "")
    assert "3.11" in done.stderr
    assert "sudo apt-get install python3 python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_this_checkout_is_current_for_the_shell_too() -> None:
    if not is_current(CHECKOUT) or Path(sys.prefix) != CHECKOUT / ".venv":
        pytest.skip("these tests do not run in the checkout's own .venv")
    done = set_up(CHECKOUT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
