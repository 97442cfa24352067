"""Answers of the engine that take minutes: a pull, a build, a push. They can be broken off at any moment."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import docker
import requests
from docker.types import CancellableStream

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.engine import engine_call

Item = dict[str, Any]
Call = Callable[[docker.APIClient], Iterable[Item]]
_LOOK_SEC = 0.1


def follow(api: docker.APIClient, what: str, call: Call, *, seconds: float, stop: threading.Event) -> Iterator[Item]:
    """Give the items of the answer to `call`, a streaming request that it makes on the client it is given.

    `what` completes "could not …". The connection is closed when the caller leaves the loop, `stop` is set or the time
    is up; the engine then ends what it was doing.

    Raises EnvironmentFault with the engine's words for an error, in the answer or of the call, and when the answer has
    not ended after `seconds`; Refused(INTERRUPTED) when `stop` is set.
    """
    deadline = time.monotonic() + seconds
    reader = _Reader(api, call)
    try:
        with engine_call(what):
            while True:
                if stop.is_set():
                    raise Refused(Reason.INTERRUPTED, f"stopped, so it did not {what}")
                if time.monotonic() > deadline:
                    raise EnvironmentFault(Reason.ENGINE_TIMEOUT, f"could not {what} within {seconds:g} s")
                try:
                    item = reader.next()
                except queue.Empty:
                    continue
                if item is None:
                    return
                if "error" in item:
                    raise EnvironmentFault(Reason.ENGINE_FAULT, f"could not {what}: {item['error']}")
                yield item
    finally:
        reader.give_up()


@dataclass(frozen=True)
class _Raised:
    error: Exception


def address_of(api: docker.APIClient) -> str:
    """Give the address (`unix:///path`) that a client speaks to."""
    transport: Any = api.get_adapter(api.base_url)
    return f"unix://{transport.socket_path}"


class _Reader:
    """One request on a connection and in a thread of its own, so that a silent engine holds up nobody."""

    def __init__(self, api: docker.APIClient, call: Call) -> None:
        self._read: queue.SimpleQueue[Item | _Raised | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._response: requests.Response | None = None
        self._given_up = False
        client = docker.APIClient(base_url=address_of(api), version=api.api_version)
        client.hooks["response"].append(self._begun)
        threading.Thread(target=self._run, args=(client, call), name="engine-answer", daemon=True).start()

    def next(self) -> Item | None:
        """Give the next item, None at the end. Raises queue.Empty after a moment without one, and what the call did."""
        item = self._read.get(timeout=_LOOK_SEC)
        if isinstance(item, _Raised):
            raise item.error
        return item

    def give_up(self) -> None:
        """Close the connection; when there is no answer yet, as soon as there is one."""
        with self._lock:
            self._given_up = True
            if self._response is not None:
                _close(self._response)

    def _begun(self, response: requests.Response, *_: object, **__: object) -> None:
        with self._lock:
            self._response = response
            if self._given_up:
                _close(response)

    def _run(self, client: docker.APIClient, call: Call) -> None:
        try:
            with closing(client):
                for item in call(client):
                    self._read.put(item)
            self._read.put(None)
        except Exception as error:  # noqa: BLE001 - raised again where the answer is read
            self._read.put(_Raised(error))


def _close(response: requests.Response) -> None:
    # Shutting the socket down wakes the thread that reads from it; closing the response alone would wait for it.
    with suppress(OSError, AttributeError):  # what the library raises when the answer ends at this very moment
        CancellableStream(iter(()), response).close()
