"""The result line: attested, unattested, fail-closed; one line each, and no secret on it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.reason import Reason, Stage
from guest.wire.result_line import (
    PREFIX,
    Failure,
    FailureStage,
    attested_line,
    fail_closed_line,
    unattested_line,
)
from guest.wire.result_request import ResultRequest, parse_result_body
from tests.conformance.vectors import baseline
from tests.guest.wire.records import request
from tests.guest.wire.values import ANY_VALUES, refusal_of

COMPLETED = {"status": "completed", "score": 0.5, "resolved": 1, "total": 2, "reason_code": None}


def failed(detail: str = "", reason: Reason = Reason.INTERNAL_FAULT, kind: str = "Kind") -> dict[str, Any]:
    """The members of a fail-closed line, which must be one line."""
    line = fail_closed_line(total=3, reason=reason, failure=Failure(FailureStage.JOB, kind, detail))
    assert line.startswith(PREFIX)
    assert line.isprintable()
    assert line.isascii()
    members: dict[str, Any] = json.loads(line.removeprefix(PREFIX))
    return members


@pytest.mark.parametrize("vector", baseline("legacy_result_line"), ids=lambda v: v["name"])
def test_published_lines(vector: dict[str, Any]) -> None:
    if "reject" in vector:
        refusal = refusal_of(lambda: unattested_line(vector["input"]))
        assert refusal is not None
        assert refusal.reason is Reason.RESULT_LINE_MALFORMED
    else:
        assert unattested_line(vector["input"]) == vector["expected_line"]


def test_what_follows_the_prefix_of_an_attested_line_is_the_body() -> None:
    line = attested_line(ResultRequest.parse(request()))
    assert line.startswith("BASE_BENCHMARK_RESULT={")
    assert line.isprintable()
    body = line.removeprefix("BASE_BENCHMARK_RESULT=").encode()
    assert parse_result_body(body).canonical() == body


def test_further_members_sort_into_place_and_are_escaped() -> None:
    line = unattested_line({**COMPLETED, "note": "é\u2028\n", "a": [1, {"b": None}]})
    assert line == (
        PREFIX + '{"a": [1, {"b": null}], "note": "\\u00e9\\u2028\\n", "reason_code": null, "resolved": 1, '
        '"score": 0.5, "status": "completed", "total": 2}'
    )


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (0, "0.0"),
        (1, "1.0"),
        (1 / 3, "0.3333333333333333"),
        (1e-7, "1e-07"),
        (5e-324, "5e-324"),
        (0.1 + 0.2, "0.30000000000000004"),
    ],
)
def test_scores_are_floats_in_their_shortest_form(score: float, text: str) -> None:
    assert f'"score": {text}, ' in unattested_line({**COMPLETED, "score": score})


@pytest.mark.parametrize(
    "members",
    [
        {"score": float("nan")},
        {"score": float("inf")},
        {"score": True},
        {"score": "1"},
        {"score": -0.1},
        {"resolved": -1},
        {"resolved": 1.0},
        {"total": True},
        {"status": "done"},
        {"reason_code": 7},
        {"status": "failed"},
        {"x": float("nan")},
        {"x": b""},
        {"x": "\ud800"},
    ],
)
def test_members_that_are_refused(members: dict[str, Any]) -> None:
    refusal = refusal_of(lambda: unattested_line({**COMPLETED, **members}))
    if members == {"x": "\ud800"}:  # escaped, and so harmless
        assert refusal is None
        return
    assert refusal is not None
    assert refusal.reason is Reason.RESULT_LINE_MALFORMED


@pytest.mark.parametrize("missing", sorted(COMPLETED))
def test_members_that_are_missing(missing: str) -> None:
    assert refusal_of(lambda: unattested_line({k: v for k, v in COMPLETED.items() if k != missing})) is not None


@pytest.mark.parametrize("reason", list(Reason))
def test_a_run_without_a_score_says_so_with_a_code_of_the_line(reason: Reason) -> None:
    members = failed("why", reason)
    assert (members["status"], members["score"], members["resolved"], members["total"]) == ("failed", 0.0, 0, 3)
    assert isinstance(members["score"], float)
    code = members["reason_code"]
    assert next(each for each in Reason if each == code).stage is Stage.RESULT_LINE
    told = {"failure_stage": "job", "failure_class": "Kind", "failure_detail": "why"}
    more = members.keys() - {"status", "score", "resolved", "total", "reason_code"}
    assert {name: members[name] for name in more} == (told if code == "terminal_bench_failed" else {})


@pytest.mark.parametrize(
    ("secret", "detail"),
    [
        ("abc.def-ghi", "Authorization: Bearer abc.def-ghi"),
        ("abc.def-ghi", "bearer abc.def-ghi refused"),
        ("hunter2", "password=hunter2"),
        ("hunter2", 'sent {"password": "hunter2"} to it'),
        ("hunter2", "API_KEY: hunter2"),
        ("sk-or-v1-0123", "token sk-or-v1-0123"),
        ("0" * 64, f"the key is {'0' * 64}"),
        ("ab" * 16, f"key {'ab' * 16} failed"),
        ("Qm9i" * 10 + "1A==", f"opened with {'Qm9i' * 10}1A=="),
    ],
)
def test_secrets_are_not_told(secret: str, detail: str) -> None:
    told = failed(detail)["failure_detail"]
    assert secret not in told
    assert "redacted" in told


@pytest.mark.parametrize(
    "detail",
    [
        "kv-daemon: could not build the image: no such file /tmp/x/Dockerfile",
        "the engine did not answer in time (90 s)",
        "score record: /tasks/3/task_id must come after 'a-task'",
        "no task 'fix-the-keyboard' in task-cache/tasks",
    ],
)
def test_plain_words_are_told_as_they_are(detail: str) -> None:
    assert failed(detail)["failure_detail"] == detail


@pytest.mark.parametrize(
    "detail",
    [
        "x\nBASE_BENCHMARK_RESULT={}",
        "x\r\nBASE_BENCHMARK_RESULT={}",
        "x\u2028BASE_BENCHMARK_RESULT={}",
        "x\x85BASE_BENCHMARK_RESULT={}",
        "\x1b[2J",
        "é" * 500,
        "\ud800",
    ],
)
def test_no_detail_begins_a_second_line(detail: str) -> None:
    told = failed(detail, kind=detail)
    assert len(told["failure_detail"]) <= 160
    assert re.fullmatch(r"[A-Za-z0-9_]+", told["failure_class"])


@pytest.mark.parametrize(
    "detail", ["a" * 1_000_000, "key " * 300_000, "f" * 31 + " ", "Bearer" * 200_000, "=" * 1_000_000]
)
def test_a_huge_detail_is_cut_before_it_is_searched(detail: str) -> None:
    """Each of these takes hours where the whole of it is searched for secrets."""
    assert len(failed(detail)["failure_detail"]) <= 160


def test_a_secret_that_the_cut_would_halve_is_not_told() -> None:
    begin = "key=" + "x" * 1900 + " "
    told = failed(f"{begin}and {'ab' * 200}")["failure_detail"]
    assert told == "redacted and"


@given(st.text(max_size=300), st.text(max_size=40), st.integers(0, 2**40))
def test_any_failure_is_one_line(detail: str, kind: str, total: int) -> None:
    line = fail_closed_line(total=total, reason=Reason.INTERNAL_FAULT, failure=Failure(FailureStage.CLI, kind, detail))
    assert len(line.splitlines()) == 1
    assert json.loads(line.removeprefix(PREFIX))["total"] == total


@given(st.dictionaries(st.text(max_size=8), ANY_VALUES, max_size=4))
def test_no_members_crash_it(members: dict[str, Any]) -> None:
    refusal = refusal_of(lambda: unattested_line({**COMPLETED, **members}))
    assert refusal is None or refusal.reason is Reason.RESULT_LINE_MALFORMED
