"""Where a key server may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.wire.authority import Authority, parse_authority
from tests.guest.wire.records import vectors
from tests.guest.wire.values import refusal_of

VECTORS = vectors()["later_revision"]["key_release_authority"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: repr(vector["input"]))
def test_published_endpoints(vector: dict[str, object]) -> None:
    text, expected = str(vector["input"]), vector["expected"]
    if expected is None:
        assert refusal_of(lambda: parse_authority(text)) is not None
    else:
        assert vars(parse_authority(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("2001:db8::1:8701", "[::1]", "[::1]:", "[]:1", "h:1\n:2", "h\x00:1x", "h:-1", "h:+1", "h:1_0", "h:\u0661"),
        *("h:1@x", "a@b:1", "[h]:1", "tcp://tls://h:1", "://h:1", "h%00:1", "h\\x:1"),
    ],
)
def test_what_only_resembles_an_endpoint_is_refused(text: str) -> None:
    assert refusal_of(lambda: parse_authority(text)) is not None


@given(st.text(max_size=30))
def test_no_text_crashes_the_parser(text: str) -> None:
    refusal = refusal_of(lambda: parse_authority(text))
    assert refusal is None or refusal.pointer == "/key_release_endpoint"


@given(st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True), st.integers(1, 65535))
def test_host_and_port_come_back(host: str, port: int) -> None:
    for scheme in ("", "ratls://", "TCP://"):
        assert parse_authority(f"{scheme}{host}:{port}") == Authority(host, port)
