"""The golden envelope opens with its key under its name, and in no other way."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire.golden import ORACLE_NAME, open_envelope, open_golden, parse_key_text
from tests.conformance.vectors import baseline
from tests.guest.wire.values import refusal_of

KEY = bytes(range(32))
NONCE = b"\x07" * 12
SECRET = b'{"answers": {"a": 0.5}}'


def sealed(plaintext: bytes, name: str = "x.json", key: bytes = KEY) -> bytes:
    return b"ACGENC01" + NONCE + AESGCM(key).encrypt(NONCE, plaintext, b"ACGENC01" + name.encode())


@pytest.mark.parametrize("vector", baseline("golden_envelope"), ids=lambda v: v["name"])
def test_published_envelopes(vector: dict[str, Any]) -> None:
    given_ = vector["input"]
    blob, key, name = (
        bytes.fromhex(given_["blob_hex"]),
        bytes.fromhex(given_["key_hex"]),
        given_["associated_data_ascii"],
    )
    refusal = refusal_of(lambda: open_envelope(blob, key=key, name=name))
    if "reject" in vector:
        assert refusal is not None
        assert refusal.reason is Reason.GOLDEN_REFUSED
    else:
        assert open_envelope(blob, key=key, name=name).hex() == vector["expected"]["plaintext_hex"]


def test_every_bit_counts() -> None:
    blob = sealed(SECRET)
    assert open_envelope(blob, key=KEY, name="x.json") == SECRET
    for bit in range(8 * len(blob)):
        flipped = bytearray(blob)
        flipped[bit // 8] ^= 1 << bit % 8
        refusal = refusal_of(lambda flipped=flipped: open_envelope(bytes(flipped), key=KEY, name="x.json"))  # type: ignore[misc]
        assert refusal is not None
    for length in range(len(blob)):
        assert refusal_of(lambda length=length: open_envelope(blob[:length], key=KEY, name="x.json")) is not None  # type: ignore[misc]


@pytest.mark.parametrize("name", ["", "X.json", "x.jso", "x.json ", "x.json.enc", "é"])
def test_another_name_does_not_open_it(name: str) -> None:
    refusal = refusal_of(lambda: open_envelope(sealed(SECRET), key=KEY, name=name))
    assert refusal is not None
    assert refusal.reason is Reason.GOLDEN_REFUSED


@pytest.mark.parametrize("key", [b"", KEY[:16], KEY[:24], KEY + b"\0", KEY[::-1]])
def test_another_key_does_not_open_it(key: bytes) -> None:
    refusal = refusal_of(lambda: open_envelope(sealed(SECRET), key=key, name="x.json"))
    assert refusal is not None
    assert refusal.reason is (Reason.GOLDEN_REFUSED if len(key) == 32 else Reason.GOLDEN_KEY_MALFORMED)


@pytest.mark.parametrize("plaintext", [b"", b"[]", b"7", b"{", b'{"a":1,"a":2}', b"\xff", b'{"secret":"hush"} x'])
def test_what_is_inside_must_be_an_object_and_is_not_told(plaintext: bytes) -> None:
    refusal = refusal_of(lambda: open_golden(sealed(plaintext), key=KEY, name="x.json"))
    assert refusal is not None
    assert refusal.reason is Reason.GOLDEN_REFUSED
    assert "hush" not in f"{refusal}{refusal.__cause__}{refusal.__context__}"


def test_the_deployed_service_s_artefact() -> None:
    document = open_golden(sealed(SECRET, ORACLE_NAME), key=KEY, name="tbench-2.1-oracle.json")
    assert document == {"answers": {"a": 0.5}}


@pytest.mark.parametrize("vector", baseline("golden_key_material"), ids=lambda v: v["name"])
def test_published_keys(vector: dict[str, Any]) -> None:
    text = bytes.fromhex(vector["input_hex"])
    refusal = refusal_of(lambda: parse_key_text(text))
    if "reject" in vector:
        assert refusal is not None
        assert refusal.reason is Reason.GOLDEN_KEY_MALFORMED
    else:
        assert parse_key_text(text).hex() == vector["expected_key_hex"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        KEY.hex().encode()[:-1],
        b"0x" + KEY.hex().encode(),
        base64.b64encode(KEY).rstrip(b"="),
        base64.b64encode(KEY)[:-2] + b"9=",  # the same 32 bytes, spelt with stray bits
        base64.b64encode(KEY + b"\0"),
        base64.urlsafe_b64encode(b"\xff" * 32),
        KEY + b"\n",
        KEY[:31],
    ],
)
def test_other_spellings_of_a_key_are_refused_and_not_shown(text: bytes) -> None:
    refusal = refusal_of(lambda: parse_key_text(text))
    assert refusal is not None
    assert refusal.reason is Reason.GOLDEN_KEY_MALFORMED
    assert not text or text.decode("latin-1") not in str(refusal)


def test_the_three_spellings_are_one_key() -> None:
    for text in (KEY, KEY.hex().encode(), KEY.hex().upper().encode() + b"\n", b" " + base64.b64encode(KEY) + b"\r\n"):
        assert parse_key_text(text) == KEY


@given(st.binary(max_size=120), st.binary(max_size=40), st.text(max_size=20))
def test_no_input_crashes_it(blob: bytes, key: bytes, name: str) -> None:
    assert refusal_of(lambda: open_envelope(blob, key=key, name=name)) is not None
    refusal_of(lambda: parse_key_text(blob))
    refusal_of(lambda: parse_key_text(key))
