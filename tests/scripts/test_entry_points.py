"""The shell entry points, in a checkout whose programs only say that they were called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.setup_venv import stamp

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAMS = ("python", "evalguest", "ruff", "mypy", "lint-imports", "pytest")
MACHINE = "python -P -m scripts.setup_machine"
TESTS = "python -P -m scripts.setup_tests"
CHECKS = ["ruff check .", "ruff format --check .", "mypy", "lint-imports --no-logo"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that is set up already, with programs that print their name and arguments."""
    place = tmp_path / "a checkout"
    (place / ".venv" / "bin").mkdir(parents=True)
    shutil.copytree(CHECKOUT / "scripts", place / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(CHECKOUT / ".ci", place / ".ci")
    (place / "requirements.lock").write_text("# nothing\n")
    for program in PROGRAMS:
        replace(place, program, 'echo "${0##*/}" "$@"')
    (place / ".venv" / "set-up").write_bytes(stamp(place))
    return place


def replace(checkout: Path, program: str, body: str) -> None:
    file = checkout / ".venv" / "bin" / program
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)


def run(*command: str | Path, directory: Path = Path("/")) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=directory, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def test_dry_run_sets_up_and_becomes_the_program(checkout: Path) -> None:
    done = run(checkout / "scripts" / "dry-run", "a b", "--agent", "nop")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [MACHINE, "evalguest dry-run a b --agent nop"]


def test_bench_sets_up_and_becomes_the_bench(checkout: Path) -> None:
    done = run(checkout / "scripts" / "bench", "trials", "--json")
    assert done.stdout.splitlines() == [MACHINE, "python -P -m scripts.benches trials --json"]


@pytest.mark.parametrize("entry", ["dry-run", "bench"])
@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("x", "--help")])
def test_help_needs_no_engine(checkout: Path, entry: str, arguments: tuple[str, ...]) -> None:
    done = run(checkout / "scripts" / entry, *arguments)
    assert done.returncode == 0
    assert MACHINE not in done.stdout


def test_what_follows_a_double_dash_asks_for_nothing(checkout: Path) -> None:
    assert MACHINE in run(checkout / "scripts" / "dry-run", "--", "--help").stdout


@pytest.mark.parametrize(("failing", "status"), [("python", 3), ("evalguest", 1)])
def test_exit_codes_come_through(checkout: Path, failing: str, status: int) -> None:
    replace(checkout, failing, f"exit {status}")
    assert run(checkout / "scripts" / "dry-run").returncode == status


def test_test_runs_every_check_and_pytest_last(checkout: Path) -> None:
    done = run(checkout / "scripts" / "test", "-k", "some thing")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [MACHINE, TESTS, *CHECKS, "pytest -m not drill and not soak -k some thing"]


def test_test_all_leaves_nothing_out(checkout: Path) -> None:
    done = run(checkout / "scripts" / "test", "--all", "-x")
    assert done.stdout.splitlines()[-1] == "pytest -x"


@pytest.mark.parametrize("failing", ["ruff", "mypy", "lint-imports", "pytest"])
def test_a_failing_check_fails_the_whole(checkout: Path, failing: str) -> None:
    replace(checkout, failing, "exit 7")
    done = run(checkout / "scripts" / "test")
    assert done.returncode == 7
    assert "pytest" not in done.stdout


def test_test_help_sets_nothing_up(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    done = run(checkout / "scripts" / "test", "--help")
    assert done.returncode == 0
    assert "--all" in done.stdout
    assert not (checkout / ".venv").exists()


def test_ci_ends_with_what_the_tests_end_with(checkout: Path) -> None:
    replace(checkout, "pytest", "echo '5 passed in 0.01s'")
    done = run(".ci/run", directory=checkout)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "5 passed in 0.01s"


@pytest.mark.parametrize(
    ("told", "is_it"),
    [("reason code: mirror_moved", True), ("reason code: network_unavailable", False), ("x mirror_moved", False)],
)
def test_ci_says_when_the_mirror_has_moved(checkout: Path, told: str, is_it: bool) -> None:
    replace(checkout, "python", f"echo '{told}' >&2; exit 3")
    done = run(".ci/run", directory=checkout)
    assert done.returncode == 3
    assert ("MIRROR MOVED" in done.stdout) == is_it
    assert ("lock write --refresh" in done.stdout) == is_it


def test_ci_does_not_wait_for_an_engine_that_was_started(checkout: Path) -> None:
    replace(checkout, "python", "setsid sleep 20 >/dev/null 2>&1 </dev/null &")
    done = subprocess.run([".ci/run"], cwd=checkout, stdout=subprocess.PIPE, timeout=10, check=False)
    assert done.returncode == 0
