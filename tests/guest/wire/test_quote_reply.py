"""Normalising a quote reply as the peer does."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire.event_log import RUNTIME_EVENT, runtime_event_digest
from guest.wire.quote_reply import normalise_reply
from tests.conformance.vectors import baseline
from tests.guest.wire.replies import dstack, phala
from tests.guest.wire.values import ANY_VALUES, refusal_of


def entry_of(**members: Any) -> dict[str, Any]:
    """The one entry that a reply's entry becomes."""
    plain = {"imr": 1, "event_type": 5, "digest": "ab" * 48, "event": "x", "event_payload": ""}
    [entry] = normalise_reply({"quote": "ab", "event_log": [{**plain, **members}]}).event_log
    return entry


@pytest.mark.parametrize("vector", baseline("quote_normalisation"), ids=lambda v: v["name"])
def test_published_replies(vector: dict[str, Any]) -> None:
    if "reject" in vector:
        refusal = refusal_of(lambda: normalise_reply(vector["input"]))
        assert refusal is not None
        assert refusal.reason is Reason.QUOTE_REPLY_MALFORMED
        return
    made = normalise_reply(vector["input"])
    assert made.tdx_quote == vector["expected"]["tdx_quote"]
    assert list(made.event_log) == vector["expected"]["event_log"]
    assert (made.vm_config.model_dump() if made.vm_config else {}) == vector["expected"]["vm_config"]


def test_real_replies() -> None:
    made = normalise_reply(dstack(), os_image_hash="ab" * 32)
    assert made.tdx_quote == dstack()["quote"]
    assert made.vm_config is not None
    assert made.vm_config.model_dump() == {"vcpu": 2, "memory_mb": 2048, "os_image_hash": "ab" * 32}
    assert [entry["event"] for entry in made.event_log if entry["imr"] == 3] == [
        *("system-preparing", "app-id", "compose-hash", "instance-id", "boot-mr-done", "os-image-hash"),
        *("key-provider", "storage-fs", "system-ready"),
    ]
    assert len(normalise_reply(phala()).event_log) == 30


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"imr": "3", "event_type": "7"}, {"imr": 3, "event_type": 7}),
        ({"imr": 2.0}, {"imr": 2}),
        ({"imr": 2.5}, {"imr": 2.5}),
        ({"imr": "x"}, {"imr": "x"}),
        ({"imr": None}, {"imr": None}),
        ({"digest": " 0XAB "}, {"digest": "ab"}),
        ({"digest": base64.b64encode(b"\x01" * 48).decode()}, {"digest": "01" * 48}),
        ({"digest": "?"}, {"digest": ""}),
        ({"event_payload": "plain text"}, {"event_payload": b"plain text".hex()}),
        ({"event_payload": "test"}, {"event_payload": base64.b64decode("test").hex()}),
        ({"event": " \u0007a b\u00e9"}, {"event": "ab"}),
        ({"event": "x" * 200}, {"event": "x" * 128}),
        ({"event": "", "event_type": -1}, {"event": "event"}),
        ({"event": "", "event_type": 2**32}, {"event": "event"}),
        ({"event": "", "event_type": "x"}, {"event": "event"}),
    ],
)
def test_what_the_peer_makes_of_a_member(given_: dict[str, Any], expected: dict[str, Any]) -> None:
    made = entry_of(**given_)
    assert {name: made[name] for name in expected} == expected


def test_only_the_digest_of_a_runtime_event_is_filled_in() -> None:
    runtime = {"imr": 3, "event_type": RUNTIME_EVENT, "digest": None, "event": "x", "event_payload": "00"}
    assert entry_of(**runtime)["digest"] == runtime_event_digest("x", b"\0")
    assert entry_of(**{**runtime, "imr": 2})["digest"] == ""
    assert entry_of(**{**runtime, "event_type": 4})["digest"] == ""


@pytest.mark.parametrize(
    ("reply", "pointer"),
    [
        ({}, "/quote"),
        ({"quote": None}, "/quote"),
        ({"quote": 7}, "/quote"),
        ({"quote": "  "}, "/quote"),
        ({"quote": "0x0xab"}, "/quote"),
        ({"quote": "abc"}, "/quote"),
        ({"quote": "xy"}, "/quote"),
        ({"quote": "ab", "event_log": 7}, "/event_log"),
        ({"quote": "ab", "event_log": "{}"}, "/event_log"),
        ({"quote": "ab", "event_log": '[{"imr":1,"imr":2}]'}, "/event_log"),
        ({"quote": "ab", "event_log": "\ud800"}, "/event_log"),
        ({"quote": "ab", "event_log": [7]}, "/event_log/0"),
        ({"quote": "ab", "event_log": [{"event_type": False}]}, "/event_log/0/event_type"),
        ({"quote": "ab", "event_log": [{"digest": 7}]}, "/event_log/0/digest"),
        ({"quote": "ab", "event_log": [{"event": ["x"]}]}, "/event_log/0/event"),
        ({"quote": "ab", "event_log": [{"event": "\ud800"}]}, "/event_log/0/event"),
        ({"quote": "ab", "vm_config": "nope"}, "/vm_config"),
        ({"quote": "ab", "vm_config": [1]}, "/vm_config"),
        ({"quote": "ab", "vm_config": {"vcpu": 1}}, "/vm_config/memory_size"),
        ({"quote": "ab", "vm_config": {"vcpu": "x", "memory_mb": 1}}, "/vm_config/vcpu"),
        ({"quote": "ab", "vm_config": {"vcpu": 2**64, "memory_mb": 1}}, "/vm_config/vcpu"),
    ],
)
def test_replies_that_are_refused(reply: dict[str, Any], pointer: str) -> None:
    refusal = refusal_of(lambda: normalise_reply(reply))
    assert refusal is not None
    assert (refusal.reason, refusal.pointer) == (Reason.QUOTE_REPLY_MALFORMED, pointer)


def test_json_text_and_json_are_alike() -> None:
    reply = phala()
    text = {**reply, "event_log": json.dumps(reply["event_log"]), "vm_config": json.dumps(reply["vm_config"])}
    assert normalise_reply(text) == normalise_reply(reply)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "quote": ANY_VALUES | st.sampled_from(["ab", " 0xAB"]),
            "event_log": ANY_VALUES
            | st.lists(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "imr": ANY_VALUES,
                        "event_type": ANY_VALUES,
                        "digest": ANY_VALUES,
                        "event": ANY_VALUES,
                        "event_payload": ANY_VALUES,
                    },
                ),
                max_size=2,
            ),
            "vm_config": ANY_VALUES,
        },
    )
)
def test_no_reply_crashes_it(reply: dict[str, Any]) -> None:
    refusal = refusal_of(lambda: normalise_reply(reply))
    assert refusal is None or refusal.reason is Reason.QUOTE_REPLY_MALFORMED
