"""`evalguest trial`: disclose one trial of a job, and check such a disclosure without the rest of the job."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guest.errors import Refused, UsageFault
from guest.reason import Reason

if TYPE_CHECKING:
    from guest.trial.record import TrialRecord

MAX_FILE_BYTES = 16 << 20

trial_app = typer.Typer(no_args_is_help=True, help="Disclose one trial of a job, and check such a disclosure.")


@trial_app.command()
def prove(
    *,
    job: Annotated[Path, typer.Argument(metavar="JOB", file_okay=False, exists=True, help="A job directory.")],
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="A trial's name: TASK__rN.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the proof goes.")],
) -> None:
    """Write a proof of one trial's record, which leads to the root that the job's summary names.

    Example: evalguest trial prove jobs/20260101-120000-0a1b2c kv-daemon__r1 -o proof.json
    """
    from guest.job.record_tree import in_order, prove, record_bytes, root_of

    records = in_order(read_records(job))
    names = [record.trial_id for record in records]
    if trial not in names:
        raise UsageFault(Reason.USAGE, f"{job} has no trial {trial!r}", f"it has {', '.join(names[:20]) or 'none'}")
    stated = _summary_root(job)
    root = root_of(records)
    if root != stated:
        raise Refused(Reason.JOB_DIFFERS, f"the records lead to {root}, the summary names {stated}")
    proof = prove([record_bytes(record) for record in records], names.index(trial))
    try:
        output.write_text(proof.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise UsageFault(Reason.USAGE, f"{output} cannot be written: {error.strerror}") from error
    print(f"root {root}")


@trial_app.command()
def check(
    *,
    path: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, exists=True, help="What `prove` wrote.")],
    root_hash: Annotated[str, typer.Option("--root-hash", help="The root to lead to, from a summary or a quote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as one JSON document.")] = False,
) -> None:
    """Check a proof against a root, and print the record that it discloses.

    Example: evalguest trial check proof.json --root-hash 0a1b2c...
    """
    from guest.job.record_tree import check_proof, parse_proof

    if not re.fullmatch(r"[0-9a-fA-F]{64}", root_hash):
        raise UsageFault(Reason.USAGE, "--root-hash is not 64 hex digits")
    record = check_proof(parse_proof(_read(path)), root_hash)
    if as_json:
        sys.stdout.write(json.dumps(record.model_dump(mode="json"), indent=2, sort_keys=True) + "\n")
        return
    reward = "none" if record.reward is None else f"{record.reward:g}"
    print(f"{record.trial_id} of run {record.run_id}: {record.outcome}, reward {reward}")
    print(f"task tree {record.tree_digest}\nagent {record.agent.kind} {record.agent.sha256 or ''}".rstrip())
    print(f"leads to {root_hash.lower()}")


def read_records(job: Path) -> list[TrialRecord]:
    """Give the records that a job directory holds. Raises Refused(JOB_MALFORMED) for one that is no record."""
    from pydantic import ValidationError

    from guest.trial.record import TrialRecord

    records: list[TrialRecord] = []
    for path in sorted(job.glob("trials/*/record.json")):
        try:
            records.append(TrialRecord.model_validate_json(_read(path)))
        except ValidationError as error:
            raise Refused(Reason.JOB_MALFORMED, f"{path} is no trial record: {str(error)[:300]}") from error
    return records


def _summary_root(job: Path) -> str:
    try:
        return str(json.loads(_read(job / "summary.json"))["records_root"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refused(Reason.JOB_MALFORMED, f"{job}/summary.json is no summary of a job: {error!r}") from error


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageFault(Reason.USAGE, f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise Refused(Reason.JOB_MALFORMED, f"{path} is larger than {MAX_FILE_BYTES} bytes")
    return data
