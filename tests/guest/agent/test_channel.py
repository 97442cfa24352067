"""The channel by itself, over a pair of sockets: frames, messages, rates, and a peer that takes nothing."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guest.agent import channel
from guest.agent.channel import Channel
from guest.errors import Refused
from guest.reason import Reason
from guest.trial.agent import LOG_KEEP_BYTES, AgentLog


def framed(payload: bytes, stream: int = 1) -> bytes:
    """What the engine sends for bytes that a container wrote."""
    return struct.pack(">BxxxL", stream, len(payload)) + payload


def message(value: object) -> bytes:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack(">L", len(data)) + data


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket, AgentLog]]:
    ours, theirs = socket.socketpair()
    log = AgentLog()
    with ours, theirs:
        yield Channel(ours, log), theirs, log


def read_all(data: bytes, pieces: int = 1 << 20) -> tuple[list[dict[str, Any]], AgentLog, Refused | None]:
    """Everything that a host's bytes say, given in pieces of a size."""
    ours, theirs = socket.socketpair()
    log = AgentLog()
    messages: list[dict[str, Any]] = []
    with ours, theirs:
        made = Channel(ours, log)

        def send() -> None:
            for at in range(0, len(data), pieces):
                theirs.sendall(data[at : at + pieces])
            theirs.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        try:
            for each in made.receive():
                if each is not None:
                    messages.append(each)  # noqa: PERF401 - what came before a refusal counts
        except Refused as refusal:
            return messages, log, refusal
        finally:
            sender.join(5)
    return messages, log, None


@pytest.mark.parametrize("pieces", [1, 3, 7, 1 << 20])
def test_messages_and_prints_are_told_apart_however_they_are_cut(pieces: int) -> None:
    first, second = message({"verb": "a"}), message({"verb": "é", "args": [1, 1.5, None]})
    whole = first + second
    data = framed(whole[:5]) + framed(b"printed ", 2) + framed(whole[5:9]) + framed(b"") + framed(b"more", 2)
    data += framed(whole[9:])
    messages, log, refusal = read_all(data, pieces)
    assert messages == [{"verb": "a"}, {"verb": "é", "args": [1, 1.5, None]}]
    assert (bytes(log.kept), log.size, refusal) == (b"printed more", 12, None)


@pytest.mark.parametrize(
    "data",
    [
        message(b"{"),
        message(b"[]"),
        message(b"7"),
        message(b"\xff"),
        message(b'{"a":NaN}'),
        message(b'{"a":1,"a":1}'),
        message(b'{"a":' * 40 + b"1" + b"}" * 40),
        message(b""),
        struct.pack(">L", (16 << 20) + 1),
        struct.pack(">L", 2**32 - 1),
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    messages, _, refusal = read_all(framed(message({"verb": "before"})) + framed(data))
    assert messages == [{"verb": "before"}]
    assert refusal is not None
    assert refusal.reason is Reason.AGENT_CHANNEL_BROKEN


def test_a_message_that_never_ends_is_none() -> None:
    assert read_all(framed(struct.pack(">L", 100) + b"{}"))[0] == []
    assert read_all(struct.pack(">BxxxL", 1, 1000) + b"\0\0")[0] == []


def test_of_the_log_the_end_is_kept() -> None:
    data = b"".join(framed(bytes([65 + at]) * 100_000, 2) for at in range(15))
    _, log, _ = read_all(data)
    assert log.size == 1_500_000
    assert len(log.kept) == LOG_KEEP_BYTES
    assert log.kept.endswith(b"O" * 100_000)


def test_none_comes_in_between_though_something_always_arrives(ends: tuple[Channel, socket.socket, AgentLog]) -> None:
    made, theirs, _ = ends
    over = threading.Event()

    def print_steadily() -> None:
        while not over.wait(0.001):
            theirs.sendall(framed(b"x" * 4096, 2))

    printer = threading.Thread(target=print_steadily, daemon=True)
    printer.start()
    began = time.monotonic()
    received = made.receive()
    assert [next(received) for _ in range(3)] == [None, None, None]
    assert time.monotonic() - began < 5
    over.set()
    printer.join(5)


def test_messages_beyond_the_rate_wait(ends: tuple[Channel, socket.socket, AgentLog], monkeypatch: Any) -> None:
    made, theirs, _ = ends
    monkeypatch.setattr(made._count, "_left", 2.0)
    monkeypatch.setattr(made._count, "_burst", 2.0)
    monkeypatch.setattr(made._count, "_a_second", 2.0)
    theirs.sendall(framed(message({"verb": "a"}) * 4))
    received = made.receive()
    got = [next(received) for _ in range(8)]
    assert got[:2] == [{"verb": "a"}] * 2
    assert None in got[2:]
    assert got.count({"verb": "a"}) >= 3


def test_a_host_that_takes_nothing_is_given_up(
    ends: tuple[Channel, socket.socket, AgentLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "SEND_SEC", 0.6)
    with pytest.raises(Refused) as caught:
        ends[0].send({"data": "x" * (8 << 20)})
    assert caught.value.reason is Reason.AGENT_CHANNEL_BROKEN


def test_a_host_that_is_gone_is_told(ends: tuple[Channel, socket.socket, AgentLog]) -> None:
    ends[1].close()
    with pytest.raises(Refused) as caught:
        ends[0].send({"data": "x" * (1 << 20)})
    assert caught.value.reason is Reason.AGENT_CHANNEL_BROKEN


def test_what_is_sent_arrives_whole(ends: tuple[Channel, socket.socket, AgentLog]) -> None:
    made, theirs, _ = ends
    sent = {"data": "é" * 500_000}
    sender = threading.Thread(target=made.send, args=(sent,))
    sender.start()
    data = bytearray()
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">L", data)[0]:
        data += theirs.recv(1 << 16)
    sender.join(5)
    assert json.loads(data[4:]) == sent


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.binary(max_size=40)
        | st.binary(max_size=20).map(framed)
        | st.binary(max_size=20).map(lambda b: framed(message(b))),
        max_size=5,
    )
)
def test_no_bytes_crash_it(parts: list[bytes]) -> None:
    _, _, refusal = read_all(b"".join(parts))
    assert refusal is None or refusal.reason is Reason.AGENT_CHANNEL_BROKEN
