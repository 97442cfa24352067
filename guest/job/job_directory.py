"""The directory of a job: one runner at a time, what was asked for, and which trials are finished.

A job may be begun once and resumed as often as it takes. What is resumed must be the very job that was begun: the same
agent, tasks, images, budgets, repetitions and runner.
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from guest.errors import EnvironmentFault, Refused, UsageFault
from guest.reason import Reason
from guest.trial.outcome import INFRASTRUCTURE
from guest.trial.record import TrialRecord, write_json

OTHER_DIRECTORY = "give another --job-dir, or none for a new one"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_KEY_FILE = "probe.key"
# What a resumed job may have other than the one that was begun.
_FREE = frozenset({"run_id", "created_at", "n_concurrent"})


class JobDirectory:
    """A claimed directory. Use `with`: the claim lasts as long as the block, at the most as long as the process."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Name the directory; `resume` says whether a job must be there, or must not."""
        self.path = path
        self._resume = resume
        self._lock: IO[str] | None = None

    def __enter__(self) -> JobDirectory:  # noqa: PYI034 - nobody derives from it
        """Make and claim the directory.

        Raises UsageFault for one that cannot be made, holds a job already or holds none to resume, Refused(JOB_BUSY)
        when another process works in it.
        """
        check_job_directory(self.path, resume=self._resume)
        try:
            self._lock = (self.path / "lock").open("a+")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = (self.path / "lock").read_text().strip() or "another process"
            self._release()
            raise Refused(
                Reason.JOB_BUSY, f"{self.path} is worked in by {holder}", "wait for it, or stop it"
            ) from error
        except OSError as error:
            raise UsageFault(
                Reason.USAGE, f"{self.path} cannot be claimed: {error.strerror}", OTHER_DIRECTORY
            ) from error
        try:
            # Another run may have been here between the look and the claim.
            check_job_directory(self.path, resume=self._resume)
            self._lock.truncate(0)
            self._lock.write(f"pid {os.getpid()} boot {_boot_id()}\n")
            self._lock.flush()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Give the directory up."""
        self._release()

    def begin(self, identity: Mapping[str, Any], probe_key: bytes) -> None:
        """Write what a new job is, and the key of its probes where only its owner reads it."""
        descriptor = os.open(self.path / _KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(probe_key)
        document = {**identity, "probe_key_sha256": hashlib.sha256(probe_key).hexdigest(), "created_at": _now()}
        # Last but for the trials: from here on the job can be resumed.
        write_json(self.path / "job.json", document)

    def check_same(self, identity: Mapping[str, Any]) -> None:
        """Raise Refused(JOB_DIFFERS), naming what differs, unless the job that was begun is this one."""
        begun = self._document()
        wanted = json.loads(json.dumps(dict(identity)))
        wanted["probe_key_sha256"] = hashlib.sha256(self.probe_key()).hexdigest()
        for name in sorted((begun.keys() | wanted.keys()) - _FREE):
            if begun.get(name) != wanted.get(name):
                where, one, other = _difference(name, begun.get(name), wanted.get(name))
                raise Refused(
                    Reason.JOB_DIFFERS,
                    f"{self.path} was begun with {where} {one!r}, this is {other!r}",
                    "resume it with what it was begun with, or begin another job",
                )

    def run_id(self) -> str:
        """Give the run id that the job was begun under."""
        return str(self._document()["run_id"])

    def probe_key(self) -> bytes:
        """Give the key that the job's probes are made with."""
        try:
            return (self.path / _KEY_FILE).read_bytes()
        except OSError as error:
            raise Refused(Reason.JOB_MALFORMED, f"{self.path}/{_KEY_FILE} cannot be read: {error.strerror}") from error

    def finished(self, trees: Mapping[str, str]) -> dict[str, TrialRecord]:
        """Give the records of finished trials by trial id, and remove what is left of the others.

        `trees` gives each task's tree digest. A record that is torn, of another task tree, or of a failed
        infrastructure is no result: its trial is run again.
        """
        records: dict[str, TrialRecord] = {}
        (self.path / "trials").mkdir(exist_ok=True)
        for directory in sorted((self.path / "trials").iterdir()):
            record = _read_record(directory / "record.json")
            known = record is not None and trees.get(record.task_id) == record.tree_digest
            if (
                record is not None
                and known
                and record.trial_id == directory.name
                and record.outcome not in INFRASTRUCTURE
            ):
                records[record.trial_id] = record
            else:
                shutil.rmtree(directory)
        return records

    def _document(self) -> dict[str, Any]:
        try:
            document = json.loads((self.path / "job.json").read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise Refused(Reason.JOB_MALFORMED, f"{self.path}/job.json cannot be read: {error}") from error
        if not isinstance(document, dict) or "run_id" not in document:
            raise Refused(Reason.JOB_MALFORMED, f"{self.path}/job.json does not say what the job is")
        return document

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def check_job_directory(path: Path, *, resume: bool) -> None:
    """Make a directory for a new job, or look whether one can be resumed; nothing else is done. Raises UsageFault."""
    try:
        if not resume:
            path.mkdir(parents=True, exist_ok=True)
        begun = (path / "job.json").exists()
    except OSError as error:
        raise UsageFault(Reason.USAGE, f"{path} cannot be made: {error.strerror}", OTHER_DIRECTORY) from error
    if path.exists() and not os.access(path, os.W_OK | os.X_OK):
        raise UsageFault(Reason.USAGE, f"{path} cannot be written to", OTHER_DIRECTORY)
    if resume and not begun:
        raise UsageFault(Reason.USAGE, f"{path} holds no job to resume", "leave --resume out to begin one")
    if not resume and (begun or (path / "trials").exists()):
        raise UsageFault(
            Reason.USAGE, f"{path} holds a job already", f"add --resume to go on with it; else {OTHER_DIRECTORY}"
        )


def _read_record(path: Path) -> TrialRecord | None:
    try:
        return TrialRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        return None
    except OSError as error:
        raise EnvironmentFault(Reason.JOB_MALFORMED, f"{path} cannot be read: {error.strerror}") from error


def _difference(name: str, one: Any, other: Any) -> tuple[str, Any, Any]:  # noqa: ANN401 - JSON values
    """Go down to the first member in which two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for inner in sorted(one.keys() | other.keys()):
            if one.get(inner) != other.get(inner):
                return _difference(f"{name}.{inner}", one.get(inner), other.get(inner))
    return name, one, other


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return "unknown"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
