"""The dry-run and cleanup commands as a user runs them: their output, exit codes, and what is left when they die."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from guest.trial.engine import Engine
from tests.tasks_made import make_task, write_task

pytestmark = pytest.mark.engine

CHECKOUT = Path(__file__).resolve().parents[2]
EVALGUEST = [sys.executable, "-m", "scripts"]
REWARD = "/logs/verifier/reward.txt"


@pytest.fixture
def cache(tmp_path: Path, base_image: str) -> Path:
    """A pack of small tasks on the base image."""
    root = tmp_path / "pack"
    dockerfile = f"FROM {base_image}\nWORKDIR /srv\n"
    for task in (
        make_task("fails", test=f"echo 0 > {REWARD}", dockerfile=dockerfile),
        make_task("passes", test=f"echo 1 > {REWARD}", dockerfile=dockerfile),
        make_task("sleeps", solve="sleep 1000", test=f"echo 1 > {REWARD}", dockerfile=dockerfile),
        make_task("verifies", test="sleep 1000", dockerfile=dockerfile),
        make_task(
            "waits", toml='[environment.healthcheck]\ncommand = "false"\nretries = 1000\n', dockerfile=dockerfile
        ),
    ):
        write_task(root, task)
    return root


def evalguest(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*EVALGUEST, *map(str, arguments)], cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=120
    )


def standing(engine: Engine, run_id: str) -> list[str]:
    wanted = {"label": f"evalguest={run_id}"}
    return [
        *(row["Id"] for row in engine.api.containers(all=True, filters=wanted)),
        *(row["Id"] for row in engine.api.networks(filters=wanted)),
        *(row["Name"] for row in engine.api.volumes(filters=wanted)["Volumes"] or []),
        *(str(path) for path in Path("/sys/fs/cgroup").glob(f"*/evalguest_{run_id}_*")),
    ]


def test_json_is_one_document_of_the_promised_shape(cache: Path, tmp_path: Path, engine: Engine) -> None:
    job_dir = tmp_path / "job"
    ended = evalguest("dry-run", "passes", "fails", "--cache", cache, "--json", "-k", "2", "--job-dir", job_dir)
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    assert document == json.loads((job_dir / "summary.json").read_text())
    assert set(document) == {
        *("schema_version", "job_dir", "run_id", "attestation", "agent", "k", "n_concurrent", "tasks"),
        *("job_score", "passed_tasks", "total_tasks", "unscored_tasks", "score_record", "scores_digest"),
        *("records_root", "probe_key"),
    }
    assert (document["attestation"], document["agent"]) == ("off", {"kind": "oracle", "sha256": None})
    assert (document["job_score"], document["passed_tasks"], document["total_tasks"]) == (0.5, 1, 2)
    task = document["tasks"][1]
    assert (task["task_id"], task["score"], len(task["trials"])) == ("passes", 1.0, 2)
    trial = task["trials"][0]
    assert {"trial_id", "outcome", "reason_code", "reward", "cpu", "wall"} <= set(trial)
    assert set(trial["cpu"]) == {"agent_sec", "verifier_sec", "source"}
    assert set(trial["wall"]) == {"agent_sec", "verifier_sec", "overhead_sec"}
    assert "passes__r1: passed" in ended.stderr
    assert standing(engine, document["run_id"]) == []


def test_the_table_names_each_task_and_the_score(cache: Path, tmp_path: Path) -> None:
    ended = evalguest("dry-run", "passes", "fails", "--cache", cache, "--job-dir", tmp_path / "job")
    lines = ended.stdout.splitlines()
    assert lines[0].split() == ["task", "outcome", "reward", "CPU", "s", "wall", "s"]
    assert lines[1].split()[:3] == ["fails", "failed", "0"]
    assert lines[2].split()[:3] == ["passes", "passed", "1"]
    assert "job score 0.5000, 1 of 2 tasks passed" in ended.stdout


PREFIX = "BASE_BENCHMARK_RESULT="


def result_line(stdout: str) -> dict[str, Any]:
    """The one line that stdout must be."""
    [line] = stdout.splitlines()
    assert line.startswith(PREFIX)
    assert "execution_proof" not in line
    document: dict[str, Any] = json.loads(line.removeprefix(PREFIX))
    return document


def test_the_line_is_the_unattested_result_and_all_of_stdout(cache: Path, tmp_path: Path) -> None:
    ended = evalguest("dry-run", "passes", "fails", "--cache", cache, "--line", "--job-dir", tmp_path / "job")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == (
        PREFIX + '{"reason_code": null, "resolved": 1, "score": 0.5, "status": "completed", "total": 2}\n'
    )
    summary = json.loads((tmp_path / "job" / "summary.json").read_text())
    assert f"score record sha256 {summary['scores_digest']}" in ended.stderr


def test_the_line_of_a_job_without_a_score_is_fail_closed(cache: Path, tmp_path: Path) -> None:
    write_task(cache, make_task("homeless", toml='docker_image = "127.0.0.1:1/nowhere:1"\n'))
    (cache / "homeless" / "environment" / "Dockerfile").unlink()
    ended = evalguest("dry-run", "homeless", "passes", "--cache", cache, "--line", "--job-dir", tmp_path / "job")
    assert ended.returncode == 1
    line = result_line(ended.stdout)
    assert (line["status"], line["score"], line["resolved"], line["total"]) == ("failed", 0.0, 0, 2)
    assert (line["reason_code"], line["failure_stage"]) == ("terminal_bench_failed", "job")
    assert line["failure_class"] == "ImageUnavailable"
    assert line["failure_detail"].startswith("homeless: ")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "stage", "kind", "total"),
    [
        (("nowhere", "passes"), 1, "preflight_tasks", "TaskUnknown", 2),
        (("passes", "--agent", "no/such/agent"), 2, "cli", "Usage", 1),
        (("passes", "--fail-under", "7"), 2, "cli", "Usage", 1),
    ],
)
def test_the_line_of_what_never_ran_is_fail_closed(
    arguments: tuple[str, ...], exit_code: int, stage: str, kind: str, total: int, cache: Path, tmp_path: Path
) -> None:
    ended = evalguest("dry-run", *arguments, "--cache", cache, "--line", "--job-dir", tmp_path / "job")
    assert ended.returncode == exit_code
    line = result_line(ended.stdout)
    assert (line["failure_stage"], line["failure_class"], line["total"]) == (stage, kind, total)
    assert (line["status"], line["score"], line["resolved"]) == ("failed", 0.0, 0)


def test_the_line_of_a_stopped_run_says_cancelled(cache: Path, tmp_path: Path) -> None:
    process, _ = start_and_wait(cache, tmp_path / "job", "sleeps", "agent", "--line")
    process.send_signal(signal.SIGTERM)
    stdout, _ = process.communicate(timeout=60)
    line = result_line(stdout)
    assert (line["reason_code"], line["status"], line["score"]) == ("harbor_cancelled_error", "failed", 0.0)
    assert not any(name.startswith("failure_") for name in line)


def test_an_agent_that_prints_a_line_does_not_reach_stdout(cache: Path, tmp_path: Path, base_image: str) -> None:
    forged = PREFIX + '{"reason_code": null, "resolved": 1, "score": 1.0, "status": "completed", "total": 1}'
    say = f"echo '{forged}'; echo '{forged}' >&2"
    loud = make_task(
        "loud", solve=say, test=f"{say}; echo 0 > {REWARD}", dockerfile=f"FROM {base_image}\nWORKDIR /srv\n"
    )
    write_task(cache, loud)
    ended = evalguest("dry-run", "loud", "--cache", cache, "--line", "--job-dir", tmp_path / "job")
    assert result_line(ended.stdout)["score"] == 0.0
    assert PREFIX not in ended.stderr


def test_the_line_and_the_document_do_not_share_stdout(cache: Path, tmp_path: Path) -> None:
    ended = evalguest("dry-run", "passes", "--cache", cache, "--line", "--json", "--job-dir", tmp_path / "job")
    assert ended.returncode == 2
    assert PREFIX not in ended.stdout
    assert not (tmp_path / "job").exists()


def test_fail_under(cache: Path, tmp_path: Path) -> None:
    common = ("dry-run", "passes", "fails", "--cache", cache)
    assert evalguest(*common, "--fail-under", "0.5", "--job-dir", tmp_path / "a").returncode == 0
    assert evalguest(*common, "--fail-under", "0.51", "--job-dir", tmp_path / "b").returncode == 1


def test_a_task_whose_image_cannot_be_had_leaves_no_job_score(cache: Path, tmp_path: Path) -> None:
    toml = 'docker_image = "127.0.0.1:1/nowhere:1"\n'
    lost = make_task("lost", toml=toml)
    write_task(cache, lost)
    (cache / "lost" / "environment" / "Dockerfile").unlink()
    ended = evalguest("dry-run", "passes", "lost", "--cache", cache, "--json", "--job-dir", tmp_path / "job")
    assert ended.returncode == 1
    document = json.loads(ended.stdout)
    assert document["job_score"] is None
    assert document["unscored_tasks"] == ["lost"]
    by_id = {task["task_id"]: task for task in document["tasks"]}
    assert by_id["passes"]["score"] == 1.0
    assert by_id["lost"]["trials"][0]["outcome"] == "infra_error"
    assert by_id["lost"]["trials"][0]["reason_code"] == "image_unavailable"
    assert "127.0.0.1:1" in by_id["lost"]["trials"][0]["message"]
    assert "lost" in ended.stderr


def test_what_is_unsupported_is_refused_before_any_container_starts(cache: Path, tmp_path: Path) -> None:
    write_task(cache, make_task("composed", files={"environment/other.txt": ""}))
    (cache / "composed" / "environment" / "docker-compose.yaml").write_text("services: {}\n")
    ended = evalguest("dry-run", "--cache", cache, "--job-dir", tmp_path / "job")
    assert ended.returncode == 1
    assert "docker-compose.yaml" in ended.stderr
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    "arguments",
    [("--agent", "nobody"), ("-k", "0"), ("--fail-under", "2"), ("--cache", "/no/such/place"), ("--budgets", "/none")],
)
def test_usage_errors(cache: Path, tmp_path: Path, arguments: tuple[str, str]) -> None:
    ended = evalguest("dry-run", "passes", "--cache", cache, "--job-dir", tmp_path / "job", *arguments)
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert not (tmp_path / "job").exists()


def test_a_job_directory_that_cannot_be_made(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nothing")):
        ended = evalguest("dry-run", "passes", "--cache", cache, "--job-dir", place)
        assert ended.returncode == 2, ended.stderr
        assert f"{place} cannot be made" in ended.stderr
        assert "Traceback" not in ended.stderr
    assert (tmp_path / "file").read_text() == "kept"


def test_the_oracle_needs_a_solution(cache: Path, tmp_path: Path) -> None:
    (cache / "passes" / "solution" / "solve.sh").unlink()
    ended = evalguest("dry-run", "passes", "--cache", cache, "--job-dir", tmp_path / "job")
    assert ended.returncode == 1
    assert "no solution/solve.sh, which --agent oracle runs: passes" in ended.stderr
    assert not (tmp_path / "job").exists()
    nop = evalguest("dry-run", "passes", "--cache", cache, "--job-dir", tmp_path / "job", "--agent", "nop")
    assert nop.returncode == 0, nop.stderr


def start_and_wait(
    cache: Path, job_dir: Path, task: str, state: str, *options: str
) -> tuple[subprocess.Popen[str], str]:
    """Start a dry run and wait until its trial has entered a state; give the process and the run id."""
    process = subprocess.Popen(
        [*EVALGUEST, "dry-run", task, "--cache", str(cache), "--job-dir", str(job_dir), *options],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    path = job_dir / "trials" / f"{task}__r1" / "state.json"
    while not path.exists() or json.loads(path.read_text())["state"] != state:
        assert time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)
    return process, json.loads((job_dir / "job.json").read_text())["run_id"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_cleanly(cache: Path, tmp_path: Path, engine: Engine, number: signal.Signals) -> None:
    process, run_id = start_and_wait(cache, tmp_path / "job", "sleeps", "agent")
    assert standing(engine, run_id) != []
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert stdout == ""
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert standing(engine, run_id) == []


@pytest.mark.parametrize(("task", "state"), [("waits", "starting"), ("sleeps", "agent"), ("verifies", "verifying")])
def test_cleanup_removes_what_a_killed_run_left(
    cache: Path, tmp_path: Path, engine: Engine, task: str, state: str
) -> None:
    process, run_id = start_and_wait(cache, tmp_path / "job", task, state)
    process.kill()
    process.communicate()
    ended = evalguest("cleanup", "--json")
    assert ended.returncode == 0, ended.stderr
    assert standing(engine, run_id) == []
    assert run_id in {run["run_id"] for run in json.loads(ended.stdout)["removed"]}


def test_the_next_run_sweeps_as_well(cache: Path, tmp_path: Path, engine: Engine) -> None:
    process, run_id = start_and_wait(cache, tmp_path / "job", "sleeps", "agent")
    process.kill()
    process.communicate()
    ended = evalguest("dry-run", "passes", "--cache", cache, "--job-dir", tmp_path / "next")
    assert ended.returncode == 0, ended.stderr
    assert standing(engine, run_id) == []


def resumable(cache: Path, base_image: str) -> None:
    """A pack whose second task is slow in every phase."""
    slow = make_task(
        "slow",
        toml='[environment.healthcheck]\ncommand = "sleep 2"\n',
        solve="sleep 2",
        test=f"sleep 2; echo 1 > {REWARD}",
        dockerfile=f"FROM {base_image}\nWORKDIR /srv\n",
    )
    write_task(cache, slow)


@pytest.mark.parametrize("state", ["starting", "agent", "verifying"])
def test_a_killed_job_goes_on_where_it_was(
    cache: Path, tmp_path: Path, base_image: str, engine: Engine, state: str
) -> None:
    resumable(cache, base_image)
    job = tmp_path / "job"
    arguments = ("dry-run", "passes", "slow", "--cache", cache, "-n", "1", "--job-dir", job)
    process = subprocess.Popen(
        [*EVALGUEST, *map(str, arguments)], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    path = job / "trials" / "slow__r1" / "state.json"
    deadline = time.monotonic() + 60
    while not path.exists() or json.loads(path.read_text())["state"] != state:
        assert time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)
    process.kill()
    process.communicate()
    kept = (job / "trials" / "passes__r1" / "record.json").read_bytes()
    with (job / "events.ndjson").open("a") as events:
        events.write('{"seq": 7, "torn')
    ended = evalguest(*arguments, "--resume", "--json")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert [(task["task_id"], task["score"], len(task["trials"])) for task in document["tasks"]] == [
        ("passes", 1.0, 1),
        ("slow", 1.0, 1),
    ]
    assert (job / "trials" / "passes__r1" / "record.json").read_bytes() == kept
    assert document["run_id"] == json.loads((job / "job.json").read_text())["run_id"]
    lines = (job / "events.ndjson").read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert sum(json.loads(line)["state"] == "recorded" for line in lines) == 2
    assert standing(engine, document["run_id"]) == []


def test_a_finished_job_is_told_again_and_another_is_not_taken_for_it(cache: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    first = evalguest("dry-run", "passes", "--cache", cache, "--job-dir", job, "--json")
    again = evalguest("dry-run", "passes", "--cache", cache, "--job-dir", job, "--json", "--resume")
    assert (again.returncode, json.loads(again.stdout)) == (0, json.loads(first.stdout))
    for change, words in (
        (("passes", "fails"), "tasks.fails"),
        (("passes", "-k", "2"), "with k 1, this is 2"),
        (("passes", "--agent", "nop"), "agent.kind 'oracle', this is 'nop'"),
    ):
        other = evalguest("dry-run", *change, "--cache", cache, "--job-dir", job, "--resume")
        assert other.returncode == 1
        assert "reason code: job_differs" in other.stderr
        assert words in other.stderr
    (cache / "passes" / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt; true\n")
    other = evalguest("dry-run", "passes", "--cache", cache, "--job-dir", job, "--resume")
    assert "tasks.passes." in other.stderr


def test_two_runs_in_one_directory(cache: Path, tmp_path: Path) -> None:
    process, _ = start_and_wait(cache, tmp_path / "job", "sleeps", "agent")
    second = evalguest("dry-run", "sleeps", "--cache", cache, "--job-dir", tmp_path / "job", "--resume")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert second.returncode == 1
    assert "reason code: job_busy" in second.stderr
    assert f"pid {process.pid} boot" in second.stderr


def test_resuming_needs_a_job(cache: Path, tmp_path: Path) -> None:
    for arguments in (("--resume",), ("--resume", "--job-dir", tmp_path / "none")):
        ended = evalguest("dry-run", "passes", "--cache", cache, *arguments)
        assert ended.returncode == 2
    assert not (tmp_path / "none").exists()


def test_cleanup_spares_a_living_run(cache: Path, tmp_path: Path, engine: Engine) -> None:
    process, run_id = start_and_wait(cache, tmp_path / "job", "sleeps", "agent")
    before = standing(engine, run_id)
    assert evalguest("cleanup").returncode == 0
    assert standing(engine, run_id) == before
    process.terminate()
    process.communicate(timeout=30)
