"""Canonical JSON: what is written, what is refused, and what hostile text costs."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire import canonical
from guest.wire.refusal import WireRefused
from tests.conformance.vectors import baseline
from tests.guest.wire.values import ANY_VALUES, CANONICAL_VALUES, refusal_of

VECTORS = baseline("canonical_json")


def read_and_write(vector: dict[str, Any]) -> str:
    data = bytes.fromhex(vector["input_json_hex"])
    value = canonical.decode(data) if vector["root"] == "object" else canonical.decode_value(data)
    return canonical.encode(value).hex()


@pytest.mark.parametrize("vector", [v for v in VECTORS if "reject" not in v], ids=lambda vector: vector["name"])
def test_published_texts(vector: dict[str, Any]) -> None:
    assert read_and_write(vector) == vector["expected_hex"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if "reject" in v], ids=lambda vector: vector["name"])
def test_published_refusals(vector: dict[str, Any]) -> None:
    with pytest.raises(WireRefused) as refusal:
        read_and_write(vector)
    assert refusal.value.reason is Reason.JSON_REFUSED


@given(CANONICAL_VALUES)
def test_what_is_written_reads_back_and_writes_the_same(value: Any) -> None:
    data = canonical.encode(value)
    assert canonical.decode_value(data) == value
    assert canonical.encode(canonical.decode_value(data)) == data


@given(st.dictionaries(st.text(st.characters(max_codepoint=0x7E)), st.integers()))
def test_the_writer_agrees_with_the_standard_library_on_ascii(value: dict[str, int]) -> None:
    assert canonical.encode(value) == json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@given(st.binary(max_size=200) | ANY_VALUES.map(lambda value: json.dumps(value).encode()))
@example(b'"' * 9)
@example(rb'{"a":"\\"}')
@example(b"[" * 40 + b"]" * 40)
@example(b'{"a":' + b"9" * 5000 + b"}")
def test_no_text_crashes_the_reader_or_the_writer(data: bytes) -> None:
    refusal = refusal_of(lambda: canonical.encode(canonical.decode_value(data)))
    assert refusal is None or (refusal.reason is Reason.JSON_REFUSED and refusal.message.isascii())


@given(ANY_VALUES)
def test_no_value_crashes_the_writer(value: Any) -> None:
    refusal = refusal_of(lambda: canonical.encode(value))
    assert refusal is None or refusal.message.isascii()


def test_a_text_in_another_spelling_is_not_canonical() -> None:
    assert canonical.decode_canonical(b'{"a":1}') == {"a": 1}
    for text in (
        b' {"a":1}',
        b'{"a":1}\n',
        b'{"a": 1}',
        b'{"b":1,"a":1}',
        b'{"a":"\\/"}',
        b'{"a":-0}',
        b'{"e\xcc\x81":1}',
    ):
        with pytest.raises(WireRefused, match="byte for byte") as refusal:
            canonical.decode_canonical(text)
        assert refusal.value.reason is Reason.NOT_CANONICAL


def test_depth_is_bounded_in_both_directions() -> None:
    for levels in (canonical.MAX_DEPTH, canonical.MAX_DEPTH + 1):
        value: Any = 1
        for _ in range(levels):
            value = [value]
        text = b"[" * levels + b"1" + b"]" * levels
        if levels == canonical.MAX_DEPTH:
            assert canonical.encode(value) == text
            assert canonical.decode_value(text) == value
        else:
            with pytest.raises(WireRefused, match="32 levels"):
                canonical.encode(value)
            with pytest.raises(WireRefused, match="32 levels"):
                canonical.decode_value(text)


def test_brackets_and_escapes_inside_strings_are_no_structure() -> None:
    text = canonical.encode({"a": "[{" * 40, "b": '\\"[[[' * 20, "c\\": "\\\\"})
    assert canonical.encode(canonical.decode(text)) == text


def test_code_points_that_later_unicode_versions_added_are_refused() -> None:
    # U+16D63 was assigned in 16.0, as the start of compositions that 14.0 and 15.0 do not make; U+0378 never was.
    for text in ("\U00016d63", "\u0378", "\ud800", "\U0010ffff"):
        with pytest.raises(WireRefused, match=r"U\+[0-9A-F]{4,6}") as refusal:
            canonical.encode({"a": [text]})
        assert refusal.value.pointer == "/a/0"
    assert canonical.encode("\U0001fae0\ue000") == b'"\xf0\x9f\xab\xa0\xee\x80\x80"'  # assigned in 14.0; private use


def test_integers_beyond_what_the_peer_converts_are_refused() -> None:
    assert canonical.encode(canonical.decode(b'{"n":' + b"9" * 4300 + b"}")) == b'{"n":' + b"9" * 4300 + b"}"
    with pytest.raises(WireRefused, match="at most 4300 digits; got 4301"):
        canonical.decode(b'{"n":-' + b"9" * 4301 + b"}")
    with pytest.raises(WireRefused, match="at most 4300 digits"):
        canonical.encode(10**4300)


DENSE = {
    "empty arrays": b"[],",
    "empty objects": b"{},",
    "digits": b"1,",
    "quotes": b'"',
    "escapes": b'\\"',
    "backslashes": b"\\",
    "open": b'{"a":',
    "short strings": b'"ab",',
    "wide characters": '"\U0001f680bcdefghijkl",'.encode(),
    "pairs": b'{"a":1},',
    "long strings": b'"' + b"x" * 60 + b'",',
}


@pytest.mark.parametrize("unit", DENSE.values(), ids=DENSE)
@pytest.mark.parametrize("closed", [False, True])
def test_hostile_text_costs_a_few_times_its_size(unit: bytes, closed: bool) -> None:
    text = b"[" + unit * (4 * 1024 * 1024 // len(unit)) + (b"1]" if closed else b"")
    tracemalloc.start()
    refusal_of(lambda: canonical.decode_value(text))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * len(text)


def test_too_many_bytes_are_refused_unread() -> None:
    with pytest.raises(WireRefused, match="at most 16777216 bytes"):
        canonical.decode(b" " * (canonical.MAX_BYTES + 1))
