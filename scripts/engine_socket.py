"""Where this machine's container engine listens, asked the way the docker command is asked."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT = Path("/var/run/docker.sock")
_TIMEOUT_SEC = 5


@dataclass(frozen=True)
class Address:
    """An engine's address as a URL, and what named it; `named_by` is empty when nothing did and we looked around."""

    url: str
    named_by: str = ""

    @property
    def path(self) -> Path | None:
        """The Unix socket's path; None for an address of another kind."""
        return Path(self.url.removeprefix("unix://")) if self.url.startswith("unix:///") else None


def find_address() -> Address:
    """Give the engine's address: DOCKER_HOST, else the current docker context, else the first socket that answers.

    Nothing is refused here. Format of contexts: docker's `config.json` and `contexts/meta/<SHA-256 of name>/meta.json`.
    """
    if host := os.environ.get("DOCKER_HOST"):
        return Address(host, "DOCKER_HOST")
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    context = os.environ.get("DOCKER_CONTEXT") or _member(folder / "config.json", "currentContext")
    if context and context != "default":
        name = hashlib.sha256(context.encode()).hexdigest()
        host = _member(folder / "contexts" / "meta" / name / "meta.json", "Endpoints", "docker", "Host")
        if host:
            return Address(host, f"the docker context {context!r}")
    listening = next((each for each in _usual_places() if _asked(each, b"") is not None), DEFAULT)
    return Address(f"unix://{listening}")


def answers(path: Path) -> bool:
    """Say whether an engine answers a ping on the Unix socket (Docker Engine API, `GET /_ping`). Raises nothing."""
    head = _asked(path, b"GET /_ping HTTP/1.0\r\n\r\n")
    return head is not None and re.match(rb"HTTP/1\.[01] 200 ", head) is not None


def _asked(path: Path, request: bytes) -> bytes | None:
    """Give the beginning of the answer to a request, if there is one; None where nothing listens or in time answers."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_TIMEOUT_SEC)
        try:
            client.connect(str(path))
            if not request:
                return b""
            client.sendall(request)
            return client.recv(64)
        except OSError:
            return None


def _usual_places() -> list[Path]:
    """The distribution's engine, a rootless one, Docker Desktop's, Colima's."""
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    home = Path.home()
    return [
        DEFAULT,
        Path(runtime, "docker.sock"),
        home / ".docker" / "run" / "docker.sock",
        home / ".docker" / "desktop" / "docker.sock",
        home / ".colima" / "default" / "docker.sock",
    ]


def _member(file: Path, *keys: str) -> str | None:
    """Give a text inside a JSON file of docker's; None when it is not there, whatever the file holds."""
    try:
        value: Any = json.loads(file.read_bytes())
        for key in keys:
            value = value[key]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return value if isinstance(value, str) else None
