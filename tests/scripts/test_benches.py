"""The benches' arithmetic, and that a bench runs and prints its promised shape; never how quick anything is."""

import json
from typing import Any

import pytest

from scripts.benches.figures import Figure, print_figures
from scripts.benches.harbor import _overhead
from scripts.benches.one_job import measure


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


def test_overhead_of_a_harbor_result_is_what_lies_beyond_both_phases() -> None:
    def phase(began: str, ended: str) -> dict[str, str]:
        return {"started_at": f"2026-12-01T05:00:{began}Z", "finished_at": f"2026-12-01T05:00:{ended}Z"}

    result = {
        **phase("00.000000", "13.500000"),
        "agent_execution": phase("02.000000", "02.500000"),
        "verifier": phase("03.000000", "04.000000"),
    }
    assert _overhead(result) == 12.0


@pytest.mark.engine
def test_one_job_measures_what_it_ran() -> None:
    measured = measure(2, 2)
    assert len(measured["overheads"]) == 2
    assert measured["peak_rss_mb"] > 10
    calls = measured["calls"]
    # create, start and remove: one of each a trial, and one a job for each slot's holder.
    assert calls["POST containers/create"]["per_trial"] >= 1
    assert calls["PUT containers/*/archive"]["per_trial"] == 2
    assert calls["GET containers/*/archive"]["per_trial"] == 2
