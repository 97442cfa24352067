"""What the peer mends or guesses in a quote reply is refused before anything of it is emitted."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire.event_log import runtime_event_digest
from guest.wire.quote_reply import normalise_reply
from guest.wire.quote_reply_check import CheckedReply, check_normalised
from guest.wire.refusal import WireRefused
from tests.guest.wire.records import request
from tests.guest.wire.replies import RTMR3_OF_DSTACK, RTMR3_OF_PHALA, dstack, made, phala
from tests.guest.wire.values import ANY_VALUES, refusal_of


def checked(reply: dict[str, Any]) -> CheckedReply:
    return check_normalised(reply, normalise_reply(reply))


def refused(reply: dict[str, Any]) -> WireRefused:
    refusal = refusal_of(lambda: checked(reply))
    assert refusal is not None
    return refusal


def runtime_entry(reply: dict[str, Any], at: int = -1) -> dict[str, Any]:
    """One of a reply's runtime events, to be changed in place."""
    entries: list[dict[str, Any]] = [entry for entry in reply["event_log"] if entry["event_type"] == 134217729]
    return entries[at]


def test_real_replies_pass() -> None:
    assert checked(phala()).replayed.rtmr3 == RTMR3_OF_PHALA == checked(phala()).quote.rtmr3
    assert checked(dstack()).replayed.rtmr3 == RTMR3_OF_DSTACK


def test_the_published_result_s_attestation_comes_out_as_it_is() -> None:
    attestation = request()["execution_proof"]["attestation"]
    passed = checked(made())
    assert passed.tdx_quote == attestation["tdx_quote"]
    assert [entry.model_dump() for entry in passed.event_log] == attestation["event_log"]
    assert passed.replayed.rtmr3 == attestation["measurement"]["rtmr3"]
    assert passed.vm_config.model_dump() == {"vcpu": 4, "memory_mb": 8192, "os_image_hash": None}


@pytest.mark.parametrize("form", [json.dumps, lambda log: log], ids=["text", "list"])
def test_spellings_that_change_nothing_pass(form: Callable[[Any], Any]) -> None:
    reply = made()
    for entry in reply["event_log"]:
        entry["digest"] = f" 0x{entry['digest'].upper()} "
        entry["imr"] = str(entry["imr"])
        entry["rest"] = "dropped"
    reply["event_log"] = form(reply["event_log"])
    assert checked(reply) == checked(made())


# --- a replay that fails is never passed over


def test_a_log_of_another_machine_is_refused() -> None:
    refusal = refused({**made(), "event_log": phala()["event_log"]})
    assert refusal.reason is Reason.EVENT_LOG_REFUSED
    assert "RTMR3" in refusal.rule


def test_a_log_that_breaks_a_rule_is_refused() -> None:
    reply = made()
    reply["event_log"] = [entry for entry in reply["event_log"] if entry["event"] != "key-provider"]
    assert refused(reply).reason is Reason.EVENT_LOG_REFUSED


def test_a_blank_digest_outside_the_register_is_refused() -> None:
    reply = phala()
    reply["event_log"][0]["digest"] = ""
    assert refused(reply).pointer == "/event_log/0/digest"


@pytest.mark.parametrize("length", [0, 1, 631, 635, 700, 1219])
def test_a_quote_that_is_cut_off_is_refused(length: int) -> None:
    reply = made()
    quote = bytes.fromhex(reply["quote"])
    assert len(quote) >= 1220
    reply["quote"] = quote[:length].hex() or "00"
    assert refused(reply).reason is Reason.QUOTE_MALFORMED


# --- a runtime event's name is hashed, so it may need no change


@pytest.mark.parametrize("change", [lambda name: name + " ", lambda name: "\u0007" + name, lambda name: name + "é"])
def test_a_name_that_had_to_be_changed_is_refused(change: Callable[[str], str]) -> None:
    reply = made()
    entry = runtime_entry(reply)
    entry["event"] = change(entry["event"])
    refusal = refused(reply)
    assert refusal.reason is Reason.QUOTE_REPLY_MALFORMED
    assert refusal.pointer.endswith("/event")


def test_a_name_that_had_to_be_cut_is_refused() -> None:
    reply = made()
    runtime_entry(reply)["event"] = "x" * 129
    assert refused(reply).pointer.endswith("/event")


# --- a payload is read as what its digest was made of


@pytest.mark.parametrize("text", ["test", "phala", "0a0b0c", "deadbeef", "not hex", '{"name":"kms"}', "aGk="])
def test_the_reading_of_a_payload_is_the_one_with_the_logged_digest(text: str) -> None:
    """Each of these can be read in two ways at least; the peer takes the first."""
    plain = made()
    register = checked(plain).replayed
    assert register
    readings = {text.encode()}
    for read in (bytes.fromhex, base64.b64decode):
        try:
            readings.add(read(text))
        except ValueError:
            continue
    for payload in readings:
        reply = made()
        entry = {"imr": 3, "event_type": 134217729, "event": "extra", "event_payload": text}
        entry["digest"] = runtime_event_digest("extra", payload)
        reply["event_log"].append(entry)
        # The log no longer replays to the quote; but it was read as it was hashed, or the digest would be named.
        refusal = refused(reply)
        assert refusal.pointer == "/event_log", refusal
        assert "RTMR3" in refusal.rule


def test_a_payload_without_such_a_reading_is_refused() -> None:
    reply = made()
    runtime_entry(reply)["event_payload"] = "test"
    refusal = refused(reply)
    assert refusal.pointer.endswith("/event_payload")
    assert "the logged digest" in refusal.rule


def test_without_a_digest_only_hex_is_read() -> None:
    reply = made()
    entry = runtime_entry(reply)
    entry["digest"] = ""
    assert checked(reply) == checked(made())
    entry["event_payload"] = "test"
    refusal = refused(reply)
    assert refusal.pointer.endswith("/event_payload")
    assert "must be hex" in refusal.rule


# --- a digest that cannot be read is not silently made anew


@pytest.mark.parametrize("digest", ["?", "zz" * 48 + "!", "0x0x" + "ab" * 48 + "-"])
def test_a_digest_that_cannot_be_read_is_refused(digest: str) -> None:
    reply = made()
    runtime_entry(reply)["digest"] = digest
    assert normalise_reply(reply).event_log == normalise_reply(made()).event_log  # the peer makes it anew
    refusal = refused(reply)
    assert (refusal.reason, refusal.pointer.rpartition("/")[2]) == (Reason.QUOTE_REPLY_MALFORMED, "digest")


# --- the machine's shape


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        (None, "/vm_config"),
        ("", "/vm_config"),
        ({}, "/vm_config"),
        ({"vcpu": True, "memory_mb": 8192}, "/vm_config/vcpu"),
        ({"vcpu": 4, "memory_mb": 2.9}, "/vm_config/memory_mb"),
        ({"vcpu": 4, "memory_mb": " 8"}, "/vm_config/memory_mb"),
        ({"cpu_count": "4.0", "memory_mb": 8}, "/vm_config/cpu_count"),
    ],
)
def test_shapes_that_are_missing_or_coerced_are_refused(config: object, pointer: str) -> None:
    reply = {**made(), "vm_config": config}
    assert refused(reply).pointer == pointer


@given(st.sampled_from([made(), phala()]), st.data())
def test_no_changed_member_passes_as_another_register(reply: dict[str, Any], data: st.DataObject) -> None:
    reply = copy.deepcopy(reply)
    entry = data.draw(st.sampled_from(reply["event_log"]))
    entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(ANY_VALUES)
    try:
        passed = checked(reply)
    except WireRefused:
        return
    assert passed.replayed.rtmr3 == passed.quote.rtmr3
