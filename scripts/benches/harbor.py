"""`scripts/bench harbor`: Harbor's own Docker environment on the same task directories, for time and for rewards."""

from __future__ import annotations

import datetime
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guest.errors import EnvironmentFault
from guest.reason import Reason
from scripts.benches.figures import Figure
from scripts.benches.harbor_program import VERSION, Harbor, Result
from scripts.benches.trials import run_process
from scripts.benches.trivial_task import PACK, TASK_ID

CHECKOUT = Path(__file__).resolve().parents[2]


def measure_harbor(*, runs: int = 5, ours_a_run: int = 5) -> list[Figure]:
    """Time the trivial task through Harbor and through ours, in turn, after one run that warms up.

    A run of Harbor's takes as long as many trials of ours, so the median of `ours_a_run` trials stands beside it.
    """
    harbor = Harbor()
    theirs: list[dict[str, float]] = []
    ours: list[list[float]] = []
    for number in range(runs + 1):
        _say(f"run {number} of {runs}" if number else "warming up")
        (result,) = harbor.run(PACK, [TASK_ID], "oracle").values()
        own = run_process("one_job", ours_a_run, 1).overheads
        if number:
            theirs.append(stages(result))
            ours.append(own)
    return harbor_figures(theirs, ours)


def harbor_figures(theirs: Sequence[Mapping[str, float]], ours: Sequence[Sequence[float]]) -> list[Figure]:
    """Compare the stages of Harbor's overhead, a mapping for each run, with our overheads beside each run."""
    overheads = [sum(run.values()) for run in theirs]
    ratios = [slow / statistics.median(quick) for slow, quick in zip(overheads, ours, strict=True)]
    return [
        Figure("harbor_overhead_s", "s", overheads, f"Harbor {VERSION}, Docker environment, beyond agent and verifier"),
        Figure("trial_overhead_s", "s", [each for run in ours for each in run], "ours, the same task, in turn"),
        Figure("harbor_to_ours", "ratio", ratios, "run by run; target: at least 25"),
        *(
            Figure(f"harbor_{stage}_s", "s", [run[stage] for run in theirs], "a part of Harbor's overhead")
            for stage in theirs[0]
        ),
    ]


def stages(result: Result) -> dict[str, float]:
    """Give Harbor's seconds beyond its agent's and its verifier's own, stage by stage, from its own time stamps.

    Raises EnvironmentFault for a trial that did not get to its verifier's end.
    """
    agent, verifier = result["agent_execution"], result["verifier"]
    if agent is None or verifier is None:
        words = f"Harbor's trial broke off: {result.get('exception_info')}"
        raise EnvironmentFault(Reason.TOOL_FAILED, words)
    return {
        "before_agent": _seconds(result["started_at"], agent["started_at"]),
        "between": _seconds(agent["finished_at"], verifier["started_at"]),
        "after_verifier": _seconds(verifier["finished_at"], result["finished_at"]),
    }


def compare_rewards(*, as_json: bool) -> int:
    """Run every task of ours with oracle and nop through both; print both rewards; give 1 when any differs."""
    harbor = Harbor()
    cache = CHECKOUT / "task-cache" / "tasks"
    tasks = sorted(path.name for path in cache.iterdir())
    rows: list[dict[str, Any]] = []
    for agent in ("oracle", "nop"):
        _say(f"{len(tasks)} tasks with {agent}, through Harbor and through ours")
        theirs = {name: _reward(result) for name, result in harbor.run(cache, tasks, agent).items()}
        ours = _our_rewards(agent)
        rows += [{"task_id": name, "agent": agent, "harbor": theirs[name], "ours": ours.get(name)} for name in tasks]
    same = all(_agree(row) for row in rows)
    if as_json:
        sys.stdout.write(json.dumps({"schema_version": 1, "same": same, "rewards": rows}, indent=2) + "\n")
    else:
        for row in rows:
            mark = "" if _agree(row) else "  DIFFERENT"
            print(f"{row['task_id']:24} {row['agent']:8} harbor {row['harbor']}  ours {row['ours']}{mark}")
        print("all rewards are the same" if same else "rewards differ")
    return 0 if same else 1


def _agree(row: Mapping[str, Any]) -> bool:
    """Say whether both gave a reward, and the same one."""
    return row["harbor"] is not None and row["harbor"] == row["ours"]


def _our_rewards(agent: str) -> dict[str, float | None]:
    command = [sys.executable, "-P", "-m", "scripts", "dry-run", "--agent", agent, "--json"]
    with tempfile.TemporaryDirectory(prefix="evalguest-bench-") as folder:
        ended = subprocess.run(
            [*command, "--job-dir", f"{folder}/job"], cwd=CHECKOUT, capture_output=True, text=True, check=False
        )
    document: dict[str, Any] = json.loads(ended.stdout or "{}")
    if "tasks" not in document:
        raise EnvironmentFault(Reason.TOOL_FAILED, f"the dry run failed: {ended.stderr.strip()[-2000:]}")
    return {task["task_id"]: task["score"] for task in document["tasks"]}


def _seconds(began: str, ended: str) -> float:
    return (datetime.datetime.fromisoformat(ended) - datetime.datetime.fromisoformat(began)).total_seconds()


def _reward(result: Result) -> float | None:
    verifier = result.get("verifier_result") or {}
    reward: float | None = (verifier.get("rewards") or {}).get("reward")
    return reward


def _say(words: str) -> None:
    sys.stderr.write(f"bench: {words}\n")
