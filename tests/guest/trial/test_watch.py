"""The guard of a phase: when it fires, and that it fires though everything else hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from guest.errors import EnvironmentFault
from guest.reason import Reason
from guest.trial import watch
from guest.trial.engine import Engine
from guest.trial.outcome import Outcome
from guest.trial.watch import PhaseWatch


class Killed:
    """Stands in for an engine, of which only the call that kills is used."""

    def __init__(self) -> None:
        self.api = self
        self.ids: list[str] = []

    def kill(self, container_id: str) -> None:
        self.ids.append(container_id)
        if container_id == "gone":
            raise OSError("no such container")


def guarded(
    read: Callable[[], float], *, cpu: float = 1.0, wall: float = 60.0, seconds: float = 2.0
) -> tuple[PhaseWatch, Killed]:
    """Guard a phase that does nothing until the guard fires, or for some seconds."""
    killed = Killed()
    guard = PhaseWatch(
        cast("Engine", killed),
        "agent",
        cpu_seconds=read,
        cpus=1.0,
        cpu_budget_sec=cpu,
        wall_sec=wall,
        containers=lambda: ["host", "gone", "task"],
    )
    with guard:
        deadline = time.monotonic() + seconds
        while guard.ending is None and time.monotonic() < deadline:
            time.sleep(0.01)
    return guard, killed


def readings(*values: float | None) -> Callable[[], float]:
    """Give these readings one after the other, None for one that fails, the last one for good."""
    left: Iterator[float | None] = iter(values)
    last: list[float | None] = [0.0]

    def read() -> float:
        last[0] = next(left, last[0])
        if last[0] is None:
            raise EnvironmentFault(Reason.ENGINE_FAULT, "the counter cannot be read")
        return last[0]

    return read


def test_over_the_budget_everything_is_killed() -> None:
    guard, killed = guarded(readings(5.0, 5.5, 6.2))
    assert guard.ending is not None
    assert (guard.ending.outcome, guard.ending.reward) == (Outcome.CPU_EXCEEDED, 0.0)
    assert guard.ending.reason is Reason.CPU_BUDGET_EXCEEDED
    assert guard.ending.message == "the agent phase used 1.20 CPU seconds, its budget is 1"
    assert killed.ids == ["host", "gone", "task"]


@pytest.mark.parametrize("values", [(5.0, 5.5), (5.0, 6.0), (5.0, None, 5.2, None, 5.3), (5.0, 5.2, 5.1, 5.3)])
def test_within_the_budget_nothing_happens(values: tuple[float | None, ...]) -> None:
    guard, killed = guarded(readings(*values), seconds=0.5)
    assert guard.ending is None
    assert killed.ids == []


@pytest.mark.parametrize("values", [(5.0, None, None), (5.0, 5.5, 5.4, 5.3)])
def test_a_counter_that_fails_twice_or_runs_backwards_ends_the_phase(values: tuple[float | None, ...]) -> None:
    guard, killed = guarded(readings(*values), cpu=100.0, seconds=5)
    assert guard.ending is not None
    assert (guard.ending.reward, guard.ending.reason) == (0.0, Reason.CPU_UNREADABLE)
    assert killed.ids == ["host", "gone", "task"]


def test_a_baseline_that_cannot_be_read_is_the_engine_s_fault() -> None:
    with pytest.raises(EnvironmentFault):
        guarded(readings(None))


def test_the_backstop_fires_though_the_phase_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BACKSTOP_GRACE_SEC", 0.2)
    guard, killed = guarded(readings(0.0), wall=0.2, seconds=5)
    assert guard.ending is not None
    assert (guard.ending.outcome, guard.ending.reason) == (Outcome.AGENT_TIMEOUT, Reason.WALL_BACKSTOP_EXCEEDED)
    assert killed.ids == ["host", "gone", "task"]


def test_it_looks_more_often_the_less_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    guard = PhaseWatch(
        cast("Engine", Killed()),
        "agent",
        cpu_seconds=readings(0.0, 0.0, 6.0, 9.0, 9.99, 11.0),
        cpus=4.0,
        cpu_budget_sec=10.0,
        wall_sec=60.0,
        containers=list,
    )

    class Event:
        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            return False

    monkeypatch.setattr(guard, "_over", Event())
    monkeypatch.setattr(guard, "_base", 0.0, raising=False)
    monkeypatch.setattr(guard, "_began", time.monotonic(), raising=False)
    guard._read()
    cast("Any", guard)._guard()
    assert waits == [0.02, 1.0, 1.0, 0.25, 0.02]
