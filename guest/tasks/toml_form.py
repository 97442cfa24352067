"""The closed form of `task.toml` that this runner acts on, and the features of the format it refuses by name.

The format is Harbor's task configuration, schema versions 1.0 to 1.4, with the older spellings `version`, `memory`,
`storage` and `allow_internet`. Harbor itself skips what it does not know; here a key that could change what a task
means is never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

SCHEMA_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")

UNSUPPORTED = "unsupported"
"""Type of the validation errors that mean "the format has this, this runner does not"."""

NO_ALLOWLIST = "a network that allows some hosts only is not offered"
NO_SEPARATE = "the verifier runs in the agent's container only"

MAX_SECONDS = 7 * 24 * 3600.0
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([KMG])", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_HOST_VALUE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}")
_USER = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?\z"
_IMAGE = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}\z"


def _whole(value: object) -> object:
    """TOML writers differ in `2048` and `2048.0`; both are the same number of megabytes."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _megabytes(value: object) -> object:
    """`"2G"`, `"512M"`, `"4096K"` of the older schema, in MiB."""
    if not isinstance(value, str):
        raise ValueError('a size is written like "2G" or "512M"')  # noqa: TRY004 - pydantic reports ValueError only
    match = _SIZE.fullmatch(value.strip().upper())
    if match is None:
        raise ValueError('a size is written like "2G" or "512M"')
    number, unit = match.groups()
    return int(float(number) * {"K": 1 / 1024, "M": 1, "G": 1024}[unit])


def _user(value: object) -> object:
    """A user is a name or a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _environment_variables(table: dict[str, str]) -> dict[str, str]:
    """Check names and values; a template of the host's environment gives its default, as nothing of the host enters."""
    values: dict[str, str] = {}
    for name, value in table.items():
        if _ENV_NAME.fullmatch(name) is None or "\0" in value:
            raise ValueError(f"{name[:80]!r} is not an environment variable with a plain value")
        template = _HOST_VALUE.fullmatch(value)
        if template is not None and template[2] is None:
            why = f"{name} takes {value[:80]!r} from the host's environment, which no task sees"
            raise PydanticCustomError(UNSUPPORTED, "{why}", {"why": why})
        values[name] = value if template is None else template[2]
    return values


def _refuse_value(refused: str, why: str) -> BeforeValidator:
    """Tell a value of the format that is not supported from one the format does not have."""

    def check(value: object) -> object:
        if value == refused:
            raise PydanticCustomError(UNSUPPORTED, "{why}", {"why": why})
        return value

    return BeforeValidator(check)


def _absolute(path: str) -> str:
    parts = path.split("/")
    if path and (not path.startswith("/") or ".." in parts or not any(parts) or not path.isprintable()):
        raise ValueError("a working directory is an absolute path below /, without '..'")
    return path


Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]
Interval = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
Variables = Annotated[dict[str, str], AfterValidator(_environment_variables)]
User = Annotated[str, BeforeValidator(_user), Field(pattern=_USER)]
MemoryMb = Annotated[int, BeforeValidator(_whole), Field(ge=6, le=16 * 1024 * 1024)]
StorageMb = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=1024 * 1024 * 1024)]
Size = Annotated[int, BeforeValidator(_megabytes)]
NetworkMode = Annotated[Literal["public", "no-network"], _refuse_value("allowlist", NO_ALLOWLIST)]
VerifierMode = Annotated[Literal["shared"], _refuse_value("separate", NO_SEPARATE)]


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Healthcheck(_Table):
    """A shell command that must succeed before the agent starts; times in seconds, as the engine's own health check."""

    command: str = Field(min_length=1, max_length=65_536)
    interval_sec: Interval = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Interval = 0.0
    start_interval_sec: Interval = 5.0
    retries: int = Field(default=3, ge=1, le=1000)


class TaskTable(_Table):
    """`[task]`: who the task is. Only name and description are used."""

    name: str | None = None
    version: str | None = None
    description: str = ""
    authors: list[dict[str, Any]] = []
    keywords: list[str] = []


class AgentTable(_Table):
    """`[agent]`. Harbor's present default is no limit at all; its first one was 600 s, which is ours."""

    timeout_sec: Seconds = 600.0
    user: User | None = None
    env: Variables = {}
    network_mode: NetworkMode | None = None


class VerifierTable(_Table):
    """`[verifier]`; the verifier always runs in the agent's container."""

    timeout_sec: Seconds = 600.0
    user: User | None = None
    env: Variables = {}
    network_mode: NetworkMode | None = None
    environment_mode: VerifierMode | None = None


class EnvironmentTable(_Table):
    """`[environment]`. Sizes in MiB; one CPU and 2 GiB when not said, Harbor's first defaults."""

    build_timeout_sec: Seconds = 600.0
    docker_image: str | None = Field(default=None, pattern=_IMAGE)
    cpus: float = Field(default=1.0, ge=0.01, le=1024, allow_inf_nan=False)
    memory: Size | None = None
    memory_mb: MemoryMb | None = None
    storage: Size | None = None
    storage_mb: StorageMb | None = None
    allow_internet: bool | None = None
    network_mode: NetworkMode | None = None
    env: Variables = {}
    workdir: Annotated[str, AfterValidator(_absolute)] | None = None
    healthcheck: Healthcheck | None = None


class SolutionTable(_Table):
    """`[solution]`."""

    env: Variables = {}


class TaskToml(_Table):
    """The whole file, once the unsupported features are known to be absent."""

    version: str | None = None
    schema_version: str | None = None
    source: str | None = None
    task: TaskTable = TaskTable()
    metadata: dict[str, Any] = {}
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    environment: EnvironmentTable = EnvironmentTable()
    solution: SolutionTable = SolutionTable()


_UNSUPPORTED: Mapping[tuple[str, ...], str] = {
    ("artifacts",): "extra artifacts are not collected",
    ("steps",): "tasks of several steps are not run",
    ("multi_step_reward_strategy",): "tasks of several steps are not run",
    ("agent", "allowed_hosts"): NO_ALLOWLIST,
    ("verifier", "allowed_hosts"): NO_ALLOWLIST,
    ("verifier", "environment"): NO_SEPARATE,
    ("verifier", "collect"): "collect hooks are not run",
    ("environment", "allowed_hosts"): NO_ALLOWLIST,
    ("environment", "gpus"): "there are no GPUs",
    ("environment", "gpu_types"): "there are no GPUs",
    ("environment", "tpu"): "there are no TPUs",
    ("environment", "mcp_servers"): "MCP servers are not offered to agents",
    ("environment", "skills_dir"): "skills are not offered to agents",
    ("environment", "os"): "only Linux containers are run",
}
"""Keys of the format that change what a task means and that this runner does not act on."""

_MEANINGLESS: Mapping[tuple[str, ...], tuple[object, ...]] = {
    ("environment", "gpus"): (0,),
    ("environment", "os"): ("linux",),
}
"""Values that say what is the case anyway."""


def take_unsupported(document: dict[str, Any]) -> tuple[str, object, str] | None:
    """Remove the unsupported keys that say nothing; give the first that says something: dotted key, value, why."""
    for path, why in _UNSUPPORTED.items():
        table: Any = document
        for part in path[:-1]:
            table = table.get(part)
            if not isinstance(table, dict):
                break
        if not isinstance(table, dict) or path[-1] not in table:
            continue
        value = table.pop(path[-1])
        said = value.lower() if isinstance(value, str) else value
        # An empty [verifier.environment] says something: a separate container.
        empty = path != ("verifier", "environment") and said in ("", [], {})
        harmless = any(type(said) is type(v) and said == v for v in _MEANINGLESS.get(path, ()))
        if not (empty or harmless):
            return ".".join(path), value, why
    return None
