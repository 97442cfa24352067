"""The reply to a quote request, brought into wire form as the peer does it: leniently.

`guest.wire.quote_reply_check` is the second step, without which nothing here may be emitted.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from guest.reason import Reason
from guest.wire import canonical
from guest.wire.event_log import APP_REGISTER, RUNTIME_EVENT, runtime_event_digest
from guest.wire.refusal import WireRefused, shown
from guest.wire.vm_config import VmConfig, project_vm_config

_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_INVISIBLE = re.compile(r"[^!-~]")
_NAME_MAX = 128
_TYPE_MAX = 2**32 - 1


@dataclass(frozen=True)
class NormalisedReply:
    """Quote in hex, entries of five members each (not yet held to the entry's form), machine shape if one was given."""

    tdx_quote: str
    event_log: tuple[dict[str, Any], ...]
    vm_config: VmConfig | None


def normalise_reply(reply: Mapping[str, object], *, os_image_hash: str | None = None) -> NormalisedReply:
    """Normalise the members `quote`, `event_log` and `vm_config` of a GetQuote reply.

    `os_image_hash` is the plan's product hash, which replaces the reply's. Raises WireRefused(QUOTE_REPLY_MALFORMED).
    """
    config = json_member(reply, "vm_config")
    if not config:
        projected = None
    else:
        own = config.get("os_image_hash") if isinstance(config, dict) else None
        projected = project_vm_config(config, os_image_hash or (own if isinstance(own, str) else None))
    entries = raw_entries(reply)
    normalised = tuple(_normalise_entry(entry, f"/event_log/{at}") for at, entry in enumerate(entries))
    return NormalisedReply(_quote(reply.get("quote")), normalised, projected)


def raw_entries(reply: Mapping[str, object]) -> list[dict[str, object]]:
    """Give a reply's event log as the list of objects it must be; absent or blank is empty. Raises WireRefused."""
    log = json_member(reply, "event_log")
    if log is None:
        return []
    if not isinstance(log, list):
        _refuse("/event_log", "must be an array", log)
    for at, entry in enumerate(log):
        if not isinstance(entry, dict):
            _refuse(f"/event_log/{at}", "must be an object", entry)
    return log


def json_member(reply: Mapping[str, object], name: str) -> object:
    """Give a member that may be JSON or the text of it; absent or blank is None. Raises WireRefused."""
    value = reply.get(name)
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return canonical.decode_value(value.encode(), floats=True)
    except (WireRefused, UnicodeEncodeError) as error:
        raise WireRefused(Reason.QUOTE_REPLY_MALFORMED, f"/{name}", "must be JSON", shown(value)) from error


def as_number(value: object) -> object:
    """Give an integer for decimal digits and integral floats; anything else unchanged, for the schema to refuse."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal():
        digits = value.strip()
        return int(digits) if len(digits) <= canonical.MAX_DIGITS else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def hex_reading(text: str) -> str | None:
    """Read text as hex: trimmed, lower-cased, without a leading 0x. None when it is no hex."""
    digits = text.strip().lower().removeprefix("0x")
    return digits if _HEX.fullmatch(digits) else None


def base64_reading(text: str) -> str | None:
    """Read text as standard, padded base64 and give the bytes in hex. None when it is none."""
    try:
        return base64.b64decode(text.strip(), validate=True).hex()
    except (binascii.Error, ValueError):
        return None


def text_reading(text: str) -> str:
    """Give the UTF-8 of trimmed text in hex."""
    return text.strip().encode().hex()


def _quote(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        _refuse("/quote", "must be text of hex digits", value)
    digits = hex_reading(value)
    if not digits:
        _refuse("/quote", "must be one or more pairs of hex digits", value)
    return digits


def _normalise_entry(entry: Mapping[str, object], where: str) -> dict[str, Any]:
    for name in ("imr", "event_type"):
        if isinstance(entry.get(name), bool):
            _refuse(f"{where}/{name}", "must be an integer", entry[name])
    imr, event_type = as_number(entry.get("imr")), as_number(entry.get("event_type"))
    digest, payload, name = (_text(entry, member, where) for member in ("digest", "event_payload", "event"))
    digest = next((found for found in (hex_reading(digest), base64_reading(digest)) if found is not None), "")
    readings = (hex_reading(payload), base64_reading(payload), text_reading(payload))
    payload = next(found for found in readings if found is not None)
    runtime = imr == APP_REGISTER and event_type == RUNTIME_EVENT
    if not digest and runtime:
        digest = runtime_event_digest(name, bytes.fromhex(payload))
    return {
        "imr": imr,
        "event_type": event_type,
        "digest": digest,
        "event": _visible(name, event_type, runtime=runtime, where=where),
        "event_payload": payload,
    }


def _visible(name: str, event_type: object, *, runtime: bool, where: str) -> str:
    visible = _INVISIBLE.sub("", name)[:_NAME_MAX]
    if visible:
        return visible
    if runtime:
        _refuse(f"{where}/event", "must be there: the name of a runtime event is hashed into the register", name)
    known = isinstance(event_type, int) and 0 <= event_type <= _TYPE_MAX
    return f"event-type-{event_type}" if known else "event"


def _text(entry: Mapping[str, object], member: str, where: str) -> str:
    value = entry.get(member)
    if value is None:
        return ""
    if not isinstance(value, str):
        _refuse(f"{where}/{member}", "must be text", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        _refuse(f"{where}/{member}", "must not hold a lone surrogate", value)
    return value


def _refuse(pointer: str, rule: str, got: object) -> NoReturn:
    raise WireRefused(Reason.QUOTE_REPLY_MALFORMED, pointer, rule, shown(got))
