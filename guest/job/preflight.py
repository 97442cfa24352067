"""Preflight: what could never run is refused by name, all of it at once, before any image or container is touched."""

from __future__ import annotations

from collections.abc import Sequence

from guest.errors import Refused
from guest.job.admission import Capacity, check_fits
from guest.tasks.cache import TaskCache
from guest.tasks.task import Task


def preflight(cache: TaskCache, ids: Sequence[str], capacity: Capacity, beside_bytes: int) -> list[Task]:
    """Give the tasks of `ids` (all of the cache when empty), loaded, digest-checked and fit for this machine.

    `beside_bytes` is what an agent takes beside each task.

    Raises Refused with a line for each task that is not.
    """
    refusals: list[Refused] = []
    chosen = cache.select(ids)
    for task in chosen:
        try:
            check_fits(task.definition, capacity, beside_bytes)
        except Refused as refusal:
            refusals.append(refusal)
    if len(refusals) == 1:
        raise refusals[0]
    if refusals:
        lines = "\n  ".join(refusal.message for refusal in refusals)
        raise Refused(refusals[0].reason, f"{len(refusals)} tasks cannot run here:\n  {lines}", refusals[0].hint)
    return chosen
