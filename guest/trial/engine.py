"""The container engine: how it is reached, what it says about itself, and its errors in our words.

Only a Unix socket is accepted: an engine on a TCP port would let others lean on the machine, and bytes sent to one
could leave it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
import requests
from docker.errors import APIError, DockerException
from pydantic import BaseModel, ConfigDict, Field

from guest.errors import EnvironmentFault, UsageFault
from guest.reason import Reason

DEFAULT_SOCKET = "unix:///var/run/docker.sock"
CALL_TIMEOUT_SEC = 60


class EngineInfo(BaseModel):
    """What the engine's info call says, as far as we use it. Unknown members are the engine's business."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: str = Field(alias="ServerVersion")
    cpus: int = Field(alias="NCPU", gt=0)
    memory_bytes: int = Field(alias="MemTotal", gt=0)
    cgroup_driver: str = Field(alias="CgroupDriver")
    cgroup_version: str = Field(alias="CgroupVersion", default="1")
    storage_driver: str = Field(alias="Driver")
    root_dir: Path = Field(alias="DockerRootDir")


@dataclass(frozen=True)
class Engine:
    """A connected engine: the API client (version negotiated) and what the engine said about itself."""

    api: docker.APIClient
    info: EngineInfo


def engine_address() -> str:
    """Give the engine's Unix socket as a URL, from DOCKER_HOST or the default.

    Raises UsageFault for any other kind of address.
    """
    address = os.environ.get("DOCKER_HOST") or DEFAULT_SOCKET
    if not address.startswith("unix://"):
        raise UsageFault(
            Reason.USAGE,
            f"DOCKER_HOST is {address!r}; only a Unix socket (unix:///path) is accepted",
            "unset DOCKER_HOST, or point it at the engine's Unix socket on this machine",
        )
    return address


def connect(address: str | None = None) -> Engine:
    """Connect to the engine and read its info. Raises EnvironmentFault when none answers, UsageFault for an address."""
    address = address or engine_address()
    try:
        api = docker.APIClient(base_url=address, version="auto", timeout=CALL_TIMEOUT_SEC)
        info = EngineInfo.model_validate(api.info())
    except (DockerException, requests.RequestException) as error:
        raise EnvironmentFault(
            Reason.ENGINE_UNAVAILABLE,
            f"no container engine answers on {address}: {error}",
            "start Docker, or run ./scripts/dry-run as root on Debian or Ubuntu, which installs and starts it",
        ) from error
    return Engine(api, info)


def answers(engine: Engine) -> bool:
    """Say whether the engine itself answers: asked for nothing of a container, which could be what hangs."""
    try:
        with engine_call("reach the engine"):
            return bool(engine.api.ping())
    except EnvironmentFault:
        return False


@contextmanager
def engine_call(what: str) -> Iterator[None]:
    """Turn the client library's errors, raised inside, into EnvironmentFault. `what` completes "could not …"."""
    try:
        yield
    except APIError as error:
        words = str(error.explanation or error)
        raise EnvironmentFault(Reason.ENGINE_FAULT, f"could not {what}: {words}") from error
    except requests.Timeout as error:
        raise EnvironmentFault(Reason.ENGINE_TIMEOUT, f"could not {what}: no answer in time ({error})") from error
    except (DockerException, requests.RequestException, OSError) as error:
        raise EnvironmentFault(Reason.ENGINE_FAULT, f"could not {what}: {error}") from error
