"""CPU time and memory of the containers under a slot's parent cgroup, read from the kernel's files.

Files cost microseconds, the engine's stats call one to two seconds, so stats are only used where the files cannot be
read (an engine in another VM). Formats: Linux admin guide, cgroup-v1/cpuacct and memory, cgroup-v2 `cpu.stat`,
`memory.peak` and `memory.events`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from guest.errors import EnvironmentFault
from guest.reason import Reason
from guest.trial.engine import Engine, engine_call

CpuSource = Literal["cgroup1", "cgroup2", "stats"]

# A runner in a container sees its siblings' groups only where the host's tree is bound read-only.
TREES = (Path("/host/cgroup"), Path("/sys/fs/cgroup"))


@dataclass(frozen=True)
class MemoryUse:
    """Peak in bytes and the number of processes the kernel killed for memory; None where no file says."""

    peak_bytes: int | None
    oom_kills: int | None


@dataclass(frozen=True)
class Throttling:
    """How often and for how long (seconds) the CPU rate limit held a container back; None where no file says."""

    periods: int | None
    seconds: float | None


class SlotCgroup:
    """The parent cgroup that the trial containers of one slot share, one after the other.

    The engine makes it when the first container starts. Its CPU counter keeps the time of dead children, so a trial's
    CPU is a difference of two readings.
    """

    def __init__(self, engine: Engine, name: str, trees: tuple[Path, ...] = TREES) -> None:
        """Name the group after `name` (letters, digits and `_`), in the form the engine's cgroup driver demands."""
        self._engine = engine
        self._systemd = engine.info.cgroup_driver == "systemd"
        self._two = engine.info.cgroup_version == "2"
        self._tree = next((tree for tree in trees if _is_tree(tree, two=self._two)), None)
        self.parent = f"{name}.slice" if self._systemd else f"/{name}"

    @property
    def source(self) -> CpuSource:
        """Say where CPU figures come from."""
        if self._tree is None:
            return "stats"
        return "cgroup2" if self._two else "cgroup1"

    def cpu_seconds(self, container_id: str) -> float:
        """Give the CPU time used so far: of the slot from files, of the container alone from stats.

        Raises EnvironmentFault when neither can be read.
        """
        if self._tree is None:
            with engine_call("read the container's CPU time"):
                stats = self._engine.api.stats(container_id, stream=False, one_shot=True)
            return int(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9
        group = self._group("cpuacct")
        try:
            if self._two:
                return _keyed(group / "cpu.stat")["usage_usec"] / 1e6
            return int((group / "cpuacct.usage").read_text()) / 1e9
        except (OSError, KeyError, ValueError) as error:
            raise EnvironmentFault(
                Reason.ENGINE_FAULT, f"the CPU counter of {group} cannot be read: {error!r}"
            ) from error

    def process_count(self, container_id: str) -> int | None:
        """Give how many processes the container has, None where no file says.

        A container's own tree of groups is read-only, so that none of its processes can be in a group below its own.
        """
        try:
            return len((self._container("cpuacct", container_id) / "cgroup.procs").read_text().split())
        except OSError:
            return None

    def memory(self, container_id: str) -> MemoryUse:
        """Give the container's memory peak and kernel kills, before its removal."""
        group = self._container("memory", container_id)
        if self._two:
            return MemoryUse(_number(group / "memory.peak"), _keyed_or_none(group / "memory.events", "oom_kill"))
        return MemoryUse(
            _number(group / "memory.max_usage_in_bytes"), _keyed_or_none(group / "memory.oom_control", "oom_kill")
        )

    def throttling(self, container_id: str) -> Throttling:
        """Give how much the rate limit held the container back, before its removal."""
        file = self._container("cpu", container_id) / "cpu.stat"
        held = _keyed_or_none(file, "throttled_usec" if self._two else "throttled_time")
        return Throttling(
            _keyed_or_none(file, "nr_throttled"), None if held is None else held / (1e6 if self._two else 1e9)
        )

    def remove(self) -> None:
        """Remove the empty group where the tree can be written; a read-only one goes with the machine."""
        remove_group(self.parent, self._tree)

    def _group(self, controller: str) -> Path:
        tree = self._tree or TREES[-1]
        return (tree if self._two else tree / controller) / self.parent.lstrip("/")

    def _container(self, controller: str, container_id: str) -> Path:
        return self._group(controller) / (f"docker-{container_id}.scope" if self._systemd else container_id)


def remove_group(parent: str, tree: Path | None = TREES[-1]) -> None:
    """Remove the empty cgroup `parent` from every hierarchy of `tree`, as far as we may."""
    if tree is None:
        return
    for group in (tree / parent.lstrip("/"), *(each / parent.lstrip("/") for each in tree.iterdir() if each.is_dir())):
        try:
            group.rmdir()
        except OSError:  # absent, not empty or read-only: an empty group costs nothing
            continue


def _is_tree(tree: Path, *, two: bool) -> bool:
    return (tree / ("cgroup.controllers" if two else "cpuacct/cpuacct.usage")).is_file()


def _keyed(file: Path) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in file.read_text().splitlines())}


def _keyed_or_none(file: Path, key: str) -> int | None:
    try:
        return _keyed(file).get(key)
    except (OSError, ValueError):
        return None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
