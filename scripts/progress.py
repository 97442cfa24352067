"""What a running job says on stderr: a live table on a terminal, a line an event elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from guest.trial.record import TrialRecord


class Progress:
    """Shows preparation steps and trials. Methods may be called from any thread."""

    def __init__(self, total: int) -> None:
        """Prepare to show `total` trials."""
        self._console = Console(stderr=True)
        self._lock = threading.Lock()
        self._total = total
        self._done = 0
        self._running: dict[str, tuple[str, float]] = {}
        self._live = (
            Live(console=self._console, get_renderable=self._table, refresh_per_second=4, transient=True)
            if sys.stderr.isatty()
            else None
        )

    def __enter__(self) -> Self:
        """Start the live display, if there is one."""
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the live display."""
        if self._live:
            self._live.stop()

    def say(self, subject: str, words: str) -> None:
        """Show one line about a preparation step."""
        with self._lock:
            self._console.print(Text(f"{subject}: {words}"), soft_wrap=True)

    def trial(self, trial_id: str, state: str, record: TrialRecord | None) -> None:
        """Show that a trial has entered a state, or what came of it."""
        with self._lock:
            if record is None:
                self._running[trial_id] = (state, time.monotonic())
                return
            self._running.pop(trial_id, None)
            self._done += 1
            line = f"[{self._done}/{self._total}] {trial_id}: {record.outcome}"
            if record.message:
                line += f" ({record.message})"
            self._console.print(Text(line), soft_wrap=True)

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        now = time.monotonic()
        for trial_id, (state, since) in list(self._running.items()):
            table.add_row(trial_id, state, f"{now - since:.0f} s")
        return table
