"""Harbor, brought in when absent, and running it on copies of task directories.

Harbor comes from PyPI into a virtual environment of its own, the compose plugin it needs from Debian; both, and what
they write, stay under the cache directory. The plugin builds with the BuildKit inside the engine, which takes base
images that only this machine has. Harbor's mode without network pulls an image and needs a kernel with nftables, so
its copies say `allow_internet = true`; nothing else in them is changed, and no task of ours uses a network.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests

from guest.errors import EnvironmentFault
from guest.reason import Reason
from scripts.apt import run
from scripts.cache_dir import cache_dir

VERSION = "0.26.0"
_COMPOSE_URL = "http://deb.debian.org/debian/pool/main/d/docker-compose/docker-compose_2.26.1-4_{}.deb"
# By what the machine is called: Debian's name of it, and the package's SHA-256.
_COMPOSE = {
    "x86_64": ("amd64", "47681197cb2b1ab88206b42a1a92fc75f50d9530a6322d03494a473eed0408ea"),
    "aarch64": ("arm64", "bbafaa666f3e7fa00ad36f2a8bab889f1c791ca8743d674e7267a3d07203869c"),
}
_COMPOSE_HINT = "install Docker's compose plugin (version 2), and run this again"

Result = dict[str, Any]
"""A trial's result.json, as Harbor writes it."""


class Harbor:
    """Harbor and the compose plugin, installed."""

    def __init__(self) -> None:
        """Install what is missing. Raises EnvironmentFault when it cannot be had."""
        home = cache_dir() / "bench"
        self._program = home / f"harbor-{VERSION}" / "bin" / "harbor"
        self._env = {**os.environ, "HOME": str(home / "home"), "HARBOR_TELEMETRY": "0", "NO_COLOR": "1"}
        self._env["DOCKER_CONFIG"] = str(home / "docker-config")
        (home / "home").mkdir(parents=True, exist_ok=True)
        if shutil.which("docker") is None:
            raise EnvironmentFault(
                Reason.TOOL_MISSING, "Harbor needs Docker's command line", "install docker-cli, and run this again"
            )
        if not self._program.exists():
            _install_harbor(self._program.parents[1])
        if not self._has_compose():
            _install_compose(home / "docker-config" / "cli-plugins" / "docker-compose")
            if not self._has_compose():
                raise EnvironmentFault(Reason.TOOL_FAILED, "Debian's compose plugin does not run here", _COMPOSE_HINT)

    def run(self, pack: Path, tasks: Sequence[str], agent: str) -> dict[str, Result]:
        """Run some tasks of a pack with an agent, one at a time, and give each one's result.

        Raises EnvironmentFault when a task has none.
        """
        with tempfile.TemporaryDirectory(prefix="evalguest-harbor-") as folder:
            for name in tasks:
                copy = Path(folder) / "pack" / name
                shutil.copytree(pack / name, copy)
                definition = copy / "task.toml"
                text = definition.read_text()
                definition.write_text(re.sub(r"(?m)^allow_internet\s*=\s*false", "allow_internet = true", text))
            command = [str(self._program), "run", "-p", f"{folder}/pack", "-a", agent, "-o", f"{folder}/jobs"]
            ended = subprocess.run(
                [*command, "-n", "1", "-q", "-y"],
                env=self._env,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            found = [json.loads(path.read_text()) for path in Path(folder).glob("jobs/*/*/result.json")]
        results = {Path(result["task_id"]["path"]).name: result for result in found}
        if results.keys() != set(tasks):
            words = (ended.stdout + ended.stderr).strip()[-2000:]
            raise EnvironmentFault(Reason.TOOL_FAILED, f"Harbor gave {len(results)} results of {len(tasks)}: {words}")
        return results

    def _has_compose(self) -> bool:
        command = ["docker", "compose", "version"]
        return subprocess.run(command, env=self._env, capture_output=True, check=False).returncode == 0


def _install_harbor(venv: Path) -> None:
    # A version manager's stand-in on PATH may not start; the versions themselves do.
    managed = sorted(map(str, Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python3")))
    python = next((path for name in ("python3.13", "python3.12", *managed) if (path := _real_path(name))), None)
    if python is None:
        raise EnvironmentFault(Reason.TOOL_MISSING, "Harbor needs Python 3.12 or 3.13", "install python3.13")
    _say(f"installing Harbor {VERSION} into {venv}")
    run(python, "-m", "venv", "--clear", str(venv))
    run(str(venv / "bin" / "pip"), "install", "--quiet", f"harbor=={VERSION}")


def _real_path(name: str) -> str | None:
    """Give the real path of a Python that starts, None for one that does not."""
    if shutil.which(name) is None:
        return None
    ended = subprocess.run(
        [name, "-c", "import sys; print(sys._base_executable)"], capture_output=True, text=True, check=False
    )
    return ended.stdout.strip() if ended.returncode == 0 else None


def _install_compose(plugin: Path) -> None:
    """Unpack Debian's compose plugin where a client with this configuration directory finds it."""
    if platform.machine() not in _COMPOSE or shutil.which("dpkg-deb") is None:
        raise EnvironmentFault(Reason.TOOL_MISSING, "`docker compose` does not run", _COMPOSE_HINT)
    architecture, sha256 = _COMPOSE[platform.machine()]
    url = _COMPOSE_URL.format(architecture)
    _say(f"unpacking the compose plugin of {url} into {plugin.parent}")
    try:
        answer = requests.get(url, timeout=(10, 60))
        answer.raise_for_status()
    except requests.RequestException as error:
        raise EnvironmentFault(Reason.NETWORK_UNAVAILABLE, f"cannot fetch {url}: {error}", _COMPOSE_HINT) from error
    found = hashlib.sha256(answer.content).hexdigest()
    if found != sha256:
        raise EnvironmentFault(Reason.LOCK_MISMATCH, f"{url} has SHA-256 {found}, expected {sha256}", _COMPOSE_HINT)
    plugin.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="evalguest-compose-") as folder:
        package = Path(folder) / "compose.deb"
        package.write_bytes(answer.content)
        run("dpkg-deb", "-x", str(package), folder)
        shutil.copy(next(Path(folder).rglob("cli-plugins/docker-compose")), plugin)


def _say(words: str) -> None:
    sys.stderr.write(f"bench: {words}\n")
