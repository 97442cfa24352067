"""Real registries on this machine for tests: Debian's docker-registry, and ones that lie or never answer."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest
import requests

CONFIG = """
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {root}}}
  delete: {{enabled: true}}
http: {{addr: "127.0.0.1:{port}"}}
"""
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@dataclass(frozen=True)
class Registry:
    """A running registry. `host` is how the engine names it; images of it are `{host}/name:tag`."""

    host: str

    def digest_of(self, repository: str, tag: str) -> str | None:
        """Ask the registry itself, past the engine; None when it has no such tag."""
        url = f"http://{self.host}/v2/{repository}/manifests/{tag}"
        answer = requests.head(url, headers={"Accept": MANIFEST}, timeout=10)
        return answer.headers["Docker-Content-Digest"] if answer.ok else None

    def manifest(self, repository: str, reference: str) -> tuple[str, bytes]:
        """Give a manifest's media type and bytes."""
        url = f"http://{self.host}/v2/{repository}/manifests/{reference}"
        answer = requests.get(url, headers={"Accept": MANIFEST}, timeout=10)
        answer.raise_for_status()
        return answer.headers["Content-Type"], answer.content


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_registry(directory: Path) -> Iterator[Registry]:
    """Run docker-registry with its data in `directory`. Fails the test, never skips it, when it is not installed."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.fail("docker-registry is not installed: apt-get install docker-registry (./scripts/test does, as root)")
    port = free_port()
    config = directory / "registry.yml"
    config.write_text(CONFIG.format(root=directory / "registry", port=port))
    with (directory / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(config)], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(requests.RequestException):
                if requests.get(f"http://127.0.0.1:{port}/v2/", timeout=2).ok:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"docker-registry did not start: {(directory / 'registry.log').read_text()}")
            time.sleep(0.05)
        yield Registry(f"localhost:{port}")
    finally:
        process.terminate()
        process.wait(10)


@dataclass
class FakeRegistry:
    """A registry of one answer a path, which counts what it is asked; a path without an answer is a 404."""

    answers: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    host: str = ""
    silent: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    """Run a registry that serves `answers` (path to content type and body); while `silent` is set it never answers."""
    fake = FakeRegistry()
    ended = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked.append(self.path)
            while fake.silent.is_set() and not ended.wait(0.05):
                pass
            kind, body = fake.answers.get(self.path, ("", b""))
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind or "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the library's name

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.host = f"localhost:{server.server_port}"
    fake.answers["/v2/"] = ("application/json", b"{}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


def push(api: docker.APIClient, registry: Registry, repository: str, tag: str, image_id: str) -> str:
    """Push an image and give the digest that the registry itself reports."""
    name = f"{registry.host}/{repository}"
    assert api.tag(image_id, name, tag)
    said = [item for item in api.push(name, tag=tag, stream=True, decode=True) if "error" in item]
    assert said == []
    digest = registry.digest_of(repository, tag)
    assert digest is not None
    return digest
