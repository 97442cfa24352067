"""Admission by reservation: a trial starts when its CPUs and memory fit beside those already running."""

from __future__ import annotations

from dataclasses import dataclass

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.definition import TaskDefinition
from guest.trial.engine import EngineInfo

# The orchestrator, the engine and the page cache need memory too; CPUs are shared, so none is set aside.
RESERVED_MEMORY_BYTES = 512 << 20


@dataclass(frozen=True)
class Capacity:
    """What may be reserved at once: CPUs and bytes of memory."""

    cpus: float
    memory_bytes: int

    @classmethod
    def of(cls, info: EngineInfo) -> Capacity:
        """Give the capacity of the engine's machine."""
        return cls(float(info.cpus), max(0, info.memory_bytes - RESERVED_MEMORY_BYTES))


def check_fits(definition: TaskDefinition, capacity: Capacity, beside_bytes: int) -> None:
    """Refuse a task that could never start here with `beside_bytes` for its agent. Raises Refused(TASK_TOO_LARGE)."""
    needed = (definition.memory_mb << 20) + beside_bytes
    if definition.cpus > capacity.cpus or needed > capacity.memory_bytes:
        raise Refused(
            Reason.TASK_TOO_LARGE,
            f"{definition.task_id} and its agent ask for {definition.cpus:g} CPUs and {needed >> 20} MiB; this machine "
            f"offers {capacity.cpus:g} CPUs and {capacity.memory_bytes >> 20} MiB",
            "name the tasks to run, or use a larger machine",
        )


class Reservations:
    """The running sum of what is reserved. Used by one thread."""

    def __init__(self, capacity: Capacity, beside_bytes: int) -> None:
        """Start with nothing reserved; each trial takes `beside_bytes` more than its task asks for."""
        self._capacity = capacity
        self._beside = beside_bytes
        self._cpus = 0.0
        self._memory = 0

    def reserve(self, definition: TaskDefinition) -> bool:
        """Reserve for a trial of the task, or say False and change nothing."""
        cpus, memory = self._cpus + definition.cpus, self._memory + self._of(definition)
        # Sums of fractional CPUs may miss the exact total by a rounding error.
        if cpus > self._capacity.cpus + 1e-9 or memory > self._capacity.memory_bytes:
            return False
        self._cpus, self._memory = cpus, memory
        return True

    def release(self, definition: TaskDefinition) -> None:
        """Give back what `reserve` took."""
        self._cpus -= definition.cpus
        self._memory -= self._of(definition)

    def _of(self, definition: TaskDefinition) -> int:
        return (definition.memory_mb << 20) + self._beside
