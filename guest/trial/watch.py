"""The guard of one phase: a thread of its own that ends the phase when its CPU budget or its wall backstop is reached.

It reads the slot's CPU counter more often the less is left, and kills what runs: that takes the engine some ten
milliseconds, and the counter keeps the time of the dead. It is no part of what it guards, so it fires also when an
agent, a command or a reading hangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from guest.errors import EnvironmentFault
from guest.reason import Reason
from guest.trial.engine import Engine, engine_call
from guest.trial.outcome import Ending, ending_for

SHORTEST_SEC, LONGEST_SEC = 0.02, 1.0
BACKSTOP_GRACE_SEC = 10
FAILURES = 2


class PhaseWatch:
    """Guards a phase while its block runs; `ending` is then how the phase ended, None when the guard did not fire."""

    def __init__(
        self,
        engine: Engine,
        phase: str,
        *,
        cpu_seconds: Callable[[], float],
        cpus: float,
        cpu_budget_sec: float,
        wall_sec: float,
        containers: Callable[[], Sequence[str]],
    ) -> None:
        """Describe the guard; it starts with the block.

        `cpu_seconds` reads the trial's counter, `cpus` is the rate at which it can rise, `containers` gives the ids of
        what has to be killed. The phase's own limit comes before the backstop, ten seconds after it.
        """
        self._engine = engine
        self._phase = phase
        self._read = cpu_seconds
        self._cpus = cpus
        self._cpu_budget = cpu_budget_sec
        self._wall = wall_sec
        self._containers = containers
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._guard, name=f"watch {phase}", daemon=True)
        self.ending: Ending | None = None

    def __enter__(self) -> Self:
        """Take the phase's baseline and start guarding. Raises EnvironmentFault when the counter cannot be read."""
        self._began = time.monotonic()
        self._base = self._read()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop guarding."""
        self._over.set()
        self._thread.join(BACKSTOP_GRACE_SEC)

    def _guard(self) -> None:
        failures = 0
        last = self._base
        delay = SHORTEST_SEC
        while not self._over.wait(delay):
            wall = time.monotonic() - self._began
            if wall > self._wall + BACKSTOP_GRACE_SEC:
                words = f"the {self._phase} phase ran for {wall:.0f} s, its limit is {self._wall:g} s"
                self._fire(ending_for(Reason.WALL_BACKSTOP_EXCEEDED, words))
                return
            try:
                now = self._read()
            except EnvironmentFault as fault:
                failures += 1
                if failures == FAILURES:
                    words = f"the CPU time of the {self._phase} phase could not be read: {fault.message}"
                    self._fire(ending_for(Reason.CPU_UNREADABLE, words))
                    return
                continue
            failures = failures + 1 if now < last else 0
            if failures == FAILURES:
                words = f"the CPU time of the {self._phase} phase ran backwards"
                self._fire(ending_for(Reason.CPU_UNREADABLE, words))
                return
            last = max(last, now)
            used = last - self._base
            if used > self._cpu_budget:
                words = f"the {self._phase} phase used {used:.2f} CPU seconds, its budget is {self._cpu_budget:g}"
                self._fire(ending_for(Reason.CPU_BUDGET_EXCEEDED, words))
                return
            delay = min(LONGEST_SEC, max(SHORTEST_SEC, (self._cpu_budget - used) / self._cpus))

    def _fire(self, ending: Ending) -> None:
        self.ending = ending
        for container_id in self._containers():
            try:
                with engine_call("kill a container"):
                    self._engine.api.kill(container_id)
            except EnvironmentFault:
                # It has ended already, or the engine hangs: the trial's own removal proves the one and tells the other.
                continue
