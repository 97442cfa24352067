"""The names of Harbor that agents import, without Harbor; runs in the agent host, given to the shim as text.

`install` makes `harbor.agents.base`, `harbor.environments.base` and what goes with them importable, so that a subclass
of Harbor's `BaseAgent` runs unchanged. Where Harbor itself is installed in the agent host, its own modules are used.
"""

import importlib.util
import logging
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any


@dataclass
class ExecResult:
    """What a command gave."""

    stdout: str | None = None
    stderr: str | None = None
    return_code: int = 0


@dataclass
class AgentContext:
    """What an agent reports while it runs."""

    n_input_tokens: int | None = None
    n_cache_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: float | None = None
    model_usage: dict[str, Any] | None = None
    rollout_details: list[Any] | None = None
    metadata: dict[str, Any] | None = None
    env: dict[str, str] = field(default_factory=dict)

    def is_empty(self) -> bool:
        """Say whether nothing was reported."""
        return all(value is None for name, value in vars(self).items() if name != "env")


class AgentCapabilities:
    """Flags of an agent; nobody reads them here."""

    def __init__(self, **flags: Any) -> None:
        """Keep the flags."""
        self.__dict__.update(flags)


class _Name(str):
    __slots__ = ()

    @property
    def value(self) -> str:
        return str(self)


class _AnyName(type):
    def __getattr__(cls, name: str) -> _Name:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Name(name.lower().replace("_", "-"))


class AgentName(metaclass=_AnyName):
    """Harbor's names of its own agents."""


@dataclass
class AgentInfo:
    """Who an agent says it is."""

    name: str
    version: str
    model_info: object = None


@dataclass
class ModelInfo:
    """Which model an agent says it uses."""

    name: str
    provider: str | None = None


class EnvironmentPaths:
    """Paths inside a task container."""

    logs_dir = PurePosixPath("/logs")
    agent_dir = logs_dir / "agent"
    verifier_dir = logs_dir / "verifier"
    artifacts_dir = logs_dir / "artifacts"
    tests_dir = PurePosixPath("/tests")
    solution_dir = PurePosixPath("/solution")


class BaseAgent:
    """The constructor and the attributes that Harbor gives its agents."""

    SUPPORTS_ATIF = False
    capabilities = AgentCapabilities()

    def __init__(
        self,
        logs_dir: Path,
        model_name: str | None = None,
        logger: logging.Logger | None = None,
        mcp_servers: list[Any] | None = None,
        skills_dir: str | None = None,
        *,
        extra_env: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        """Keep what the agent was constructed with."""
        self.logs_dir = logs_dir
        self.environment_logs_dir = EnvironmentPaths.agent_dir
        self.model_name = model_name
        self.logger = (logger or logging.getLogger("harbor")).getChild(__name__)
        self.mcp_servers = mcp_servers or []
        self.skills_dir = skills_dir
        self.options = options
        self.session_id: str | None = None
        self.context_id: object = None
        self._extra_env = dict(extra_env or {})
        provider, slash, name = (model_name or "").partition("/")
        self._parsed_model_provider = provider if slash else None
        self._parsed_model_name = name if slash else model_name

    @property
    def extra_env(self) -> dict[str, str]:
        """Give the variables the agent was constructed with."""
        return dict(self._extra_env)

    @staticmethod
    def name() -> str:
        """Give the agent's name."""
        return "agent"

    def version(self) -> str | None:
        """Give the agent's version."""
        return None

    def to_agent_info(self) -> AgentInfo:
        """Give who the agent is."""
        model = ModelInfo(self._parsed_model_name or "", self._parsed_model_provider) if self.model_name else None
        return AgentInfo(self.name(), self.version() or "unknown", model)

    @classmethod
    def import_path(cls) -> str:
        """Give where the class is found."""
        return f"{cls.__module__}:{cls.__name__}"

    async def setup(self, environment: Any) -> None:
        """Prepare; by default there is nothing to."""


def install(environment_class: type) -> None:
    """Make the modules importable, unless Harbor is installed."""
    if importlib.util.find_spec("harbor") is not None:
        return
    _module("harbor.agents.base", BaseAgent=BaseAgent)
    _module("harbor.agents.capabilities", AgentCapabilities=AgentCapabilities)
    _module("harbor.environments.base", BaseEnvironment=environment_class, ExecResult=ExecResult)
    _module("harbor.models.agent.context", AgentContext=AgentContext)
    _module("harbor.models.agent.name", AgentName=AgentName)
    _module("harbor.models.trial.paths", EnvironmentPaths=EnvironmentPaths)
    _module("harbor.models.trial.result", AgentInfo=AgentInfo, ModelInfo=ModelInfo)
    _module("harbor.utils.logger", logger=logging.getLogger("harbor"))


def _module(path: str, **members: Any) -> None:
    parts = path.split(".")
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[:length])
        if name not in sys.modules:
            sys.modules[name] = module = types.ModuleType(name)
            module.__path__ = []
            if length > 1:
                setattr(sys.modules[".".join(parts[: length - 1])], parts[length - 1], module)
    vars(sys.modules[path]).update(members)
