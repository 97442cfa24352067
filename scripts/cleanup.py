"""`evalguest cleanup`: remove what killed runs left in the engine."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer


def cleanup(
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, even on a terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Find and remove containers, networks, volumes and cgroups of runs that no longer live.

    Runs that still live, anybody's, are left alone.

    Example: evalguest cleanup --yes
    """
    from guest.job.sweep import find_leftovers, remove_leftovers
    from guest.trial.engine import connect

    engine = connect()
    runs = find_leftovers(engine)
    for run in runs:
        sys.stderr.write(f"{run}\n")
    if runs and not yes and sys.stdin.isatty():
        typer.confirm("Remove them?", abort=True, err=True)
    for run in runs:
        remove_leftovers(engine, run)
    if as_json:
        removed = [
            {
                "run_id": run.run_id,
                "containers": run.containers,
                "networks": run.networks,
                "volumes": run.volumes,
                "cgroups": run.groups,
            }
            for run in runs
        ]
        sys.stdout.write(json.dumps({"schema_version": 1, "removed": removed}) + "\n")
    else:
        sys.stdout.write(f"removed what {len(runs)} runs left\n" if runs else "nothing to remove\n")
