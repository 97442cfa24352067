"""The second step after a quote reply is normalised: what the peer guesses or mends is refused here.

A guest that emitted a mended log would claim a register that the machine does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from guest.reason import Reason
from guest.wire.event_log import (
    APP_REGISTER,
    RUNTIME_EVENT,
    EventEntry,
    ReplayedLog,
    parse_event_log,
    replay,
    runtime_event_digest,
)
from guest.wire.quote_fields import QuoteFields, read_quote
from guest.wire.quote_reply import (
    NormalisedReply,
    base64_reading,
    hex_reading,
    json_member,
    raw_entries,
    text_reading,
)
from guest.wire.refusal import WireRefused, shown
from guest.wire.vm_config import VmConfig, check_vm_config


@dataclass(frozen=True)
class CheckedReply:
    """A reply that may be emitted: quote (hex) and its fields, entries and what they replay to, machine shape."""

    tdx_quote: str
    quote: QuoteFields
    event_log: tuple[EventEntry, ...]
    replayed: ReplayedLog
    vm_config: VmConfig


def check_normalised(reply: Mapping[str, object], normalised: NormalisedReply) -> CheckedReply:
    """Hold a normalised reply against the reply it came from. Raises WireRefused.

    Refused are: a machine shape that is missing or had to be coerced; a runtime event whose name had to be changed or
    whose payload has no reading with the logged digest; a digest that cannot be read; a log that does not replay to
    the quote's RTMR3; a quote without the structure of version 4.
    """
    config = json_member(reply, "vm_config")
    if normalised.vm_config is None or not isinstance(config, dict):
        _refuse("/vm_config", "must say how many CPUs and how much memory the machine has", config)
    check_vm_config(config)
    log = [
        {**entry, "event_payload": _payload(raw, entry, f"/event_log/{at}")}
        for at, (raw, entry) in enumerate(zip(raw_entries(reply), normalised.event_log, strict=True))
    ]
    entries = parse_event_log(log)
    quote = read_quote(bytes.fromhex(normalised.tdx_quote))
    replayed = replay(entries)
    if replayed.rtmr3 != quote.rtmr3:
        raise WireRefused(
            Reason.EVENT_LOG_REFUSED, "/event_log", f"must replay to the quote's RTMR3 {quote.rtmr3}", replayed.rtmr3
        )
    return CheckedReply(normalised.tdx_quote, quote, entries, replayed, normalised.vm_config)


def _payload(raw: Mapping[str, object], entry: Mapping[str, object], where: str) -> object:
    """Give an entry's payload in the right reading, after refusing a name or digest that was mended."""
    given = raw.get("digest")
    digest = given.strip() if isinstance(given, str) else ""
    logged = next((found for found in (hex_reading(digest), base64_reading(digest)) if found is not None), None)
    if logged is None:
        _refuse(f"{where}/digest", "must be hex or base64", digest)
    if entry["imr"] != APP_REGISTER or entry["event_type"] != RUNTIME_EVENT:
        return entry["event_payload"]
    name, text = raw.get("event"), raw.get("event_payload") or ""
    if name != entry["event"] or not isinstance(name, str):
        _refuse(f"{where}/event", "must need no change: the name of a runtime event is hashed", name)
    readings = [hex_reading(str(text))]
    if logged:
        readings += [base64_reading(str(text)), text_reading(str(text))]
    for reading in readings:
        if reading is not None and logged in {"", runtime_event_digest(name, bytes.fromhex(reading))}:
            return reading
    rule = "read as hex, base64 or text, must have the logged digest" if logged else "must be hex without a digest"
    return _refuse(f"{where}/event_payload", rule, text)


def _refuse(pointer: str, rule: str, got: object) -> NoReturn:
    raise WireRefused(Reason.QUOTE_REPLY_MALFORMED, pointer, rule, shown(got))
