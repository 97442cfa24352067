"""What one task asks for, read from its `task.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.task_id import check_task_id
from guest.tasks.toml_form import SCHEMA_VERSIONS, UNSUPPORTED, Healthcheck, TaskToml, take_unsupported

__all__ = ["Healthcheck", "Network", "TaskDefinition", "parse_task_toml"]

MAX_TOML_BYTES = 256 * 1024
_NAME = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)

Network = Literal["none", "agent", "verifier", "both"]
"""The phases in which a task's container has a network."""


class TaskDefinition(BaseModel):
    """One task's definition. Times in seconds, sizes in MiB; `task_id` is the name of the task's directory."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    task_id: str
    name: str
    description: str
    cpus: float
    memory_mb: int
    storage_mb: int | None
    agent_timeout_sec: float
    verifier_timeout_sec: float
    build_timeout_sec: float
    docker_image: str | None
    network: Network
    workdir: str | None
    agent_user: str | None
    verifier_user: str | None
    agent_env: Mapping[str, str]
    verifier_env: Mapping[str, str]
    solution_env: Mapping[str, str]
    environment_env: Mapping[str, str]
    healthcheck: Healthcheck | None

    @property
    def allow_internet(self) -> bool:
        """Whether the definition asks for a network in any phase."""
        return self.network != "none"


def parse_task_toml(text: bytes, *, directory_name: str) -> TaskDefinition:
    """Read a `task.toml` whose task lives in a directory of that name.

    Raises Refused(TASK_UNSUPPORTED) for a feature this runner does not act on and for every key it does not know,
    naming key and value, and Refused(TASK_MALFORMED) for anything that is not such a file. No other error escapes.
    """
    task_id = check_task_id(directory_name)
    document = _load(text, task_id)
    found = take_unsupported(document)
    if found is not None:
        key, value, why = found
        raise _unsupported(task_id, f"{key} = {_show(value)}", why)
    try:
        form = TaskToml.model_validate(document)
    except ValidationError as error:
        raise _refusal(task_id, error) from error
    _check_version(form, task_id)
    return TaskDefinition(
        task_id=task_id,
        name=_name(form, task_id),
        description=form.task.description,
        cpus=form.environment.cpus,
        memory_mb=_agree(task_id, "memory", form.environment.memory, form.environment.memory_mb) or 2048,
        storage_mb=_agree(task_id, "storage", form.environment.storage, form.environment.storage_mb),
        agent_timeout_sec=form.agent.timeout_sec,
        verifier_timeout_sec=form.verifier.timeout_sec,
        build_timeout_sec=form.environment.build_timeout_sec,
        docker_image=form.environment.docker_image,
        network=_network(form, task_id),
        workdir=form.environment.workdir or None,
        agent_user=form.agent.user,
        verifier_user=form.verifier.user,
        agent_env=form.agent.env,
        verifier_env=form.verifier.env,
        solution_env=form.solution.env,
        environment_env=form.environment.env,
        healthcheck=form.environment.healthcheck,
    )


def _load(text: bytes, task_id: str) -> dict[str, Any]:
    if len(text) > MAX_TOML_BYTES:
        raise _malformed(task_id, f"{len(text)} bytes; at most {MAX_TOML_BYTES} are read")
    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # ValueError: bad UTF-8, bad TOML, a number of thousands of digits
        raise _malformed(task_id, f"not TOML: {str(error)[:200] or 'nested too deeply'}") from error


def _check_version(form: TaskToml, task_id: str) -> None:
    if form.version is not None and form.schema_version not in (None, form.version):
        raise _malformed(task_id, f"version {form.version!r} and schema_version {form.schema_version!r} differ")
    # A file that names no version is read as the newest, as Harbor does.
    version = form.schema_version or form.version
    if version is not None and version not in SCHEMA_VERSIONS:
        raise _unsupported(task_id, f"schema_version = {_show(version)}", f"read are {', '.join(SCHEMA_VERSIONS)}")


def _name(form: TaskToml, task_id: str) -> str:
    name = form.task.name
    if name is None:
        return task_id
    if _NAME.fullmatch(name) is None or ".." in name or len(name) > 256:  # noqa: PLR2004 - both parts of an org/name
        raise _malformed(task_id, f"task.name is {_show(name)}; expected a name, or org/name, of A-Z a-z 0-9 . _ -")
    return name


def _agree(task_id: str, key: str, old: int | None, new: int | None) -> int | None:
    """One size under its two spellings; both at once must say the same."""
    if old is not None and new is not None and old != new:
        raise _malformed(task_id, f"environment.{key} says {old} MiB and environment.{key}_mb says {new}")
    size = new if old is None else old
    if size is not None and size < (6 if key == "memory" else 1):  # the engine refuses less than 6 MiB of memory
        raise _malformed(task_id, f"environment.{key} is {size} MiB, which is too little")
    return size


def _network(form: TaskToml, task_id: str) -> Network:
    """Which phases have a network; public unless the file says otherwise, as in Harbor."""
    baseline = form.environment.network_mode
    allow = form.environment.allow_internet
    if baseline is not None and allow is not None and allow != (baseline == "public"):
        raise _malformed(task_id, f"allow_internet = {_show(allow)} and network_mode = {_show(baseline)} differ")
    if baseline is None:
        baseline = "no-network" if allow is False else "public"
    agent = (form.agent.network_mode or baseline) == "public"
    verifier = (form.verifier.network_mode or baseline) == "public"
    return "both" if agent and verifier else "agent" if agent else "verifier" if verifier else "none"


def _refusal(task_id: str, error: ValidationError) -> Refused:
    """Say the first thing that does not fit, by key and value."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])[:200]
    shown = f"{key} = {_show(first['input'])}"
    if first["type"] == "extra_forbidden":
        return _unsupported(task_id, shown, "unknown keys are refused, since they could change what the task means")
    if first["type"] == UNSUPPORTED:
        return _unsupported(task_id, shown, first["msg"])
    return _malformed(task_id, f"{shown}: {first['msg'].removeprefix('Value error, ')}")


def _show(value: object) -> str:
    """A short spelling of any TOML value; never deep, whatever the value is."""
    if isinstance(value, dict):
        return "{" + ", ".join(str(key)[:40] for key in list(value)[:4]) + (", …}" if len(value) > 4 else "}")  # noqa: PLR2004
    if isinstance(value, list):
        return f"[{len(value)} items]" if len(value) != 1 or isinstance(value[0], list) else f"[{_show(value[0])}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"  # Python refuses to spell thousands of them
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "…"  # noqa: PLR2004


def _malformed(task_id: str, message: str) -> Refused:
    return Refused(Reason.TASK_MALFORMED, f"{task_id}/task.toml: {message}")


def _unsupported(task_id: str, what: str, why: str) -> Refused:
    return Refused(Reason.TASK_UNSUPPORTED, f"{task_id}/task.toml: {what} is not supported: {why}")
