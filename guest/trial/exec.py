"""Run one command in a container and read its output, bounded in time and in bytes.

The engine's exec stream is framed (Docker Engine API, "Attach to a container", stream format): 1 byte stream number,
3 zero bytes, 4 bytes big-endian length, payload. The end of the stream is never waited for alone, since a background
child can hold it open after the command has ended.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.engine import Engine, engine_call

TICK_SEC = 0.25
DRAIN_SEC = 0.2
START_SEC = 60
MARK_SEC = 2
MARK_BYTES = 10
STDERR = 2
_HEADER = struct.Struct(">BxxxL")


@dataclass(frozen=True)
class ExecResult:
    """What came of one command: `output` is stdout and stderr as they came, `exit_code` is None when time ran out."""

    exit_code: int | None
    output: bytes
    truncated: bool
    seconds: float


class _Output:
    """Collects frames: keeps the first `keep` bytes, counts the rest, sets the first line of stderr apart if asked."""

    def __init__(self, keep: int, *, marked: bool) -> None:
        self.kept = bytearray()
        self.truncated = False
        self._keep = keep
        self._mark: bytearray | None = bytearray() if marked else None
        self.marker = b""
        self._pending = bytearray()

    @property
    def marking(self) -> bool:
        """Say whether the marker is still to come."""
        return self._mark is not None

    def feed(self, data: bytes) -> None:
        self._pending += data
        while len(self._pending) >= _HEADER.size:
            stream, length = _HEADER.unpack_from(self._pending)
            if len(self._pending) < _HEADER.size + length:
                return
            payload = bytes(self._pending[_HEADER.size : _HEADER.size + length])
            del self._pending[: _HEADER.size + length]
            self._add(stream, payload)

    def _add(self, stream: int, payload: bytes) -> None:
        if self._mark is not None and stream == STDERR:
            payload = bytes(self._mark) + payload
            line, found, rest = payload.partition(b"\n")
            if len(line) <= MARK_BYTES and not found:
                self._mark[:] = payload
                return
            self._mark = None
            if len(line) <= MARK_BYTES:  # else it is not ours: the container's shell has been replaced
                self.marker, payload = line, rest
        room = self._keep - len(self.kept)
        self.truncated = self.truncated or len(payload) > room
        self.kept += payload[:room]


def run_exec(
    engine: Engine,
    container_id: str,
    argv: Sequence[str],
    *,
    seconds: float,
    stop: threading.Event,
    user: str = "",
    workdir: str = "",
    env: Mapping[str, str] | None = None,
    keep: int = 1 << 20,
    killable: bool = False,
    cut: threading.Event | None = None,
) -> ExecResult:
    """Run `argv` and give its exit code and its first `keep` bytes of output.

    After `seconds`, or once `cut` is set, the result has no exit code; with `killable` the command's process group is
    then killed (the engine has no call for that), otherwise ending it is the caller's affair. A command that is out of
    time has started all the same when this returns: none is left that could start later, after whatever comes next.
    Raises EnvironmentFault for engine errors and Refused(INTERRUPTED) when `stop` is set meanwhile.
    """
    if killable:
        # The engine makes each exec'ed process a session leader, so its pid (in the container) is also its group.
        argv = ["/bin/sh", "-c", 'echo "$$" >&2; exec "$@"', "sh", *argv]
    with engine_call("start a command in the container"):
        exec_id = engine.api.exec_create(
            container_id,
            list(argv),
            user=user,
            workdir=workdir or None,
            environment=dict(env) if env else None,
        )["Id"]
        stream = engine.api.exec_start(exec_id, socket=True)
    started = time.monotonic()
    output = _Output(keep, marked=killable)
    try:
        raw = raw_socket(stream)
        exit_code = _pump(engine, exec_id, raw, output, started + seconds, stop, cut)
        taken = time.monotonic() - started
        if exit_code is None:
            _await_start(engine, exec_id, raw, output, stop)
    finally:
        close_stream(stream)
    if exit_code is None and output.marker.isdigit():
        _kill_group(engine, container_id, int(output.marker), stop)
    return ExecResult(exit_code, bytes(output.kept), output.truncated, taken)


def close_stream(stream: Any) -> None:  # noqa: ANN401 - the client library's own wrapper
    """Close a stream of the client library with the response it belongs to, which it keeps open otherwise."""
    response = getattr(stream, "_response", None)
    if response is not None:
        response.close()
    stream.close()


def raw_socket(stream: object) -> socket.socket:
    """Give the socket inside the client library's wrapper, which must stay alive as long as it is used."""
    raw = getattr(stream, "_sock", stream)
    if not isinstance(raw, socket.socket):
        raise EnvironmentFault(Reason.ENGINE_FAULT, f"the engine's stream is a {type(raw).__name__}, not a socket")
    return raw


def _pump(
    engine: Engine,
    exec_id: str,
    raw: socket.socket,
    output: _Output,
    deadline: float,
    stop: threading.Event,
    cut: threading.Event | None,
) -> int | None:
    """Read until the command has ended and give its exit code, None when the deadline has passed or `cut` is set."""
    last_look = time.monotonic()
    pause = 0.01
    more = True
    while True:
        now = time.monotonic()
        if stop.is_set():
            raise Refused(Reason.INTERRUPTED, "stopped while a command ran in the container")
        if now >= deadline or (cut is not None and cut.is_set()):
            return None
        if more:
            data = _receive(raw, min(TICK_SEC, deadline - now))
            more = data != b""
            if data:
                output.feed(data)
        else:
            # A command may close its output and run on.
            stop.wait(min(pause, deadline - now))
            pause = min(TICK_SEC, 2 * pause)
        now = time.monotonic()
        # A child may hold the stream open, quiet or not, after the command itself has ended.
        if not more or now - last_look > 4 * TICK_SEC:
            last_look = now
            exit_code = _look(engine, exec_id).exit_code
            if exit_code is not None:
                # What it wrote last may have arrived since the stream was read.
                until = time.monotonic() + DRAIN_SEC
                while more and (left := until - time.monotonic()) > 0:
                    data = _receive(raw, left)
                    more = bool(data)
                    output.feed(data or b"")
                return exit_code


def _await_start(engine: Engine, exec_id: str, raw: socket.socket, output: _Output, stop: threading.Event) -> None:
    """Wait until a command that is out of time has started, and for a moment until it has told its process group.

    Raises EnvironmentFault when the engine has not started it after START_SEC.
    """
    deadline = time.monotonic() + START_SEC
    more = True
    while not _look(engine, exec_id).started:
        if stop.is_set():
            raise Refused(Reason.INTERRUPTED, "stopped while a command was starting in the container")
        if time.monotonic() > deadline:
            raise EnvironmentFault(Reason.ENGINE_TIMEOUT, f"the engine has not started a command within {START_SEC} s")
        stop.wait(0.01)
    deadline = time.monotonic() + MARK_SEC
    while more and output.marking and (left := deadline - time.monotonic()) > 0:
        data = _receive(raw, left)
        more = bool(data)
        output.feed(data or b"")


def _receive(raw: socket.socket, seconds: float) -> bytes | None:
    """Take what has arrived, waiting for at most `seconds`: None when nothing has, b"" at the end of the stream."""
    raw.settimeout(max(0.001, seconds))
    try:
        return raw.recv(1 << 16)
    except TimeoutError:
        return None
    except OSError as error:
        raise EnvironmentFault(Reason.ENGINE_FAULT, f"the engine broke off a command's output: {error}") from error


@dataclass(frozen=True)
class _Look:
    """What the engine says of a command; an exit code it does not know is None, never 0."""

    started: bool
    exit_code: int | None


def _look(engine: Engine, exec_id: str) -> _Look:
    with engine_call("look at a command in the container"):
        answer = engine.api.exec_inspect(exec_id)
    code = answer["ExitCode"]
    exit_code = int(code) if isinstance(code, int) and not answer["Running"] else None
    return _Look(started=bool(answer["Pid"]) or exit_code is not None, exit_code=exit_code)


def _kill_group(engine: Engine, container_id: str, pid: int, stop: threading.Event) -> None:
    """Kill a command's process group. What left the group is ended with the phase or the container."""
    run_exec(engine, container_id, ["/bin/sh", "-c", f"kill -9 -{pid} {pid}"], seconds=10, stop=stop, user="0", keep=0)
