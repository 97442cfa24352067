"""The packs of smallest tasks end as the table beside them says, run as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

CHECKOUT = Path(__file__).resolve().parents[2]
PACKS = CHECKOUT / "tests" / "packs"
# What a cell of the table starts with, and the (outcome, reason, reward) it stands for.
CELLS = {
    "passed, 1": ("passed", None, 1.0),
    "failed, 0.5": ("failed", None, 0.5),
    "reward_error (`reward_missing`), 0": ("reward_error", "reward_missing", 0.0),
    "reward_error (`reward_ambiguous`), 0": ("reward_error", "reward_ambiguous", 0.0),
    "agent_timeout, 0, no verifier": ("agent_timeout", "agent_timeout", 0.0),
    "verifier_timeout, 0": ("verifier_timeout", "verifier_timeout", 0.0),
    "agent_error (`container_ended`), 0": ("agent_error", "container_ended", 0.0),
    "infra_error (`healthcheck_failed`), no reward, no agent": ("infra_error", "healthcheck_failed", None),
}
Ending = tuple[str, str | None, float | None]


def table(pack: str, agent: str) -> dict[str, Ending]:
    rows = {}
    for line in (PACKS / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == pack:
            _, task, _, oracle, nop = cells
            cell = {"oracle": oracle, "nop": {"": "failed, 0", "the same": oracle}.get(nop, nop)}[agent]
            rows[task.strip("`")] = ("failed", None, 0.0) if cell == "failed, 0" else CELLS[cell]
    return rows


@pytest.mark.parametrize("agent", ["oracle", "nop"])
@pytest.mark.parametrize("pack", ["smoke", "odd"])
def test_a_pack_ends_as_its_table_says(pack: str, agent: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts", "dry-run", "--cache", str(PACKS / pack), "--agent", agent]
    ended = subprocess.run(
        [*command, "--json", "--job-dir", str(tmp_path / "job")],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    document = json.loads(ended.stdout)
    found = {
        task["task_id"]: (trial["outcome"], trial["reason_code"], trial["reward"])
        for task in document["tasks"]
        for trial in task["trials"]
    }
    wanted = table(pack, agent)
    assert set(wanted) == {path.name for path in (PACKS / pack).iterdir()}
    assert found == wanted
    assert ended.returncode == (1 if pack == "odd" else 0), ended.stderr
    assert document["job_score"] is None if pack == "odd" else document["job_score"] is not None
