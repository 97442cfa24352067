"""Event logs: the digest of an event, the register they replay to, and the logs that are refused."""

from __future__ import annotations

import json
from hashlib import sha384
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire.event_log import EventEntry, parse_event_log, replay, runtime_event_digest
from guest.wire.quote_fields import read_quote
from tests.conformance.vectors import baseline
from tests.guest.wire.replies import RTMR3_OF_DSTACK, RTMR3_OF_PHALA, dstack, phala
from tests.guest.wire.values import ANY_VALUES, refusal_of

REPLAYS = baseline("rtmr3_replay")
RUNTIME = 0x08000001
COMPOSE = {"event": "compose-hash", "event_payload": "ab" * 32}
PROVIDER = {"event": "key-provider", "event_payload": "7068616c61"}


def event(event: str = "x", event_payload: str = "", **other: Any) -> dict[str, Any]:
    """A runtime event with its digest, worked out here."""
    data = RUNTIME.to_bytes(4, "little") + b":" + event.encode() + b":" + bytes.fromhex(event_payload)
    made = {"imr": 3, "event_type": RUNTIME, "digest": sha384(data).hexdigest()}
    return {**made, "event": event, "event_payload": event_payload, **other}


def log_of(*entries: dict[str, Any]) -> tuple[EventEntry, ...]:
    return parse_event_log(list(entries))


@pytest.mark.parametrize("vector", baseline("runtime_event_digest"), ids=lambda v: v["name"])
def test_published_digests(vector: dict[str, Any]) -> None:
    given_ = vector["input"]
    digest = runtime_event_digest(given_["event"], bytes.fromhex(given_["event_payload"]))
    assert digest == vector["expected"]["digest"]


@pytest.mark.parametrize("vector", REPLAYS, ids=lambda v: v["name"])
def test_published_replays(vector: dict[str, Any]) -> None:
    refusal = refusal_of(lambda: replay(parse_event_log(vector["input"])))
    if "reject" in vector:
        assert refusal is not None
        assert refusal.reason is Reason.EVENT_LOG_REFUSED
    else:
        assert vars(replay(parse_event_log(vector["input"]))) == vector["expected"]


def test_the_register_of_real_machines() -> None:
    named = [{**entry, "event": entry["event"] or "unnamed"} for entry in phala()["event_log"]]
    replayed = replay(parse_event_log(named))
    assert replayed.rtmr3 == RTMR3_OF_PHALA == read_quote(bytes.fromhex(phala()["quote"])).rtmr3
    assert replayed.compose_hash == "1b8a63efb0f7afda1e52c823f39cc0a79d6d75c2e7a086b58e0e6a2db548524b"
    assert replayed.key_provider_pin == "phala"
    log = json.loads(dstack()["event_log"])
    for entry in log:  # a guest agent leaves out what it has hashed from name and payload
        entry["event"] = entry["event"] or "unnamed"
        if entry["imr"] == 3 and not entry["digest"]:
            entry["digest"] = runtime_event_digest(entry["event"], bytes.fromhex(entry["event_payload"]))
    assert replay(parse_event_log(log)).rtmr3 == RTMR3_OF_DSTACK


def test_replay_by_hand() -> None:
    register = bytes(48)
    foreign = event("y", event_type=7, digest="cd" * 48)
    for digest in (event(**COMPOSE)["digest"], foreign["digest"], event(**PROVIDER)["digest"]):
        register = sha384(register + bytes.fromhex(digest)).digest()
    other_register = event("z", imr=0, digest="ef" * 48)
    replayed = replay(log_of(event(**COMPOSE), other_register, foreign, event(**PROVIDER)))
    assert replayed.rtmr3 == register.hex()


@pytest.mark.parametrize(
    ("payload", "pin"),
    [
        (b"phala", "phala"),
        (b"  other \n", "other"),
        (b"KMS", "KMS"),
        (b'{"name":"kms","id":"30"}', "phala"),
        (b'{"name": "Phala-KMS"}', "phala"),
        (b'{"type":"Local"}', "local"),
        (b'{"name":"a","type":"b"}', "a"),
    ],
)
def test_the_key_provider_s_name(payload: bytes, pin: str) -> None:
    log = log_of(event(**COMPOSE), event("key-provider", payload.hex()))
    assert replay(log).key_provider_pin == pin


@pytest.mark.parametrize(
    "payload",
    [b"", b" ", b"a b", b"\xff", b"x" * 129, b"{", b'{"name":1}', b"{}", b'{"name":"a","name":"b"}', "é".encode()],
)
def test_key_providers_without_a_name(payload: bytes) -> None:
    refusal = refusal_of(lambda: replay(log_of(event(**COMPOSE), event("key-provider", payload.hex()))))
    assert refusal is not None
    assert refusal.pointer == "/event_log/1/event_payload"


@pytest.mark.parametrize(
    ("log", "pointer"),
    [
        ([], "/event_log"),
        ([event(**PROVIDER)], "/event_log"),
        ([event(**COMPOSE)], "/event_log"),
        ([event(**COMPOSE), event(**COMPOSE), event(**PROVIDER)], "/event_log"),
        ([event(**COMPOSE), event(**PROVIDER), event(**PROVIDER)], "/event_log"),
        ([event(**PROVIDER), event(**COMPOSE)], "/event_log/0/event"),
        ([event(**COMPOSE, imr=2), event(**PROVIDER)], "/event_log/0"),
        ([event(**COMPOSE, event_type=4), event(**PROVIDER)], "/event_log/0"),
        ([event(**COMPOSE), event(**PROVIDER, imr=0)], "/event_log/1"),
        ([event("compose-hash", "ab" * 31), event(**PROVIDER)], "/event_log/0/event_payload"),
        ([event("compose-hash"), event(**PROVIDER)], "/event_log/0/event_payload"),
        ([event(**COMPOSE), event(**PROVIDER), event("x", "00", digest="ab" * 48)], "/event_log/2/digest"),
        ([event(**COMPOSE), event(**PROVIDER), {**event("x", "00"), "event_payload": "01"}], "/event_log/2/digest"),
        *(
            ([event(**COMPOSE), event(**PROVIDER), event(name)], "/event_log/2/event")
            for name in (
                "Compose-Hash",
                "compose_hash",
                "COMPOSEHASH",
                "composehash",
                "key_provider",
                "keyprovider",
                "Key-Provider",
            )
        ),
        *(
            ([event(**COMPOSE), event(**PROVIDER), event(name, imr=0)], "/event_log/2/event")
            for name in ("Compose-Hash", "KEY_PROVIDER")
        ),
    ],
)
def test_logs_that_are_refused(log: list[dict[str, Any]], pointer: str) -> None:
    refusal = refusal_of(lambda: replay(log_of(*log)))
    assert refusal is not None
    assert (refusal.reason, refusal.pointer) == (Reason.EVENT_LOG_REFUSED, pointer)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("imr", 4),
        ("imr", -1),
        ("imr", True),
        ("imr", 3.0),
        ("event_type", 2**32),
        ("digest", "ab" * 47),
        ("digest", "AB" * 48),
        ("digest", ""),
        ("event", ""),
        ("event", "a b"),
        ("event", "é"),
        ("event", "x" * 129),
        ("event_payload", "abc"),
        ("event_payload", "0x00"),
        ("event_payload", "AB"),
        ("event_payload", "ab" * 8193),
        ("event_payload", None),
        ("version", 2),
    ],
)
def test_entries_that_are_refused(member: str, value: object) -> None:
    refusal = refusal_of(lambda: log_of(event(**COMPOSE), {**event(**PROVIDER), member: value}))
    assert refusal is not None
    assert (refusal.reason, refusal.pointer) == (Reason.EVENT_LOG_REFUSED, f"/event_log/1/{member}")


def test_bounds_of_a_log() -> None:
    pair = [event(**COMPOSE), event(**PROVIDER)]
    assert replay(log_of(*pair, *[event()] * 4094)).key_provider_pin == "phala"
    too_many = refusal_of(lambda: replay(log_of(*pair, *[event()] * 4095)))
    assert too_many is not None
    assert "4096" in too_many.rule
    large = event("x", "ab" * 8192)
    assert replay(log_of(*pair, *[large] * 120)).key_provider_pin == "phala"
    too_large = refusal_of(lambda: replay(log_of(*pair, *[large] * 130)))
    assert too_large is not None
    assert "2097152 bytes" in too_large.rule


@given(ANY_VALUES | st.lists(ANY_VALUES | st.sampled_from([event(**COMPOSE), event(**PROVIDER), event()]), max_size=4))
def test_no_value_crashes_it(value: Any) -> None:
    refusal = refusal_of(lambda: replay(parse_event_log(value)))
    assert refusal is None or refusal.reason is Reason.EVENT_LOG_REFUSED


@given(st.sampled_from([v["input"] for v in REPLAYS if "expected" in v]), st.data())
def test_any_changed_byte_of_a_runtime_event_is_refused_or_changes_the_register(log: Any, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(log) - 1))
    member = data.draw(st.sampled_from(["digest", "event_payload"]))
    value = log[at][member]
    if not value:
        return
    place = data.draw(st.integers(0, len(value) - 1))
    other = data.draw(st.sampled_from([digit for digit in "0123456789abcdef" if digit != value[place]]))
    changed = [*log]
    changed[at] = {**log[at], member: value[:place] + other + value[place + 1 :]}
    assert refusal_of(lambda: replay(parse_event_log(changed))) is not None
