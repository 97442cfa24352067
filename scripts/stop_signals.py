"""Ctrl-C, TERM and a closed terminal as a switch that long work looks at, so that it can end in order."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_signals(words: str) -> Iterator[threading.Event]:
    """Give an event that these signals set, `words` being said on stderr; the handlers before are put back at the end.

    Works in the main thread only.
    """
    stop = threading.Event()

    def handle(_signal: int, _frame: object) -> None:
        if not stop.is_set():
            sys.stderr.write(f"{words}\n")
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
