"""The benches' arithmetic, and that a bench runs and prints its promised shape; never how quick anything is."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from guest.errors import EnvironmentFault
from guest.wire.result_request import parse_result_body
from scripts.benches.calls import OUTPUT_WAIT, call_kind
from scripts.benches.figures import Figure, print_figures
from scripts.benches.harbor import _agree, harbor_figures, stages
from scripts.benches.one_job import Measured
from scripts.benches.trials import call_figures, fleet_figures, own_cpu_seconds, run_process, serial_figures
from scripts.benches.wire import BODY_BYTES, measure_wire, result_of

CHECKOUT = Path(__file__).resolve().parents[2]


def measured(overheads: list[float], *, seconds: float = 1.0, calls: dict[str, list[float]] | None = None) -> Measured:
    return Measured(seconds, overheads, [each + 0.5 for each in overheads], 50.0, calls or {})


def medians(figures: list[Figure]) -> dict[str, object]:
    return {figure.name: figure.row()["median"] for figure in figures}


def test_a_row_has_median_and_range() -> None:
    assert Figure("x", "s", [3.0, 1.0, 2.0, 10.0], "a target").row() == {
        "name": "x",
        "unit": "s",
        "n": 4,
        "median": 2.5,
        "min": 1.0,
        "max": 10.0,
        "compared_with": "a target",
    }


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_figures([Figure("x", "s", [1.0]), Figure("y", "1/s", [2.0])], as_json=True)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert [row["name"] for row in document["figures"]] == ["x", "y"]


def test_the_table_has_a_line_a_figure(capsys: pytest.CaptureFixture[str]) -> None:
    print_figures([Figure("x", "s", [0.25, 0.75], "target: at most 1")], as_json=False)
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["name", "unit", "n", "median", "min", "max", "compared", "with"]
    assert row.split() == ["x", "s", "2", "0.5", "0.25", "0.75", "target:", "at", "most", "1"]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http+docker://localhost/v1.41/containers/create?name=evalguest-a-b__r1", "GET containers/create"),
        ("http+docker://localhost/v1.41/containers/0123456789abcdef/json", "GET containers/*/json"),
        ("http+docker://localhost/v1.41/exec/0123456789abcdef/start", "GET exec/*/start"),
        ("http+docker://localhost/v1.41/images/evalguest-base:sha256-00/json", "GET images/*/json"),
        ("http+docker://localhost/version", "GET http+docker://localhost/version"),
    ],
)
def test_calls_of_one_kind_have_one_name(url: str, kind: str) -> None:
    assert call_kind("GET", url) == kind


def test_the_ratio_to_the_floor_is_taken_round_by_round() -> None:
    # Rounds of 2 / 1 and 9 / 6: whatever slowed the second round down slowed both.
    figures = serial_figures([measured([1, 2, 8]), measured([9.0])], [measured([1.0]), measured([5, 6, 7])])
    assert medians(figures) == {"trial_overhead_s": 5, "trial_floor_s": 5.5, "trial_overhead_to_floor": 1.75}


def test_rates_are_trials_by_the_seconds_of_the_job() -> None:
    figures = fleet_figures([measured([], seconds=16.0)], [measured([], seconds=12.8)], 64)
    assert medians(figures) == {"trials_per_s": 4.0, "trials_per_s_floor": 5.0, "trials_per_s_to_floor": 0.8}


def test_what_is_left_beside_the_calls_is_ours() -> None:
    # Two trials of 0.6 s and 0.8 s in all: 1400 ms, of which calls take 700 and commands 500.
    calls = {"GET a": [100.0, 100.0, 100.0, 100.0], "PUT b": [150.0, 150.0], OUTPUT_WAIT: [200.0, 300.0]}
    figures = call_figures([measured([0.1, 0.3], calls=calls)], [measured([0.1], calls={"GET a": [40.0, 60.0]})])
    assert medians(figures) == {
        "engine_calls_per_trial": 3,
        "beside_the_calls_ms": 100,
        "GET a": 100,
        OUTPUT_WAIT: 250,
        "PUT b": 150,
    }
    rows = {figure.name: figure for figure in figures}
    assert rows["engine_calls_per_trial"].compared_with == "floor: 2"
    assert rows["GET a"].compared_with == "2 a trial, 200 ms of each; floor: 50.0 ms"


def test_the_floor_of_a_dry_run_is_its_tasks_own_cpu_time() -> None:
    trials = [{"cpu": {"agent_sec": 1.5, "verifier_sec": 0.25}}, {"cpu": {"agent_sec": 2.0, "verifier_sec": None}}]
    assert own_cpu_seconds({"tasks": [{"trials": trials}, {"trials": trials[:1]}]}) == 5.5


def phase(began: str, ended: str) -> dict[str, str]:
    return {"started_at": f"2026-12-01T05:00:{began}Z", "finished_at": f"2026-12-01T05:00:{ended}Z"}


def test_overhead_of_a_harbor_result_is_what_lies_beyond_both_phases() -> None:
    result = {
        **phase("00.000000", "15.500000"),
        "agent_execution": phase("02.000000", "02.500000"),
        "verifier": phase("03.000000", "04.000000"),
    }
    assert stages(result) == {"before_agent": 2.0, "between": 0.5, "after_verifier": 11.5}


def test_harbor_is_compared_run_by_run_with_the_median_beside_it() -> None:
    theirs = [{"before_agent": 2.0, "after_verifier": 10.0}, {"before_agent": 5.0, "after_verifier": 15.0}]
    assert medians(harbor_figures(theirs, [[0.5, 0.4, 0.9], [1.0, 1.0, 4.0]])) == {
        "harbor_overhead_s": 16,
        "trial_overhead_s": 0.95,
        "harbor_to_ours": 22,
        "harbor_before_agent_s": 3.5,
        "harbor_after_verifier_s": 12.5,
    }


def test_a_harbor_trial_without_a_verifier_is_an_error_in_its_own_words() -> None:
    result = {**phase("00.0", "01.0"), "agent_execution": None, "verifier": None, "exception_info": "no such image"}
    with pytest.raises(EnvironmentFault, match="no such image"):
        stages(result)


@pytest.mark.parametrize(
    ("harbor", "ours", "agree"), [(1.0, 1.0, True), (0.0, 0, True), (1.0, 0.0, False), (None, None, False)]
)
def test_rewards_agree_only_when_both_are_there(harbor: float | None, ours: float | None, agree: bool) -> None:
    assert _agree({"harbor": harbor, "ours": ours}) is agree


@pytest.mark.engine
@pytest.mark.parametrize("module", ["one_job", "floor"])
def test_a_process_measures_what_it_ran(module: str) -> None:
    found = run_process(module, 2, 2)
    assert len(found.overheads) == len(found.walls) == 2
    assert found.seconds > max(found.walls) > min(found.overheads) > 0
    assert found.peak_rss_mb > 10
    # Whatever else a trial calls for, it needs these; each command is created, started and asked for its end.
    for kind, number in {
        "POST containers/*/start": 2,
        "PUT containers/*/archive": 4,
        "GET containers/*/archive": 4,
        "POST exec/*/start": 4,
        OUTPUT_WAIT: 4,
        "DELETE containers/*": 2,
    }.items():
        assert len(found.calls[kind]) >= number, kind


@pytest.mark.engine
def test_a_process_that_fails_is_an_error_in_its_own_words() -> None:
    with pytest.raises(EnvironmentFault, match="-n is 0"):
        run_process("one_job", 1, 0)


def test_the_wire_s_body_is_a_valid_result_of_the_size_asked_for() -> None:
    body = result_of(BODY_BYTES).canonical()
    assert BODY_BYTES - 1 <= len(body) <= BODY_BYTES
    assert parse_result_body(body).canonical() == body


def test_the_wire_s_figures_are_times_and_rates_of_the_same_runs() -> None:
    figures = {figure.name: figure for figure in measure_wire(rounds=2)}
    size = figures["body_bytes"].values[0]
    for name in ("encode_result", "decode_result", "encode_value", "decode_value", "json_dumps", "json_loads"):
        times, rates = figures[f"{name}_ms"].values, figures[f"{name}_mb_s"].values
        assert [round(time * rate * 1000) for time, rate in zip(times, rates, strict=True)] == [size, size]


def test_an_unknown_bench_is_a_usage_error() -> None:
    command = [sys.executable, "-P", "-m", "scripts.benches", "speed"]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "trials" in ended.stderr
