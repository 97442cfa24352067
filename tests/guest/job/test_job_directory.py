"""The directory of a job: one runner at a time, one job, and only results count as finished."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from guest.errors import Refused, UsageFault
from guest.job.job_directory import JobDirectory
from guest.reason import Reason
from guest.trial.record import write_json
from tests.guest.job.test_summary import record

IDENTITY: dict[str, Any] = {"run_id": "00ff", "k": 2, "n_concurrent": 1, "tasks": {"a": {"tree_digest": "0" * 64}}}
KEY = bytes(range(32))
TREES = {"a": "0" * 64}


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    with JobDirectory(tmp_path / "job", resume=False) as directory:
        directory.begin(IDENTITY, KEY)
        assert directory.finished(TREES) == {}
    return tmp_path / "job"


def test_what_was_begun_is_what_is_resumed(begun: Path) -> None:
    with JobDirectory(begun, resume=True) as directory:
        directory.check_same({**IDENTITY, "run_id": "other", "n_concurrent": 7})
        assert (directory.run_id(), directory.probe_key()) == ("00ff", KEY)
    assert (begun / "probe.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"k": 3}, "k 2, this is 3"),
        ({"tasks": {"a": {"tree_digest": "1" * 64}}}, "tasks.a.tree_digest"),
        ({"tasks": {**IDENTITY["tasks"], "b": {}}}, "tasks.b None"),
        ({"runner_version": 2}, "runner_version None"),
    ],
)
def test_another_job_is_not_resumed(begun: Path, change: dict[str, Any], where: str) -> None:
    with JobDirectory(begun, resume=True) as directory, pytest.raises(Refused) as caught:
        directory.check_same({**IDENTITY, **change})
    assert caught.value.reason is Reason.JOB_DIFFERS
    assert where in caught.value.message


def test_another_probe_key_is_another_job(begun: Path) -> None:
    (begun / "probe.key").write_bytes(bytes(32))
    with JobDirectory(begun, resume=True) as directory, pytest.raises(Refused) as caught:
        directory.check_same(IDENTITY)
    assert "probe_key_sha256" in caught.value.message


def test_only_results_are_finished(begun: Path) -> None:
    good = record("a", 1, 1.0)
    write_json(begun / "trials" / "a__r1" / "record.json", good)
    write_json(begun / "trials" / "a__r2" / "record.json", record("a", 2, None))  # its infrastructure failed
    write_json(begun / "trials" / "a__r3" / "record.json", record("a", 4, 1.0))  # of another trial
    write_json(begun / "trials" / "b__r1" / "record.json", record("b", 1, 1.0))  # of no task of this job
    write_json(begun / "trials" / "a__r5" / "state.json", {"state": "agent"})
    (begun / "trials" / "a__r6").mkdir()
    (begun / "trials" / "a__r6" / "record.json").write_text('{"torn')
    with JobDirectory(begun, resume=True) as directory:
        assert directory.finished(TREES) == {"a__r1": good}
    assert [path.name for path in (begun / "trials").iterdir()] == ["a__r1"]


def test_a_record_of_another_task_tree_is_no_result(begun: Path) -> None:
    write_json(begun / "trials" / "a__r1" / "record.json", record("a", 1, 1.0))
    with JobDirectory(begun, resume=True) as directory:
        assert directory.finished({"a": "1" * 64}) == {}


def test_a_directory_is_claimed_by_one_process_at_a_time_and_freed_with_it(begun: Path) -> None:
    code = (
        "import sys, pathlib\nfrom guest.job.job_directory import JobDirectory\n"
        "with JobDirectory(pathlib.Path(sys.argv[1]), resume=True):\n"
        "    print('in', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(begun)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        with pytest.raises(Refused) as caught, JobDirectory(begun, resume=True):
            pass
        assert caught.value.reason is Reason.JOB_BUSY
        assert f"pid {process.pid} boot" in caught.value.message
        process.kill()
    with JobDirectory(begun, resume=True):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 100_000])
def test_a_job_file_out_of_form_is_refused(begun: Path, text: str) -> None:
    (begun / "job.json").write_text(text)
    with JobDirectory(begun, resume=True) as directory, pytest.raises(Refused) as caught:
        directory.run_id()
    assert caught.value.reason is Reason.JOB_MALFORMED


def test_a_run_killed_while_it_began_is_begun_or_resumed(tmp_path: Path) -> None:
    with JobDirectory(tmp_path, resume=False):
        (tmp_path / "probe.key").write_bytes(b"torn")
    with JobDirectory(tmp_path, resume=False) as directory:
        directory.begin(IDENTITY, KEY)
    with JobDirectory(tmp_path, resume=True) as directory:
        assert (directory.probe_key(), directory.finished(TREES)) == (KEY, {})


def test_a_job_is_begun_once_and_only_a_job_is_resumed(begun: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="holds a job already"), JobDirectory(begun, resume=False):
        pass
    with pytest.raises(UsageFault, match="holds no job to resume"), JobDirectory(tmp_path, resume=True):
        pass
