"""The record of one trial, and how records reach the disk: whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from guest.reason import Reason
from guest.trial.cgroup import CpuSource
from guest.trial.outcome import Outcome

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Unit = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class AgentIdentity(_Closed):
    """Which agent acted; `sha256` is None for the reference agents."""

    kind: str
    sha256: str | None


class ImageIdentity(_Closed):
    """Which image the container ran; kind `digest`: a registry's digest pins it, `id`: it is this machine's own."""

    ref: str
    image_id: str
    kind: Literal["digest", "id"]
    source: Literal["pulled", "built", "present"]
    note: str = ""


class Cpu(_Closed):
    """CPU seconds of both phases, the budgets beside them, and where the figures come from.

    `final` says that the last reading was taken when nothing of the container could run any more.
    """

    agent_budget_sec: Seconds
    verifier_budget_sec: Seconds
    agent_sec: Seconds | None
    verifier_sec: Seconds | None
    source: CpuSource
    final: bool
    throttled_periods: int | None
    throttled_sec: Seconds | None


class Wall(_Closed):
    """Wall seconds on the monotonic clock; `overhead_sec` is the rest of the trial beyond both phases."""

    agent_sec: Seconds | None
    verifier_sec: Seconds | None
    overhead_sec: Seconds


class Memory(_Closed):
    """Memory limit and peak in bytes, and how many processes the kernel killed for it (None: not known)."""

    limit_bytes: int
    peak_bytes: int | None
    oom_kills: int | None


class Log(_Closed):
    """One file kept beside the record: SHA-256 of what was kept, size before any cut."""

    path: str
    size: int
    sha256: str
    truncated: bool


class Container(_Closed):
    """The engine's side: ids, whether the container still ran at the end, and that it is gone."""

    container_id: str | None
    holder_id: str | None
    running_at_end: bool | None
    removed: bool


class Grading(_Closed):
    """What the verifier left: its exit code, the reward file as found, other members, test counts of the report."""

    exit_code: int | None
    source: Literal["txt", "json"] | None = None
    raw: str | None = None
    mtime: int | None = None
    others: Mapping[str, float] = Field(default_factory=dict)
    tests: Mapping[str, int] | None = None


class Probe(_Closed):
    """What became of the probe: SHA-256 of the value, whether it was copied out, who was to write it, why not."""

    value_sha256: str
    observed: bool
    written_by: Literal["agent", "host"]
    reason_code: Reason | None


class TrialRecord(_Closed):
    """Everything about one trial that can be told later. The file `record.json` of the trial's directory."""

    schema_version: Literal[1] = 1
    run_id: str
    trial_id: str
    task_id: str
    repetition: Annotated[int, Field(ge=1)]
    agent: AgentIdentity
    tree_digest: str
    image: ImageIdentity | None
    isolation: Literal["isolated", "shared"]
    network: Literal["none", "agent", "verifier", "both"]
    gateway_filtered: bool | None
    outcome: Outcome
    reason_code: Reason | None
    message: str
    reward: Unit | None
    grading: Grading | None
    probe: Probe | None
    started_at: str
    cpu: Cpu
    wall: Wall
    memory: Memory
    container: Container
    logs: tuple[Log, ...]


def write_json(path: Path, document: BaseModel | Mapping[str, Any], *, durable: bool = True) -> None:
    """Write one JSON document (sorted keys, no NaN), replacing the file only when the new one is whole.

    A `durable` document survives a power cut; the others only have to survive the death of the process.
    """
    body = document.model_dump(mode="json") if isinstance(document, BaseModel) else document
    data = json.dumps(body, indent=2, sort_keys=True, allow_nan=False).encode() + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_log(directory: Path, path: str, data: bytes, *, size: int | None = None, truncated: bool = False) -> Log:
    """Keep a log under the trial's directory and give its entry for the record."""
    target = directory / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return Log(
        path=path,
        size=len(data) if size is None else size,
        sha256=hashlib.sha256(data).hexdigest(),
        truncated=truncated,
    )
