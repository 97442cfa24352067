"""Small task packs as strangers write them, made on disk for one test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LEGACY_TOML = """
version = "1.0"

[metadata]
author_name = "Somebody"
difficulty = "easy"
tags = ["files"]

[verifier]
timeout_sec = 120.0

[agent]
timeout_sec = 60.0

[environment]
build_timeout_sec = 300.0
docker_image = "example/legacy:20250101"
cpus = 2
memory = "2G"
storage = "10G"
allow_internet = true
"""

MODERN_TOML = """
schema_version = "1.4"
artifacts = []

[task]
name = "someone/modern"
description = "Write a file."
keywords = ["files"]
authors = [{ name = "Somebody", email = "somebody@example.org" }]

[agent]
timeout_sec = 90
user = "worker"
env = { EDITOR = "ed" }

[verifier]
timeout_sec = 45.5
user = 0
environment_mode = "shared"
[verifier.env]
MODE = "${MODE:-strict}"

[solution.env]
DEBIAN_FRONTEND = "noninteractive"

[environment]
network_mode = "no-network"
cpus = 0.5
memory_mb = 512
storage_mb = 1024
gpus = 0
os = "linux"
mcp_servers = []
workdir = "/srv/app"
env = { TZ = "UTC" }

[environment.healthcheck]
command = "test -e /ready"
interval_sec = 1
retries = 5
"""


def task_files(toml: str, **more: bytes) -> dict[str, bytes]:
    """A whole task; `more` adds or replaces files (`__` for `/`, and `_dot_` for a dot)."""
    files = {
        "task.toml": toml.encode(),
        "instruction.md": b"Write 'hello' into /srv/app/out.txt.\n",
        "environment/Dockerfile": b"FROM debian:13\nWORKDIR /srv/app\n",
        "solution/solve.sh": b"#!/bin/sh\necho hello > /srv/app/out.txt\n",
        "tests/test.sh": b"#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
    }
    return files | {name.replace("__", "/").replace("_dot_", "."): data for name, data in more.items()}


def write_tree(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below `root`."""
    for path, data in files.items():
        full = root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(data)
    return root


def write_pack(root: Path) -> Path:
    """A pack of two tasks of different schema versions directly under its root, with the clutter of a repository."""
    write_tree(root / "legacy", task_files(LEGACY_TOML))
    write_tree(root / "modern", task_files(MODERN_TOML))
    write_tree(root, {"README.md": b"# pack\n", ".github/workflows/ci.yml": b"on: push\n", "docs/a.md": b"text\n"})
    return root
