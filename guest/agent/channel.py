"""The one stream between the orchestrator and an agent host, seen from the orchestrator: hostile input.

The engine frames what a container writes (Docker Engine API, "Attach to a container", stream format): stdout carries
our messages, stderr whatever the agent prints. A message is 4 bytes of big-endian length and one JSON object. Reading
is slowed to a rate, so that a flood costs the one who sends it.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.agent import AgentLog
from guest.wire import canonical
from guest.wire.refusal import WireRefused

MAX_MESSAGE_BYTES = canonical.MAX_BYTES
TICK_SEC = 0.25
SEND_SEC = 30
BURST_BYTES, BYTES_A_SEC = 64 << 20, 16 << 20
BURST_MESSAGES, MESSAGES_A_SEC = 1000, 400

_FRAME = struct.Struct(">BxxxL")
_LENGTH = struct.Struct(">L")
_STDOUT, _STDERR = 1, 2
_PIECE = 1 << 18


class Channel:
    """Messages to and from one agent host."""

    def __init__(self, raw: socket.socket, log: AgentLog) -> None:
        """Take over the attached stream of a container that has not started yet; what it prints goes to `log`."""
        raw.settimeout(0)
        self._log = log
        self._socket = raw
        self._sending = threading.Lock()
        self._arrived = bytearray()
        self._messages = bytearray()
        self._bytes = _Rate(BURST_BYTES, BYTES_A_SEC)
        self._count = _Rate(BURST_MESSAGES, MESSAGES_A_SEC)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message whole. Raises Refused(AGENT_CHANNEL_BROKEN) when the host takes nothing for 30 s."""
        data = json.dumps(message, ensure_ascii=True).encode()
        view = memoryview(_LENGTH.pack(len(data)) + data)
        with self._sending:
            deadline = time.monotonic() + SEND_SEC
            while view:
                if time.monotonic() > deadline:
                    _broken(f"took nothing for {SEND_SEC} s")
                _, writable, _ = select.select([], [self._socket], [], TICK_SEC)
                if not writable:
                    continue
                try:
                    sent = self._socket.send(view[:_PIECE])
                except BlockingIOError:
                    continue
                except OSError as error:
                    _broken(f"is gone: {error}")
                if sent:
                    deadline = time.monotonic() + SEND_SEC
                view = view[sent:]

    def receive(self) -> Iterator[dict[str, Any] | None]:
        """Give each message as it arrives, and None at least about every quarter of a second, whatever else arrives.

        Ends when the host has. Raises Refused(AGENT_CHANNEL_BROKEN) for what is not a message, EnvironmentFault when
        the engine breaks the stream off.
        """
        told = time.monotonic()
        while True:
            while (message := self._next_message()) is not None:
                while not self._count.take(1):
                    time.sleep(TICK_SEC)
                    yield None
                yield message
            if time.monotonic() - told >= TICK_SEC:
                told = time.monotonic()
                yield None
            if not self._bytes.take(0):
                time.sleep(TICK_SEC)
            elif select.select([self._socket], [], [], TICK_SEC)[0] and not self._take():
                return

    def _take(self) -> bool:
        """Take what has arrived; False at the end of the stream."""
        try:
            data = self._socket.recv(_PIECE)
        except BlockingIOError:
            return True
        except OSError as error:
            raise EnvironmentFault(Reason.ENGINE_FAULT, f"the engine broke off an agent's channel: {error}") from error
        self._bytes.take(len(data))
        self._arrived += data
        self._split()
        return bool(data)

    def _split(self) -> None:
        """Tell the two streams apart; a frame that is still incomplete is passed on as far as it goes."""
        while len(self._arrived) >= _FRAME.size:
            stream, length = _FRAME.unpack_from(self._arrived)
            payload = bytes(self._arrived[_FRAME.size : _FRAME.size + length])
            if not payload and length:
                return
            if len(payload) < length:
                self._arrived[: _FRAME.size + len(payload)] = _FRAME.pack(stream, length - len(payload))
            else:
                del self._arrived[: _FRAME.size + length]
            if stream == _STDOUT:
                self._messages += payload
            elif stream == _STDERR:
                self._log.add(payload)

    def _next_message(self) -> dict[str, Any] | None:
        if len(self._messages) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._messages)
        if length > MAX_MESSAGE_BYTES:
            _broken(f"announced a message of {length} bytes, at most {MAX_MESSAGE_BYTES} are taken")
        end = _LENGTH.size + length
        if len(self._messages) < end:
            return None
        data = bytes(self._messages[_LENGTH.size : end])
        del self._messages[:end]
        try:
            message = canonical.decode_value(data, floats=True)
        except WireRefused as refusal:
            raise Refused(
                Reason.AGENT_CHANNEL_BROKEN, f"the agent host sent a message that {refusal.rule}"
            ) from refusal
        if not isinstance(message, dict):
            _broken("sent a message that is no object")
        return message


class _Rate:
    """A bucket of tokens, filled again at a constant rate; it may be overdrawn once, and is then empty for long."""

    def __init__(self, burst: float, a_second: float) -> None:
        self._left = self._burst = burst
        self._a_second = a_second
        self._at = time.monotonic()

    def take(self, amount: float) -> bool:
        """Take an amount; False, and nothing taken, while the bucket is empty."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._a_second)
        self._at = now
        if self._left <= 0:
            return False
        self._left -= amount
        return True


def _broken(what: str) -> NoReturn:
    raise Refused(Reason.AGENT_CHANNEL_BROKEN, f"the agent host {what}")
