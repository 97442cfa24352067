"""How a command ends: what went wrong, what to do next and a reason code on stderr, and the exit code."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable

import typer

from guest.errors import EvalguestError
from guest.reason import Reason


def run_reporting(work: Callable[[], int], *, as_json: bool = False) -> int:
    """Run `work` and give its exit code, or the one of what it raised, which is told; with `as_json` also as JSON.

    Orderly errors end with their own code, Ctrl-C with 1, anything else is a bug of ours: a traceback and 1. Nothing
    is raised. A reader that has closed its end of our pipe ends us quietly with 1.
    """
    try:
        code = work()
        sys.stdout.flush()
    except EvalguestError as error:
        return _tell(error.reason, error.message, error.hint, error.exit_code, as_json=as_json)
    except typer.TyperException as error:
        return _tell_usage(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _tell(Reason.INTERRUPTED, "interrupted", "", 1, as_json=as_json)
    except BrokenPipeError:
        # the interpreter flushes once more at its end, and would complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the last place where a fault can still be told
        traceback.print_exc()
        words = f"this is a bug in evalguest: {type(error).__name__}: {error}"
        return _tell(Reason.INTERNAL_FAULT, words, "please report it with the lines above", 1, as_json=as_json)
    return code


def _tell_usage(error: typer.TyperException, *, as_json: bool) -> int:
    words = error.format_message()
    context = getattr(error, "ctx", None)
    if words.startswith("Usage:"):  # a group named without any of its subcommands: these are its help
        sys.stderr.write(words.rstrip() + "\n\n")
        words = "a subcommand is missing"
    hint = f"see {context.command_path} --help" if context else "see evalguest --help"
    return _tell(Reason.USAGE, words, hint, error.exit_code, as_json=as_json)


def _tell(reason: Reason, message: str, hint: str, exit_code: int, *, as_json: bool) -> int:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), message))
    if hint:
        console.print(Text.assemble(("hint: ", "bold"), hint))
    console.print(Text.assemble(("reason code: ", "dim"), str(reason)))
    if as_json:
        document = {"error": {"reason": reason, "message": message, "hint": hint}}
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()
    return exit_code
