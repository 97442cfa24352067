"""The probe: a value that only this repetition of this run could know, left in the task container and copied out.

It proves that something which was given the value ran in that container; it says nothing about honesty.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal

from docker.errors import NotFound

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.container import copy_out
from guest.trial.engine import Engine
from guest.trial.tarstream import TarLimits

PROBE_PATH = "/var/lib/evalguest/probe"
KEY_BYTES = 32
_DOMAIN = b"evalguest-probe-v1"
_LIMITS = TarLimits(total_bytes=1 << 16, entries=4, keep_bytes=1 << 10)

Writer = Literal["agent", "host"]


def probe_value(key: bytes, *, agent_hash: str, task_digest: str, repetition: int) -> str:
    """Give the value for one repetition (counted from 1) of a task by an agent, as lowercase hex.

    HMAC-SHA256 with the run's `key` (32 bytes) over domain, agent hash, task digest and repetition in decimal, a zero
    byte between each.
    """
    parts = (_DOMAIN, agent_hash.encode(), task_digest.encode(), str(repetition).encode())
    return hmac.new(key, b"\0".join(parts), hashlib.sha256).hexdigest()


def observe_probe(engine: Engine, container_id: str, expected: str) -> None:
    """Copy the probe out of a container in which nothing of the agent runs, and compare; one newline may follow it.

    Raises Refused: PROBE_NOT_OBSERVED when there is no such regular file, PROBE_MISMATCH when it holds something else;
    EnvironmentFault for engine errors.
    """
    try:
        entry = copy_out(engine, container_id, PROBE_PATH, _LIMITS).get("")
    except Refused as refusal:
        raise Refused(Reason.PROBE_NOT_OBSERVED, f"{PROBE_PATH}: {refusal.message}") from refusal
    except EnvironmentFault as fault:
        if isinstance(fault.__cause__, NotFound):
            raise Refused(Reason.PROBE_NOT_OBSERVED, f"there is no {PROBE_PATH} in the container") from fault
        raise
    if entry is None or entry.kind != "file":
        kind = "nothing" if entry is None else entry.kind
        raise Refused(Reason.PROBE_NOT_OBSERVED, f"{PROBE_PATH} is {kind}, expected a regular file")
    if not hmac.compare_digest(entry.data.removesuffix(b"\n"), expected.encode()):
        raise Refused(Reason.PROBE_MISMATCH, f"{PROBE_PATH} does not hold this repetition's value")
