"""The program `evalguest` and its subcommands, which import what they need when they run."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from scripts.agent import agent_app
from scripts.bake import bake
from scripts.cleanup import cleanup
from scripts.conformance.command import conformance
from scripts.doctor import doctor
from scripts.dry_run import dry_run
from scripts.engine_socket import find_address
from scripts.failures import run_reporting
from scripts.lock import lock_app
from scripts.tasks import tasks_app
from scripts.trial import trial_app

CHECKOUT = Path(__file__).resolve().parent.parent

# Plain help: it reads the same in a terminal, a pipe and the README, and costs no import of rich.
app = typer.Typer(name="evalguest", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("doctor", short_help="Say what this machine can do, and how to mend what it cannot.")(doctor)
app.add_typer(tasks_app, name="tasks")
app.add_typer(agent_app, name="agent")
app.command("bake", short_help="Pull or build each task's image before a run needs it.")(bake)
app.command("dry-run", short_help="Run a whole job on this machine and print its scores.")(dry_run)
app.add_typer(trial_app, name="trial")
app.command("cleanup", short_help="Remove what killed runs left in the engine.")(cleanup)
app.add_typer(lock_app, name="lock")
app.command("conformance", short_help="Run test vectors of the wire against this implementation.")(conformance)


def version() -> str:
    """Give the version that the checkout's pyproject.toml states."""
    return str(tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"])


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"evalguest {version()}\n")
        raise typer.Exit


@app.callback()
def evalguest(
    *,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and end.")
    ] = False,
) -> None:
    """Score coding agents on Terminal-Bench tasks, in containers beside this program.

    Exit codes: 0 what was asked for holds; 1 it does not, or the run failed; 2 the command line is wrong; 3 this
    machine lacks something.

    Example: evalguest dry-run --agent oracle
    """


def main(arguments: Sequence[str]) -> int:
    """Run one command line (without the program's name) and give the exit code. Raises nothing."""
    as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    # One engine for the library and the docker command alike; an address that is not ours to use is refused on use.
    os.environ["DOCKER_HOST"] = find_address().url
    return run_reporting(lambda: _run(list(arguments) or ["--help"]), as_json=as_json)


def _run(arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        with command.make_context("evalguest", arguments) as context:
            command.invoke(context)
    except typer.Exit as ending:
        return ending.exit_code
    return 0
