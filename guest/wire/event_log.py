"""The event log of a confidential VM, and the register that it must replay to.

Only the application register, RTMR3 (IMR 3), is replayed: the log's other entries are carried along. The dstack guest
agent writes runtime events; what else extends the register counts by its logged digest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha384
from typing import Annotated, ClassVar, NoReturn

from pydantic import Field

from guest.reason import Reason
from guest.wire import canonical
from guest.wire.refusal import WireRefused, shown
from guest.wire.scalars import Closed, Id, Register, pattern

APP_REGISTER = 3
RUNTIME_EVENT = 0x08000001
MAX_ENTRIES = 4096
MAX_LOG_BYTES = 2 * 1024 * 1024
MAX_PAYLOAD_DIGITS = 16_384

COMPOSE_HASH = "compose-hash"
KEY_PROVIDER = "key-provider"

_COMPOSE_HASH_DIGITS = 64
_LOOKALIKE = re.compile(r"compose[-_]?hash|key[-_]?provider", re.IGNORECASE)
_ID = re.compile(r"[!-~]{1,128}")
_PHALA = frozenset({"kms", "phala", "phala-kms"})

Payload = Annotated[
    str,
    Field(
        max_length=MAX_PAYLOAD_DIGITS,
        pattern=pattern(r"(?:[0-9a-f]{2})*", "must be pairs of lowercase hex digits"),
    ),
]


class EventEntry(Closed):
    """One entry: the register it extended, the kind of event, the digest that extended it, name and payload (hex)."""

    reason: ClassVar[Reason] = Reason.EVENT_LOG_REFUSED

    imr: Annotated[int, Field(ge=0, le=APP_REGISTER)]
    event_type: Annotated[int, Field(ge=0, le=2**32 - 1)]
    digest: Register
    event: Id
    event_payload: Payload

    @property
    def is_runtime(self) -> bool:
        """Whether its digest is one of name and payload, in the application register."""
        return self.imr == APP_REGISTER and self.event_type == RUNTIME_EVENT


@dataclass(frozen=True)
class ReplayedLog:
    """What a log says once its digests are checked: RTMR3 (96 hex digits), compose hash (64), key provider's name."""

    rtmr3: str
    compose_hash: str
    key_provider_pin: str


def runtime_event_digest(event: str, payload: bytes) -> str:
    """Give the SHA-384, in hex, by which a runtime event extends RTMR3 (dstack: `cc-eventlog`, runtime events)."""
    head = RUNTIME_EVENT.to_bytes(4, "little")
    return sha384(b":".join((head, event.encode(), payload))).hexdigest()


def parse_event_log(value: object) -> tuple[EventEntry, ...]:
    """Read a decoded JSON array of entries. Raises WireRefused(EVENT_LOG_REFUSED)."""
    if not isinstance(value, list):
        _refuse("", "must be an array", value)
    entries: list[EventEntry] = []
    for at, item in enumerate(value):
        try:
            entries.append(EventEntry.parse(item))
        except WireRefused as refusal:
            raise refusal.under(f"/event_log/{at}", Reason.EVENT_LOG_REFUSED) from refusal
    return tuple(entries)


def replay(entries: Sequence[EventEntry]) -> ReplayedLog:
    """Recompute RTMR3 from a log, by every rule for its acceptance. Raises WireRefused(EVENT_LOG_REFUSED).

    There is one compose-hash and then one key-provider, both runtime events of IMR 3; no name comes close to theirs;
    each runtime event has the digest of its name and payload.
    """
    if not 1 <= len(entries) <= MAX_ENTRIES:
        _refuse("", f"must have 1 to {MAX_ENTRIES} entries", len(entries))
    size = len(json.dumps([entry.model_dump() for entry in entries], separators=(",", ":")))
    if size > MAX_LOG_BYTES:
        _refuse("", f"must have at most {MAX_LOG_BYTES} bytes as compact JSON", size)
    register = bytes(48)
    for at, entry in enumerate(entries):
        if entry.event not in {COMPOSE_HASH, KEY_PROVIDER} and _LOOKALIKE.fullmatch(entry.event):
            _refuse(f"/{at}/event", f"must not come close to {COMPOSE_HASH} or {KEY_PROVIDER}", entry.event)
        if entry.is_runtime and entry.digest != runtime_event_digest(entry.event, bytes.fromhex(entry.event_payload)):
            _refuse(f"/{at}/digest", "must be the digest of the event's name and payload", entry.digest)
        if entry.imr == APP_REGISTER:
            register = sha384(register + bytes.fromhex(entry.digest)).digest()
    compose_at, compose = _only(entries, COMPOSE_HASH)
    provider_at, provider = _only(entries, KEY_PROVIDER)
    if provider_at < compose_at:
        _refuse(f"/{provider_at}/event", f"must come after {COMPOSE_HASH}", KEY_PROVIDER)
    if len(compose.event_payload) != _COMPOSE_HASH_DIGITS:
        _refuse(f"/{compose_at}/event_payload", "must be 32 bytes", compose.event_payload)
    pin = _key_provider_pin(bytes.fromhex(provider.event_payload), f"/{provider_at}/event_payload")
    return ReplayedLog(register.hex(), compose.event_payload, pin)


def _only(entries: Sequence[EventEntry], name: str) -> tuple[int, EventEntry]:
    found = [(at, entry) for at, entry in enumerate(entries) if entry.event == name]
    if len(found) != 1:
        _refuse("", f"must have exactly one {name} event", len(found))
    at, entry = found[0]
    if not entry.is_runtime:
        _refuse(f"/{at}", f"must be a runtime event of IMR {APP_REGISTER}, as {name} always is", entry.imr)
    return at, entry


def _key_provider_pin(payload: bytes, where: str) -> str:
    """Give a provider's name: the payload's text, or where that is an object its `name` (else `type`)."""
    try:
        text = payload.decode().strip()
    except UnicodeDecodeError:
        _refuse(where, "must be UTF-8", payload.hex())
    if text.startswith("{"):
        try:
            document = canonical.decode(text.encode())
        except WireRefused as refusal:
            _refuse(where, f"must be a JSON object that names the provider; it {refusal.rule}", text)
        name = document.get("name") or document.get("type")
        text = name.lower() if isinstance(name, str) else ""
        text = "phala" if text in _PHALA else text
    if not _ID.fullmatch(text):
        _refuse(where, "must name the key provider in 1 to 128 printable characters", text)
    return text


def _refuse(where: str, rule: str, got: object) -> NoReturn:
    raise WireRefused(Reason.EVENT_LOG_REFUSED, f"/event_log{where}", rule, shown(got))
