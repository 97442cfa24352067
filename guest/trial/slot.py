"""A slot: what one trial at a time uses for as long as the job lives: holders and a parent cgroup."""

from __future__ import annotations

from guest.errors import EnvironmentFault
from guest.trial.cgroup import SlotCgroup
from guest.trial.engine import Engine
from guest.trial.holder import Holder, HolderImage


class Slot:
    """Holders (made when first needed) and the parent cgroup of one concurrency slot."""

    def __init__(self, engine: Engine, image: HolderImage, run_id: str, number: int) -> None:
        """Name everything after the run and the slot's number, so that a sweep finds it."""
        self._engine = engine
        self._image = image
        self._run_id = run_id
        self._holders: dict[bool, Holder] = {}
        self.number = number
        self.cgroup = SlotCgroup(engine, f"evalguest_{run_id}_{number}")
        self.gateway_filtered: bool | None = None

    def holder(self, *, network: bool) -> Holder:
        """Give the slot's holder with or without network; with network its gateway is probed once."""
        if network not in self._holders:
            name = f"evalguest-{self._run_id}-slot{self.number}-{'net' if network else 'none'}"
            holder = Holder(self._engine, self._image, self._run_id, name, network=network)
            self._holders[network] = holder
            if network:
                self.gateway_filtered = not holder.gateway_answers()
        return self._holders[network]

    def clean(self, *, network: bool) -> None:
        """Undo what a trial left in the holder; one that cannot do that is removed, and the next trial gets another.

        Raises EnvironmentFault when it cannot be removed either.
        """
        try:
            self._holders[network].reset()
        except EnvironmentFault:
            self._holders.pop(network).close()

    def close(self) -> None:
        """Remove the holders and the cgroup. Raises EnvironmentFault when one stays, after trying each."""
        faults: list[Exception] = []
        for holder in self._holders.values():
            try:
                holder.close()
            except Exception as fault:  # noqa: BLE001 - the others must go too; the first fault is raised below
                faults.append(fault)
        self._holders.clear()
        self.cgroup.remove()
        if faults:
            raise faults[0]
