"""The program `evalguest`: its subcommands, and how every error of theirs is told and turned into an exit code."""

from __future__ import annotations

import json
import os
import sys
import tomllib
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from guest.errors import EvalguestError
from guest.reason import Reason
from scripts.cleanup import cleanup
from scripts.dry_run import dry_run
from scripts.lock import lock_app
from scripts.tasks import tasks_app

CHECKOUT = Path(__file__).resolve().parent.parent

# Plain help: it reads the same in a terminal, a pipe and the README, and costs no import of rich.
app = typer.Typer(name="evalguest", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("dry-run", short_help="Run a whole job on this machine and print its scores.")(dry_run)
app.command("cleanup", short_help="Remove what killed runs left in the engine.")(cleanup)
app.add_typer(tasks_app, name="tasks")
app.add_typer(lock_app, name="lock")


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

    Exit codes: 0 what was asked for holds; 1 it does not, or the run failed; 2 the command line or a configuration is
    wrong; 3 this machine lacks something.

    Example: evalguest dry-run --agent oracle
    """


def main(arguments: Sequence[str]) -> int:
    """Run one command line (without the program's name) and give the exit code. Raises nothing."""
    as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    try:
        return _run(list(arguments) or ["--help"])
    except EvalguestError as error:
        return _tell(error.reason, error.message, error.hint, error.exit_code, as_json=as_json)
    except typer.TyperException as error:
        return _tell_usage(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _tell(Reason.INTERRUPTED, "interrupted", "", 1, as_json=as_json)
    except BrokenPipeError:  # the reader of our output has gone, which is its right
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the last place where a fault can still be told
        traceback.print_exc(file=sys.stderr)
        hint = "please report it with the lines above"
        return _tell(
            Reason.INTERNAL_FAULT,
            f"this is a bug in evalguest: {type(error).__name__}: {error}",
            hint,
            1,
            as_json=as_json,
        )


def _run(arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        with command.make_context("evalguest", arguments) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as ending:
        sys.stdout.flush()
        return ending.exit_code
    return 0


def _tell_usage(error: typer.TyperException, *, as_json: bool) -> int:
    words = error.format_message()
    if words.startswith("Usage:"):  # a group named without any of its subcommands: these are its help
        sys.stderr.write(words.rstrip() + "\n")
        return error.exit_code
    context = getattr(error, "ctx", None)
    hint = f"see {context.command_path} --help" if context else "see evalguest --help"
    return _tell(Reason.USAGE, words, hint, error.exit_code, as_json=as_json)


def _tell(reason: Reason, message: str, hint: str, exit_code: int, *, as_json: bool) -> int:
    sys.stderr.write(f"error: {message}\n")
    if hint:
        sys.stderr.write(f"hint: {hint}\n")
    sys.stderr.write(f"reason code: {reason}\n")
    if as_json:
        document = {"error": {"reason": reason, "message": message, "hint": hint}}
        sys.stdout.write(json.dumps(document) + "\n")
    return exit_code
