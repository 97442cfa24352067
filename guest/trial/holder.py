"""The holder of a slot: one idle container of ours whose network namespace the slot's trial containers join.

It lives as long as the job, which saves each trial the making and removing of a network namespace and, with network,
of a bridge. A holder without network has loopback only; one with network sits on a bridge of its own on which
containers cannot reach each other, and can be cut from it and joined again between the phases of a trial.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guest.errors import EnvironmentFault
from guest.reason import Reason
from guest.trial import container
from guest.trial.container import OWNER_LABEL, ContainerSpec
from guest.trial.engine import Engine, engine_call
from guest.trial.exec import close_stream, raw_socket

ANSWER_SEC = 20
_PROGRAM = Path(__file__).with_name("holder_program.py")


@dataclass(frozen=True)
class HolderImage:
    """The image holders run: ours, with a Python 3 in it."""

    ref: str


class Holder:
    """A started holder. Use one trial at a time; `close` removes it and its bridge."""

    def __init__(self, engine: Engine, image: HolderImage, run_id: str, name: str, *, network: bool) -> None:
        """Create and start the holder, with a bridge of its own when `network`. Raises EnvironmentFault or Refused."""
        self._engine = engine
        self._bridge = name if network else None
        self._bridge_id: str | None = None
        self._connected = network
        self._lock = threading.Lock()
        self.container_id = ""
        self._opened = ExitStack()
        try:
            if self._bridge:
                self._bridge_id = _create_bridge(engine, self._bridge, run_id)
            spec = ContainerSpec(
                name=name,
                image=image.ref,
                run_id=run_id,
                role="holder",
                network=self._bridge or "none",
                command=("python3", "-I", "-S", "-c", _PROGRAM.read_text()),
                open_stdin=True,
            )
            self.container_id, _ = container.create(engine, spec)
            stream = _attach(engine, self.container_id)
            self._opened.callback(close_stream, stream)
            self._socket = raw_socket(stream)
            self._socket.settimeout(ANSWER_SEC)
            self._frames = self._opened.enter_context(self._socket.makefile("rb"))
            container.start(engine, self.container_id)
            self._answer()
        except BaseException:
            self.close()
            raise

    @property
    def network_mode(self) -> str:
        """What a container's NetworkMode says to join this holder."""
        return f"container:{self.container_id}"

    @property
    def connected(self) -> bool:
        """Say whether the holder is joined to its bridge."""
        return self._connected

    def reset(self) -> None:
        """Undo whatever a trial wrote to the shared hosts, hostname and resolv.conf."""
        self._ask({"do": "reset"})

    def set_network(self, *, connected: bool) -> None:
        """Join the holder to its bridge or cut it off. A holder without network can only be cut off.

        The engine reads the shared files whole when it switches, however large a trial has made them, so they are put
        back first; the caller sees to it that nothing writes to them meanwhile.
        """
        if connected == self._connected:
            return
        if self._bridge_id is None:
            raise EnvironmentFault(Reason.ENGINE_FAULT, "a holder without network was asked to join one")
        self.reset()
        with engine_call("switch the network of a slot"):
            if connected:
                self._engine.api.connect_container_to_network(self.container_id, self._bridge_id)
            else:
                self._engine.api.disconnect_container_from_network(self.container_id, self._bridge_id, force=True)
        self._connected = connected

    def gateway_answers(self) -> bool:
        """Say whether a listener on this machine can be reached from the slot through its gateway."""
        if self._bridge_id is None:
            return False
        with engine_call("read the slot's network"):
            gateway = self._engine.api.inspect_network(self._bridge_id)["IPAM"]["Config"][0]["Gateway"]
        with socket.create_server(("0.0.0.0", 0)) as listener:  # noqa: S104 - the probe must find it from outside
            return bool(self._ask({"do": "probe", "host": gateway, "port": listener.getsockname()[1]})["reached"])

    def close(self) -> None:
        """Remove the holder and its bridge. Raises EnvironmentFault when they cannot be removed."""
        try:
            self._opened.close()
            if self.container_id:
                container.remove(self._engine, self.container_id)
        finally:
            if self._bridge_id:
                remove_network(self._engine, self._bridge_id)
                self._bridge_id = None

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            try:
                self._socket.sendall(json.dumps(request).encode() + b"\n")
            except OSError as error:
                raise EnvironmentFault(Reason.ENGINE_FAULT, f"the slot's holder is gone: {error}") from error
            return self._answer()

    def _answer(self) -> dict[str, Any]:
        """Read one framed JSON line: the program writes each in one piece, so one frame is one answer."""
        try:
            header = self._frames.read(8)
            data = self._frames.read(int.from_bytes(header[4:8], "big")) if len(header) == 8 else b""  # noqa: PLR2004
        except OSError as error:
            raise EnvironmentFault(Reason.ENGINE_TIMEOUT, f"the slot's holder does not answer: {error}") from error
        if not data or header[0] != 1:
            raise EnvironmentFault(Reason.ENGINE_FAULT, f"the slot's holder failed: {data.decode(errors='replace')}")
        answer: dict[str, Any] = json.loads(data)
        return answer


def remove_network(engine: Engine, network_id: str) -> None:
    """Remove a network of ours; the engine needs a moment after its last container has gone."""
    deadline = time.monotonic() + 10
    while True:
        try:
            with engine_call("remove a network"):
                engine.api.remove_network(network_id)
        except EnvironmentFault as fault:
            if getattr(fault.__cause__, "status_code", None) == 404:  # noqa: PLR2004 - not found
                return
            if time.monotonic() > deadline:
                raise EnvironmentFault(Reason.CONTAINER_LEFT, fault.message) from fault
            time.sleep(0.2)
        else:
            return


def _create_bridge(engine: Engine, name: str, run_id: str) -> str:
    with engine_call("create a network for a slot"):
        return str(
            engine.api.create_network(
                name,
                driver="bridge",
                options={"com.docker.network.bridge.enable_icc": "false"},
                labels={OWNER_LABEL: run_id},
            )["Id"]
        )


def _attach(engine: Engine, container_id: str) -> Any:  # noqa: ANN401 - the client library's own wrapper
    with engine_call("attach to the slot's holder"):
        return engine.api.attach_socket(container_id, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0})
