"""The program as a user meets it: exit codes, what goes to which stream, no traceback for anything foreseen."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.failures import run_reporting

CHECKOUT = Path(__file__).resolve().parents[2]
SUBCOMMANDS = (
    ("doctor",),
    ("bake",),
    ("dry-run",),
    ("cleanup",),
    ("tasks", "list"),
    ("tasks", "verify"),
    ("tasks", "digest"),
    ("tasks", "import"),
    ("lock", "write"),
    ("lock", "check"),
)
PROGRAM = (sys.executable, "-P", "-m", "scripts")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT), **environment}
    return subprocess.run([*PROGRAM, *arguments], env=env, capture_output=True, text=True, check=False, timeout=60)


def error_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    document = json.loads(done.stdout)
    assert set(document["error"]) == {"reason", "message", "hint"}
    return dict(document["error"])


@pytest.mark.parametrize("subcommand", SUBCOMMANDS, ids=" ".join)
def test_every_help_has_an_example(subcommand: tuple[str, ...]) -> None:
    done = run(*subcommand, "--help")
    assert done.returncode == 0
    assert f"Example: evalguest {' '.join(subcommand)}" in " ".join(done.stdout.split())


def test_help_names_every_subcommand() -> None:
    shown = run("--help").stdout
    for name in {subcommand[0] for subcommand in SUBCOMMANDS}:
        assert f"\n  {name} " in shown


def test_help_loads_nothing_heavy() -> None:
    heavy = ("docker", "requests", "pydantic", "rich")
    code = f"import sys, scripts.cli; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_version_is_the_one_of_pyproject() -> None:
    stated = (CHECKOUT / "pyproject.toml").read_text()
    done = run("--version")
    assert done.returncode == 0
    name, version = done.stdout.split()
    assert name == "evalguest"
    assert f'\nversion = "{version}"\n' in stated


def test_runs_from_any_directory_and_past_a_package_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run([*PROGRAM, "--version"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [("frobnicate",), ("dry-run", "--bogus"), ("dry-run", "-k", "0"), ("dry-run", "--agent", "nobody"), ("lock", "x")],
    ids=" ".join,
)
def test_a_wrong_command_line_ends_with_2(arguments: tuple[str, ...]) -> None:
    plain = run(*arguments)
    assert (plain.returncode, plain.stdout) == (2, "")
    assert plain.stderr.startswith("error: ")
    assert "hint: " in plain.stderr
    assert "usage" in plain.stderr
    assert "Traceback" not in plain.stderr
    as_json = run(*arguments, "--json")
    assert as_json.returncode == 2
    assert error_of(as_json)["reason"] == "usage"


def test_a_group_without_subcommand_shows_its_help() -> None:
    done = run("tasks")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: evalguest tasks ")


def test_without_arguments_the_help_is_shown() -> None:
    assert run().stdout == run("--help").stdout


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:2375", "ssh://somebody@example.org", "unix:relative", "nonsense"])
def test_an_engine_elsewhere_is_refused(address: str) -> None:
    done = run("cleanup", "--json", DOCKER_HOST=address)
    assert done.returncode == 2
    error = error_of(done)
    assert error["reason"] == "usage"
    assert address in error["message"]


def test_no_engine_ends_with_3(tmp_path: Path) -> None:
    done = run("cleanup", "--json", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.returncode == 3
    error = error_of(done)
    assert error["reason"] == "engine_unavailable"
    assert error["hint"]
    assert "Traceback" not in done.stderr


def test_a_thing_that_does_not_hold_ends_with_1(tmp_path: Path) -> None:
    task = tmp_path / "tasks" / "one"
    task.mkdir(parents=True)
    (task / "task.toml").write_text("this is not TOML")
    done = run("dry-run", "one", "--cache", str(tmp_path), "--json")
    assert done.returncode == 1
    assert error_of(done)["reason"] == "task_malformed"


def test_json_is_one_document_and_alone_on_stdout() -> None:
    done = run("tasks", "list", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["tasks"]


def test_json_after_a_double_dash_is_an_argument() -> None:
    done = run("dry-run", "--agent", "nobody", "--", "--json")
    assert (done.returncode, done.stdout) == (2, "")


def test_ctrl_c_ends_with_1_and_one_line(tmp_path: Path) -> None:
    place = tmp_path / "mute.sock"
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(place))
        mute.listen()
        env = {**os.environ, "DOCKER_HOST": f"unix://{place}"}
        command = [*PROGRAM, "cleanup", "--json"]
        env["PYTHONPATH"] = str(CHECKOUT)
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            mute.settimeout(30)
            connection, _ = mute.accept()
            with connection:
                connection.recv(1)  # the program now waits for an answer
                process.send_signal(signal.SIGINT)
                said, told = process.communicate(timeout=30)
    assert process.returncode == 1
    assert json.loads(said)["error"]["reason"] == "interrupted"
    assert "Traceback" not in told


def test_a_reader_that_goes_away_is_no_fault() -> None:
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    reading, writing = os.pipe()
    os.close(reading)
    command = [*PROGRAM, "tasks", "list"]
    done = subprocess.run(command, env=env, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_bug_is_called_one_and_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        return 1 // 0

    assert run_reporting(work, as_json=True) == 1
    said, told = capsys.readouterr()
    assert json.loads(said)["error"]["reason"] == "internal_fault"
    assert "Traceback" in told
    assert "this is a bug" in told
