"""The fields of a quote, and the structures that are no TDX quote of version 4."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire.measurement import os_image_hash
from guest.wire.quote_fields import read_quote
from tests.conformance.vectors import baseline
from tests.guest.wire.replies import CAPTURES, RTMR3_OF_PHALA
from tests.guest.wire.values import refusal_of

QUOTE = (CAPTURES / "quote.bin").read_bytes()


def test_a_real_quote() -> None:
    fields = read_quote(QUOTE)
    assert fields.mrtd.startswith("f06dfda6dce1cf904d4e2bab1dc37063")
    assert fields.rtmr0.startswith("68102e7b524af310f7b7d426ce75481e")
    assert fields.rtmr1.startswith("07e6f51aa763abfe75c3ddfbf4f425fe")
    assert fields.rtmr2.startswith("df67e467e60edc1737bcf8e682d48131")
    assert fields.rtmr3 == RTMR3_OF_PHALA
    assert fields.report_data == QUOTE[568:632].hex()


@pytest.mark.parametrize("vector", baseline("os_image_hash"), ids=lambda v: v["name"])
def test_published_product_hashes(vector: dict[str, Any]) -> None:
    assert os_image_hash(**vector["input"]) == vector["expected"]


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 5), (0, 3), (1, 1), (2, 3), (3, 1), (4, 0), (7, 1), (8, 1), (11, 1), (12, 0), (27, 0), (635, 255)],
)
def test_another_header_is_refused(at: int, value: int) -> None:
    changed = bytearray(QUOTE)
    changed[at] = value
    refusal = refusal_of(lambda: read_quote(bytes(changed)))
    assert refusal is not None
    assert refusal.reason is Reason.QUOTE_MALFORMED


@pytest.mark.parametrize("declared", [0, 583, len(QUOTE) - 635, 2**32 - 1])
def test_signature_data_that_is_too_short_or_runs_past_the_end_is_refused(declared: int) -> None:
    changed = QUOTE[:632] + declared.to_bytes(4, "little") + QUOTE[636:]
    assert refusal_of(lambda: read_quote(changed)) is not None


def test_bytes_after_the_declared_end_are_let_through_here() -> None:
    assert read_quote(QUOTE + bytes(100)) == read_quote(QUOTE)


@given(st.binary(max_size=700) | st.integers(0, 1300).map(lambda length: QUOTE[:length]))
def test_no_bytes_crash_it(data: bytes) -> None:
    refusal_of(lambda: read_quote(data))
