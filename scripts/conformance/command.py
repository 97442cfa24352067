"""`evalguest conformance`: test vectors of the wire, every section, nothing skipped."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def conformance(
    *,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="Vector files: wire-vectors@1.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Run published test vectors of the wire: one line a section, and each failure with what was expected and got.

    An unknown section, key or kind of entry is a failure. Exit code 1 on any.

    Example: evalguest conformance tests/conformance/wire.json
    """
    from scripts.conformance.outcome import run_file

    outcomes = {str(path): run_file(path) for path in files}
    failed = sum(len(section.failures) for sections in outcomes.values() for section in sections)
    if as_json:
        document = {
            "schema_version": 1,
            "failed": failed,
            "files": [
                {"file": name, "sections": [dataclasses.asdict(section) for section in sections]}
                for name, sections in outcomes.items()
            ],
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        for name, sections in outcomes.items():
            for section in sections:
                where = " ".join(word for word in (name, section.revision, section.section) if word)
                print(f"{where}: {section.passed} passed, {len(section.failures)} failed")
                for failure in section.failures:
                    print(f"  {failure.name}: expected {failure.expected}\n    got {failure.got}")
        total = sum(section.passed for sections in outcomes.values() for section in sections)
        print(f"{total} passed, {failed} failed")
    if failed:
        raise typer.Exit(1)
