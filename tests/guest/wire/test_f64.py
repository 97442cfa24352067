"""Scores as bits and the specified summation."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.wire.f64 import compensated_sum, decode_f64, encode_f64, mean
from guest.wire.refusal import WireRefused
from tests.guest.wire.values import refusal_of

SCORES = st.floats(0, 1).map(abs)


@given(SCORES)
def test_bits_are_the_machine_s_own(score: float) -> None:
    assert encode_f64(score) == struct.pack(">d", score).hex()
    assert decode_f64(encode_f64(score)) == score


@given(st.binary(min_size=8, max_size=8))
def test_any_eight_bytes_are_a_score_or_are_refused(data: bytes) -> None:
    value = struct.unpack(">d", data)[0]
    if 0 <= value <= 1 and math.copysign(1, value) > 0:
        assert decode_f64(data.hex()) == value
    else:
        with pytest.raises(WireRefused):
            decode_f64(data.hex())
        with pytest.raises(WireRefused):
            encode_f64(value)


@given(st.text(max_size=20))
def test_no_text_crashes_the_decoder(text: str) -> None:
    refusal = refusal_of(lambda: decode_f64(text))
    if refusal is None:
        assert encode_f64(decode_f64(text)) == text
    else:
        assert refusal.rule.startswith("must be 16 lowercase hex digits")


@pytest.mark.parametrize(
    "value", [True, False, -0.0, math.nan, math.inf, 10**400, -(10**400), 2, "1", None, 1 + 2**-52]
)
def test_what_is_no_score_is_refused(value: Any) -> None:
    with pytest.raises(WireRefused, match="from 0 to 1"):
        encode_f64(value)


def test_integers_0_and_1_are_scores() -> None:
    assert (encode_f64(0), encode_f64(1)) == ("0000000000000000", "3ff0000000000000")


@pytest.mark.parametrize("text", ["3ff0000000000000\n", "+ff0000000000000", "3fe00000000000_0", "\uff13fe000000000000"])
def test_spellings_that_only_look_like_hex_are_refused(text: str) -> None:
    with pytest.raises(WireRefused):
        decode_f64(text)


def test_the_sum_is_not_the_plain_one() -> None:
    plain = 0.0
    for _ in range(10):
        plain += 0.1
    assert (plain, compensated_sum([0.1] * 10)) == (0.9999999999999999, 1.0)
    assert compensated_sum([1.0, 1e100, 1.0, -1e100]) == 2.0
    assert compensated_sum([0.5]) == 0.5


@given(st.lists(SCORES, min_size=1))
def test_the_sum_is_the_exact_one_but_for_the_last_bit(scores: list[float]) -> None:
    exact = float(sum(map(Fraction, scores)))
    assert abs(compensated_sum(scores) - exact) <= math.ulp(exact)
    assert encode_f64(mean(scores))
