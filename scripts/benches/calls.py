"""A stop-watch on the calls that trials make to the engine."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from typing import Any

import requests

TRIAL_THREADS = "trial"
OUTPUT_WAIT = "waiting for a command's output"
_NAMES = re.compile(r"[0-9a-f]{12,}|evalguest-[^/?]+")


def watch_calls() -> dict[str, list[float]]:
    """Give a mapping that fills from here on: kind of call (method, path without names) -> milliseconds of each call.

    Only calls from threads named `trial…` count, so that what a job does once is not laid upon its trials. A call
    lasts until the head of its answer is there.
    """
    calls: dict[str, list[float]] = defaultdict(list)
    send = requests.Session.send

    def timed(session: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # noqa: ANN401 - passed on
        began = time.perf_counter()
        answer = send(session, request, **options)
        if threading.current_thread().name.startswith(TRIAL_THREADS):
            calls[call_kind(request.method or "", request.url or "")].append((time.perf_counter() - began) * 1000)
        return answer

    # The one place that all calls pass.
    requests.Session.send = timed  # type: ignore[method-assign, assignment]
    return calls


def call_kind(method: str, url: str) -> str:
    """Give what calls of one kind have in common: the method and the path, without version, names and ids."""
    path = _NAMES.sub("*", url.split("?", 1)[0])
    return f"{method} {re.sub(r'^.*?/v[0-9.]+/', '', path)}"
