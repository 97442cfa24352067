"""Disclosing one trial of a job, and checking it without the job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from guest.job.record_tree import root_of
from guest.trial.record import write_json
from tests.guest.job.test_summary import record

CHECKOUT = Path(__file__).resolve().parents[2]
RECORDS = [record(f"task-{at}", 1, at % 2) for at in range(5)]


def evalguest(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts", "trial", *map(str, arguments)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    for each in RECORDS:
        write_json(tmp_path / "job" / "trials" / each.trial_id / "record.json", each)
    write_json(tmp_path / "job" / "summary.json", {"records_root": root_of(RECORDS)})
    return tmp_path / "job"


def test_a_trial_is_disclosed_and_checked_alone(job: Path, tmp_path: Path) -> None:
    proved = evalguest("prove", job, "task-3__r1", "-o", tmp_path / "proof.json")
    assert (proved.returncode, proved.stdout) == (0, f"root {root_of(RECORDS)}\n"), proved.stderr
    checked = evalguest("check", tmp_path / "proof.json", "--root-hash", root_of(RECORDS))
    assert checked.returncode == 0, checked.stderr
    assert "task-3__r1 of run 00ff: passed, reward 1" in checked.stdout
    told = evalguest("check", tmp_path / "proof.json", "--root-hash", root_of(RECORDS), "--json")
    assert json.loads(told.stdout) == RECORDS[3].model_dump(mode="json")


def test_an_altered_record_or_another_root_is_refused(job: Path, tmp_path: Path) -> None:
    evalguest("prove", job, "task-2__r1", "-o", tmp_path / "proof.json")
    other = evalguest("check", tmp_path / "proof.json", "--root-hash", "0" * 64)
    assert (other.returncode, other.stdout) == (1, "")
    assert "reason code: proof_wrong" in other.stderr
    text = (tmp_path / "proof.json").read_text()
    (tmp_path / "proof.json").write_text(text.replace('\\"reward\\":0.0', '\\"reward\\":1.0'))
    altered = evalguest("check", tmp_path / "proof.json", "--root-hash", root_of(RECORDS))
    assert altered.returncode == 1
    assert "reason code: proof_wrong" in altered.stderr


def test_a_job_whose_records_were_altered_proves_nothing(job: Path, tmp_path: Path) -> None:
    write_json(job / "trials" / "task-1__r1" / "record.json", RECORDS[1].model_copy(update={"reward": 0.5}))
    proved = evalguest("prove", job, "task-2__r1", "-o", tmp_path / "proof.json")
    assert (proved.returncode, (tmp_path / "proof.json").exists()) == (1, False)
    assert "reason code: job_differs" in proved.stderr


def test_what_is_no_job_no_trial_and_no_root(job: Path, tmp_path: Path) -> None:
    assert evalguest("prove", tmp_path / "none", "x", "-o", tmp_path / "p").returncode == 2
    unknown = evalguest("prove", job, "nobody__r1", "-o", tmp_path / "p")
    assert unknown.returncode == 2
    assert "task-0__r1" in unknown.stderr
    (job / "trials" / "task-1__r1" / "record.json").write_text("{}")
    assert "job_malformed" in evalguest("prove", job, "task-2__r1", "-o", tmp_path / "p").stderr
    (tmp_path / "proof.json").write_text("{")
    assert evalguest("check", tmp_path / "proof.json", "--root-hash", "12").returncode == 2
    assert "proof_malformed" in evalguest("check", tmp_path / "proof.json", "--root-hash", "0" * 64).stderr
