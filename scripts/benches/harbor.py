"""`scripts/bench harbor`: Harbor's own Docker environment on the same task directories, for time and for rewards.

Harbor comes from PyPI into a virtual environment of its own, the compose plugin it needs from Debian, both under the
cache directory. Harbor's no-network mode needs an image from a registry and a kernel with nftables, so it is given
copies of the tasks with `allow_internet = true`; nothing else in them is changed, and no task of ours uses a network.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guest.errors import EnvironmentFault
from guest.reason import Reason
from scripts.benches.figures import Figure
from scripts.benches.trials import run_one_job
from scripts.cache_dir import cache_dir

CHECKOUT = Path(__file__).resolve().parents[2]
VERSION = "0.26.0"
PLUGIN_URL = "http://deb.debian.org/debian/pool/main/d/docker-compose/docker-compose_2.26.1-4_amd64.deb"


def measure_harbor(*, runs: int = 5) -> list[Figure]:
    """Time the trivial task through Harbor and through ours, in turn, `runs` times each."""
    harbor = Harbor()
    theirs: list[float] = []
    ours: list[float] = []
    for number in range(runs):
        _say(f"run {number + 1} of {runs}")
        (result,) = harbor.run(CHECKOUT / "tests" / "packs" / "smoke", ["trivial"], "oracle").values()
        theirs.append(_overhead(result))
        ours += run_one_job(1, 1)["overheads"]
    ratios = [slow / quick for slow, quick in zip(theirs, ours, strict=True)]
    return [
        Figure("harbor_overhead_s", "s", theirs, f"Harbor {VERSION}, Docker environment, beyond agent and verifier"),
        Figure("trial_overhead_s", "s", ours, "ours, the same task, alternating"),
        Figure("harbor_to_ours", "ratio", ratios, "run by run; target: at least 25"),
    ]


def compare_rewards(*, as_json: bool) -> int:
    """Run every task of ours with oracle and nop through both; print both rewards; give 1 when any differs."""
    harbor = Harbor()
    cache = CHECKOUT / "task-cache" / "tasks"
    tasks = sorted(path.name for path in cache.iterdir())
    rows = []
    for agent in ("oracle", "nop"):
        _say(f"{len(tasks)} tasks with {agent}, through Harbor and through ours")
        theirs = {name: _reward(result) for name, result in harbor.run(cache, tasks, agent).items()}
        ours = _our_rewards(agent)
        rows += [
            {"task_id": name, "agent": agent, "harbor": theirs.get(name), "ours": ours.get(name)} for name in tasks
        ]
    same = all(row["harbor"] is not None and row["harbor"] == row["ours"] for row in rows)
    if as_json:
        sys.stdout.write(json.dumps({"schema_version": 1, "same": same, "rewards": rows}, indent=2) + "\n")
    else:
        for row in rows:
            mark = "" if row["harbor"] == row["ours"] else "  DIFFERENT"
            print(f"{row['task_id']:24} {row['agent']:8} harbor {row['harbor']}  ours {row['ours']}{mark}")
        print("all rewards are the same" if same else "rewards differ")
    return 0 if same else 1


class Harbor:
    """Harbor and the compose plugin, installed when absent."""

    def __init__(self) -> None:
        """Install what is missing. Raises EnvironmentFault when it cannot be had."""
        home = cache_dir() / "bench"
        self._program = home / f"harbor-{VERSION}" / "bin" / "harbor"
        self._env = {**os.environ, "HOME": str(home / "home"), "HARBOR_TELEMETRY": "0", "NO_COLOR": "1"}
        (home / "home").mkdir(parents=True, exist_ok=True)
        if not self._program.exists():
            _install_harbor(self._program.parents[1])
        if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0:
            self._env["DOCKER_CONFIG"] = str(_install_compose(home / "docker-config"))

    def run(self, pack: Path, tasks: Sequence[str], agent: str) -> dict[str, dict[str, Any]]:
        """Run some tasks of a pack with an agent, one at a time, and give each one's result document."""
        with tempfile.TemporaryDirectory(prefix="evalguest-harbor-") as folder:
            for name in tasks:
                copy = Path(folder) / "pack" / name
                shutil.copytree(pack / name, copy)
                definition = copy / "task.toml"
                text = definition.read_text()
                definition.write_text(re.sub(r"allow_internet\s*=\s*false", "allow_internet = true", text))
            command = [str(self._program), "run", "-p", f"{folder}/pack", "-a", agent, "-o", f"{folder}/jobs"]
            ended = subprocess.run(
                [*command, "-n", "1", "-q", "-y"],
                env=self._env,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            results = [json.loads(path.read_text()) for path in Path(folder).glob("jobs/*/*/result.json")]
        if len(results) != len(tasks):
            words = (ended.stdout + ended.stderr)[-2000:]
            raise EnvironmentFault(Reason.TOOL_FAILED, f"Harbor gave {len(results)} results of {len(tasks)}: {words}")
        return {Path(result["task_id"]["path"]).name: result for result in results}


def _install_harbor(venv: Path) -> None:
    # A version manager's stand-in on PATH may not start; the versions themselves do.
    managed = sorted(map(str, Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python3")))
    python = next((path for name in ("python3.13", "python3.12", *managed) if (path := _runs(name))), None)
    if python is None:
        raise EnvironmentFault(Reason.TOOL_MISSING, "Harbor needs Python 3.12 or later", "install python3.13")
    _say(f"installing Harbor {VERSION} into {venv}")
    subprocess.run([python, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", f"harbor=={VERSION}"], check=True)


def _runs(name: str) -> str | None:
    """Give the real path of a Python that starts; a version manager's stand-in may not."""
    if shutil.which(name) is None:
        return None
    ended = subprocess.run(
        [name, "-c", "import sys; print(sys._base_executable)"], capture_output=True, text=True, check=False
    )
    return ended.stdout.strip() if ended.returncode == 0 else None


def _install_compose(config: Path) -> Path:
    """Unpack Debian's compose plugin where a client with this configuration directory finds it."""
    plugin = config / "cli-plugins" / "docker-compose"
    if not plugin.exists():
        _say(f"unpacking the compose plugin into {config}")
        plugin.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "compose.deb"
            subprocess.run(["curl", "--fail", "--silent", "--output", package, PLUGIN_URL], check=True)
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
            shutil.copy(next(Path(folder).rglob("cli-plugins/docker-compose")), plugin)
    return config


def _our_rewards(agent: str) -> dict[str, float | None]:
    command = [sys.executable, "-m", "scripts", "dry-run", "--agent", agent, "--json"]
    with tempfile.TemporaryDirectory(prefix="evalguest-bench-") as folder:
        ended = subprocess.run(
            [*command, "--job-dir", f"{folder}/job"], cwd=CHECKOUT, capture_output=True, text=True, check=False
        )
    return {task["task_id"]: task["score"] for task in json.loads(ended.stdout)["tasks"]}


def _reward(result: dict[str, Any]) -> float | None:
    verifier = result.get("verifier_result") or {}
    reward: float | None = (verifier.get("rewards") or {}).get("reward")
    return reward


def _overhead(result: dict[str, Any]) -> float:
    """Give the trial's seconds beyond its agent's and its verifier's own."""
    return _seconds(result) - _seconds(result["agent_execution"]) - _seconds(result["verifier"])


def _seconds(phase: dict[str, Any]) -> float:
    began, ended = (datetime.datetime.fromisoformat(phase[name]) for name in ("started_at", "finished_at"))
    return (ended - began).total_seconds()


def _say(words: str) -> None:
    sys.stderr.write(f"bench: {words}\n")
