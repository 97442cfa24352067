"""Leftovers: what runs that no longer live left in the engine, and their removal.

Everything of ours carries the label `evalguest=<run id>`. A run lives exactly as long as one of its holder containers
runs: a holder ends by itself when the orchestrator's end of its stdin closes, however the orchestrator died. So no pid,
lock file or age decides, and a run of another user or in another container is left alone.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guest.trial import container
from guest.trial.cgroup import TREES, remove_group
from guest.trial.container import OWNER_LABEL
from guest.trial.engine import Engine, engine_call
from guest.trial.holder import remove_network

STARTING_SEC = 10
SETTLE_SEC = 0.5
_GROUP = re.compile(r"evalguest_([0-9a-z]+)_[0-9]+(\.slice)?")


@dataclass
class Leftovers:
    """What stands of one run: ids of containers, ids of networks, names of volumes, names of cgroups."""

    run_id: str
    containers: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    alive: bool = False
    newest: float = 0.0

    def __str__(self) -> str:
        """Say it in one line."""
        kinds = {"container": self.containers, "network": self.networks, "volume": self.volumes, "cgroup": self.groups}
        parts = [f"{len(names)} {kind}{'s' if len(names) > 1 else ''}" for kind, names in kinds.items() if names]
        return f"run {self.run_id}: {', '.join(parts)}"


def find_leftovers(engine: Engine) -> list[Leftovers]:
    """Give what stands of runs that no longer live.

    Waits a moment where the engine may not have caught up: a run that is just starting has no holder yet, and that of
    one that was just killed may not have ended.
    """
    if any(run.alive for run in _all_runs(engine).values()):
        time.sleep(SETTLE_SEC)
    deadline = time.monotonic() + STARTING_SEC
    while True:
        runs = [run for run in _all_runs(engine).values() if not run.alive]
        if time.monotonic() > deadline or all(time.time() - run.newest > STARTING_SEC for run in runs):
            return sorted(runs, key=lambda run: run.run_id)
        time.sleep(SETTLE_SEC)


def remove_leftovers(engine: Engine, run: Leftovers) -> None:
    """Remove them all. Raises EnvironmentFault(CONTAINER_LEFT) for what cannot be removed."""
    for container_id in run.containers:
        container.remove(engine, container_id)
    for network_id in run.networks:
        remove_network(engine, network_id)
    for name in run.volumes:
        with engine_call(f"remove the volume {name}"):
            engine.api.remove_volume(name, force=True)
    for name in run.groups:
        remove_group(name)


def sweep_run(engine: Engine, run_id: str) -> None:
    """Remove whatever still stands of one run of our own, alive or not: the last act of a job."""
    run = _all_runs(engine).get(run_id)
    if run is not None:
        remove_leftovers(engine, run)


def _all_runs(engine: Engine) -> dict[str, Leftovers]:
    runs: dict[str, Leftovers] = {}

    def of(labels: dict[str, str]) -> Leftovers:
        run_id = labels[OWNER_LABEL]
        return runs.setdefault(run_id, Leftovers(run_id))

    wanted: dict[str, Any] = {"label": OWNER_LABEL}
    with engine_call("list what runs of ours left"):
        for row in engine.api.containers(all=True, filters=wanted):
            run = of(row["Labels"])
            run.containers.append(row["Id"])
            run.newest = max(run.newest, float(row["Created"]))
            run.alive |= row["State"] == "running" and row["Labels"].get(f"{OWNER_LABEL}.role") == "holder"
        for row in engine.api.networks(filters=wanted):
            of(row["Labels"]).networks.append(row["Id"])
        for row in engine.api.volumes(filters=wanted)["Volumes"] or []:
            of(row["Labels"]).volumes.append(row["Name"])
    for name in _groups():
        match = _GROUP.fullmatch(name)
        # A group alone proves nothing: its run may live in another engine of this machine.
        if match and match[1] in runs:
            runs[match[1]].groups.append(name)
    return runs


def _groups() -> set[str]:
    places: list[Path] = [TREES[-1], *(each for each in TREES[-1].glob("*") if each.is_dir())]
    return {group.name for place in places for group in place.glob("evalguest_*")}
