"""Refusals: a line that names the member, and shows of strange values only what is safe to print."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire.plan import parse_plan
from guest.wire.refusal import WireRefused, json_pointer, shown
from tests.guest.wire.records import changed, plan
from tests.guest.wire.values import ANY_VALUES, refusal_of


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ((), ""),
        (("a", 0, "b"), "/a/0/b"),
        (("a/b", "c~d"), "/a~1b/c~0d"),
        (("é\n",), "/\\xe9\\n"),
        (("x" * 200,), "/" + "x" * 80),
    ],
)
def test_pointers(path: tuple[str | int, ...], pointer: str) -> None:
    assert json_pointer(path) == pointer


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "'x'"),
        ("\x1b[2J", "'\\x1b[2J'"),
        ("y" * 100, f"'{'y' * 80}'... (100 characters)"),
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        (2**5000, "an integer of 5001 bits"),
        ({"a": 1}, "an object of 1 members"),
        ([1, 2], "an array of 2 items"),
    ],
)
def test_values_in_a_few_characters(value: object, text: str) -> None:
    assert shown(value) == text


@given(ANY_VALUES | st.integers() | st.text())
def test_whatever_is_shown_is_short_and_printable(value: Any) -> None:
    text = shown(value)
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 600


def test_one_wrong_field_is_one_line_that_can_be_acted_on() -> None:
    refusal = refusal_of(lambda: parse_plan(changed(plan(), ("eval_app", "measurement", "rtmr1"), "AB")))
    assert refusal is not None
    assert str(refusal) == "/eval_app/measurement/rtmr1 must be 96 lowercase hex digits; got 'AB'"
    assert (refusal.reason, refusal.rule) == (Reason.PLAN_MALFORMED, "must be 96 lowercase hex digits")


def test_a_refusal_can_be_told_of_the_record_around_it() -> None:
    inner = WireRefused(Reason.EVENT_LOG_REFUSED, "/imr", "must be at most 3", "9", "look")
    outer = inner.under("/event_log/2", Reason.RESULT_MALFORMED)
    assert str(outer) == "/event_log/2/imr must be at most 3; got 9"
    assert (outer.reason, outer.hint, outer.pointer) == (Reason.RESULT_MALFORMED, "look", "/event_log/2/imr")
