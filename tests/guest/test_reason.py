"""The reason codes: the vocabularies others fix are complete, and their page is what the enumeration says.

`python -m tests.guest.test_reason` writes the page anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from guest.reason import Reason, Stage

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reason-codes.md"

RETRYABLE_ON_THE_LINE = {
    "harbor_broker_connection_failed",
    "harbor_cancelled_error",
    "harbor_environment_start_timeout_error",
    "terminal_bench_broker_ref_missing",
    "terminal_bench_job_dir_missing",
    "terminal_bench_lease_expired",
}
ON_THE_LINE = RETRYABLE_ON_THE_LINE | {
    *("harbor_result_missing", "harbor_result_malformed", "harbor_result_partial", "harbor_result_invalid"),
    *("harbor_nonzero_exit", "harbor_reward_missing", "harbor_reward_empty", "harbor_reward_parse_error"),
    *("harbor_trial_failed", "harbor_trial_result_missing", "harbor_trial_result_malformed"),
    *("harbor_agent_timeout_error", "harbor_verifier_timeout_error", "harbor_submission_code_failed"),
    *("terminal_bench_attempt_not_running", "terminal_bench_failed"),
    *("phala_attestation_failed", "phala_key_release_failed", "phala_golden_decrypt_failed"),
}
REASONS = {str(reason): reason for reason in Reason}

DENIALS = {
    *("malformed_request", "frame_too_large", "handshake_timeout", "exchange_timeout", "rate_limited"),
    *("verification_busy", "verifier_unavailable", "run_conflict", "nonce_unknown", "nonce_expired"),
    *("nonce_consumed", "invalid_quote", "tcb_rejected", "measurement_rejected", "binding_rejected"),
}
SENT_AGAIN = {"verifier_unavailable", "verification_busy", "rate_limited", "exchange_timeout"}


def of(stage: Stage) -> set[str]:
    return {str(reason) for reason in Reason if reason.stage is stage}


def test_codes_are_one_word_each_and_unique() -> None:
    codes = [str(reason) for reason in Reason]
    assert len(set(codes)) == len(codes) == len(Reason.__members__)
    assert [code for code in codes if not re.fullmatch(r"[a-z][a-z0-9_]{2,63}", code)] == []
    assert [name for name, reason in Reason.__members__.items() if name != reason.upper()] == []


def test_the_result_line_has_its_25_codes() -> None:
    assert len(ON_THE_LINE) == 25
    assert of(Stage.RESULT_LINE) == ON_THE_LINE
    assert {code for code in ON_THE_LINE if REASONS[code].retryable} == RETRYABLE_ON_THE_LINE


def test_key_release_has_its_15_denials() -> None:
    assert len(DENIALS) == 15
    assert of(Stage.KEY_RELEASE) == DENIALS
    assert {code for code in DENIALS if REASONS[code].retryable} == SENT_AGAIN
    assert {REASONS[code].wire for code in DENIALS} == {Reason.PHALA_KEY_RELEASE_FAILED}


@pytest.mark.parametrize(
    ("code", "on_the_line"),
    [
        ("cpu_budget_exceeded", "harbor_trial_failed"),
        ("wall_backstop_exceeded", "harbor_agent_timeout_error"),
        ("probe_not_observed", "harbor_trial_failed"),
        ("probe_mismatch", "harbor_trial_failed"),
        ("evidence_missing", "harbor_trial_failed"),
        ("evidence_malformed", "harbor_trial_failed"),
        ("evidence_plane_missing", "harbor_trial_failed"),
        ("agent_timeout", "harbor_agent_timeout_error"),
        ("agent_failed", "harbor_submission_code_failed"),
        ("verifier_timeout", "harbor_verifier_timeout_error"),
        ("reward_missing", "harbor_reward_missing"),
        ("reward_empty", "harbor_reward_empty"),
        ("reward_malformed", "harbor_reward_parse_error"),
        ("interrupted", "harbor_cancelled_error"),
        ("event_log_refused", "phala_attestation_failed"),
        ("golden_refused", "phala_golden_decrypt_failed"),
        ("task_digest_mismatch", "terminal_bench_failed"),
        ("engine_unavailable", "terminal_bench_failed"),
        ("internal_fault", "terminal_bench_failed"),
    ],
)
def test_what_a_line_says_for_a_reason(code: str, on_the_line: str) -> None:
    assert REASONS[code].wire == on_the_line


def test_every_reason_has_a_code_of_the_line_and_a_sentence() -> None:
    for reason in Reason:
        assert reason.wire.stage is Stage.RESULT_LINE
        assert re.fullmatch(r"[A-Za-z].*[^.]\.", reason.sentence), reason


def rendered() -> str:
    lines = [
        "# Reason codes",
        "",
        "Everything that is refused, fails or scores 0 names its cause by one of these codes: in JSON, in records, on",
        "stderr and, in the spelling of the last column, on the result line. What comes after that line has no such",
        "column. *Again* says whether the same attempt may be made again unchanged. This page is written from",
        "`guest/reason.py` by `.venv/bin/python -m tests.guest.test_reason`.",
    ]
    for stage in Stage:
        own = stage in {Stage.RESULT_LINE, Stage.DELIVERY, Stage.RECEIPT, Stage.PROGRESS}
        lines += ["", f"## {stage.capitalize()}", ""]
        lines += [
            f"| Code | Meaning | Again |{'' if own else ' On the result line |'}",
            f"|---|---|---|{'' if own else '---|'}",
        ]
        for reason in (reason for reason in Reason if reason.stage is stage):
            again = "yes" if reason.retryable else "no"
            lines.append(f"| `{reason}` | {reason.sentence} | {again} |{'' if own else f' `{reason.wire}` |'}")
    return "\n".join(lines) + "\n"


def test_the_page_is_what_the_enumeration_says() -> None:
    assert PAGE.read_text() == rendered(), "write it anew: .venv/bin/python -m tests.guest.test_reason"


if __name__ == "__main__":
    PAGE.write_text(rendered())
