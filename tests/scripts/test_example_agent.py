"""The agent that docs/agents.md begins with does what the page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

CHECKOUT = Path(__file__).resolve().parents[2]
SOLVED = ("kv-daemon", "ingest-hooks", "packed-series")


def test_it_solves_three_tasks_without_a_model(tmp_path: Path) -> None:
    [tasks] = re.findall(r"for task in (.*); do", (CHECKOUT / "docs" / "agents.md").read_text())
    assert tuple(tasks.split()) == SOLVED
    agent = tmp_path / "agent"
    shutil.copytree(CHECKOUT / "docs" / "example-agent", agent)
    for task in SOLVED:
        shutil.copytree(CHECKOUT / "task-cache" / "tasks" / task / "solution", agent / "playbooks" / task)
    command = [sys.executable, "-m", "scripts", "dry-run", *SOLVED, "weak-curve-key", "--agent", str(agent), "--json"]
    ended = subprocess.run(
        [*command, "--job-dir", str(tmp_path / "job")], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    scores = {task["task_id"]: task["score"] for task in document["tasks"]}
    assert scores == {**dict.fromkeys(SOLVED, 1.0), "weak-curve-key": 0.0}
    assert document["agent"]["kind"] == "submitted"


def test_an_agent_that_cannot_be_constructed_costs_no_trial(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.mkdir()
    (agent / "agent.py").write_text("raise OSError('broken at import')\nclass Agent: pass\n")
    command = [sys.executable, "-m", "scripts", "dry-run", "weak-curve-key", "--agent", str(agent), "--line"]
    ended = subprocess.run(
        [*command, "--job-dir", str(tmp_path / "job")], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "reason code: agent_load_failed" in ended.stderr
    line = json.loads(ended.stdout.removeprefix("BASE_BENCHMARK_RESULT="))
    assert (line["reason_code"], line["score"]) == ("harbor_submission_code_failed", 0.0)
    assert "broken at import" in (tmp_path / "job" / "agent-construct.log").read_text()
    assert list((tmp_path / "job" / "trials").iterdir()) == []
