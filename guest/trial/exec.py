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
            self._mark += payload
            line, found, payload = bytes(self._mark).partition(b"\n")
            if not found:
                return
            self.marker, self._mark = line, None
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
) -> ExecResult:
    """Run `argv` and give its exit code and its first `keep` bytes of output.

    After `seconds` the result has no exit code; with `killable` the command's process group is then killed (the
    engine has no call for that), otherwise ending it is the caller's affair. Raises EnvironmentFault for engine
    errors and Refused(INTERRUPTED) when `stop` is set meanwhile.
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
        ended = _pump(engine, exec_id, raw_socket(stream), output, started + seconds, stop)
    finally:
        close_stream(stream)
    taken = time.monotonic() - started
    if not ended:
        if killable and output.marker.isdigit():
            _kill_group(engine, container_id, int(output.marker), stop)
        return ExecResult(None, bytes(output.kept), output.truncated, taken)
    return ExecResult(_exit_code(engine, exec_id), bytes(output.kept), output.truncated, taken)


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


def _pump(  # noqa: C901 - one loop, its state and its bounds
    engine: Engine, exec_id: str, raw: socket.socket, output: _Output, deadline: float, stop: threading.Event
) -> bool:
    """Read until the command has ended (True) or the deadline has passed (False)."""
    quiet_since = time.monotonic()
    last_look = quiet_since
    while True:
        now = time.monotonic()
        if stop.is_set():
            raise Refused(Reason.INTERRUPTED, "stopped while a command ran in the container")
        if now >= deadline:
            return False
        raw.settimeout(max(0.001, min(TICK_SEC, deadline - now)))
        try:
            data = raw.recv(1 << 16)
        except TimeoutError:
            data = None
        except OSError as error:
            raise EnvironmentFault(Reason.ENGINE_FAULT, f"the engine broke off a command's output: {error}") from error
        if data == b"":
            return True
        if data:
            output.feed(data)
            quiet_since = time.monotonic()
        now = time.monotonic()
        # A child may hold the stream open, quiet or not, after the command itself has ended.
        if now - last_look > 4 * TICK_SEC:
            last_look = now
            with engine_call("look at a command in the container"):
                running = engine.api.exec_inspect(exec_id)["Running"]
            if not running:
                if now - quiet_since < DRAIN_SEC:
                    output.feed(_drain(raw))
                return True


def _drain(raw: socket.socket) -> bytes:
    """Take what has arrived already, for at most DRAIN_SEC."""
    raw.settimeout(DRAIN_SEC)
    try:
        return raw.recv(1 << 16)
    except TimeoutError:
        return b""


def _exit_code(engine: Engine, exec_id: str) -> int:
    """Ask for the exit code. An unknown one is an error, never 0."""
    for _ in range(20):
        with engine_call("read a command's exit code"):
            answer = engine.api.exec_inspect(exec_id)
        if not answer["Running"] and isinstance(answer["ExitCode"], int):
            return int(answer["ExitCode"])
        time.sleep(0.05)
    raise EnvironmentFault(Reason.ENGINE_FAULT, "the engine gives no exit code for a command that has ended")


def _kill_group(engine: Engine, container_id: str, pid: int, stop: threading.Event) -> None:
    """Kill a command's process group. What left the group is ended with the phase or the container."""
    run_exec(engine, container_id, ["/bin/sh", "-c", f"kill -9 -{pid} {pid}"], seconds=10, stop=stop, user="0", keep=0)
