"""The floor of a trial: the engine calls it cannot do without, by the client library alone, nothing of ours around.

`python -m scripts.benches.floor K N` prints the same as `one_job` for K bare trials, N at a time. What lies between the
two is our own doing: checks, parsing, records.
"""

from __future__ import annotations

import io
import json
import secrets
import sys
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from queue import SimpleQueue

import docker
from docker.errors import NotFound

from guest.job.sweep import sweep_run
from guest.trial.container import ContainerSpec
from guest.trial.slot import Slot
from scripts.benches.calls import OUTPUT_WAIT, TRIAL_THREADS, watch_calls
from scripts.benches.one_job import Measured, peak_rss_mb
from scripts.benches.trivial_task import TrivialTask, trivial_task

Calls = dict[str, list[float]]


def measure_floor(trivial: TrivialTask, trials: int, at_once: int) -> Measured:
    """Run `trials` bare trials, `at_once` at a time, each in the network namespace and the cgroup of a slot."""
    run_id = f"bench{secrets.token_hex(4)}"
    calls = watch_calls()
    free: SimpleQueue[Slot] = SimpleQueue()

    def one(number: int) -> tuple[float, float]:
        slot = free.get()
        try:
            return _bare_trial(trivial, slot, f"evalguest-{run_id}-{number}", run_id, calls)
        finally:
            free.put(slot)

    slots = [Slot(trivial.engine, trivial.holder_image, run_id, number) for number in range(at_once)]
    began = time.monotonic()
    try:
        for slot in slots:
            slot.holder(network=False)
            free.put(slot)
        with ThreadPoolExecutor(at_once, thread_name_prefix=TRIAL_THREADS) as pool:
            taken = list(pool.map(one, range(trials)))
    finally:
        for slot in slots:
            slot.close()
        sweep_run(trivial.engine, run_id)
    seconds = time.monotonic() - began
    return Measured(seconds, [beyond for beyond, _ in taken], [wall for _, wall in taken], peak_rss_mb(), dict(calls))


def _bare_trial(trivial: TrivialTask, slot: Slot, name: str, run_id: str, calls: Calls) -> tuple[float, float]:
    """Give the trial's seconds beyond agent and verifier, and in all. A trial's phases, each by the calls it needs."""
    api = trivial.engine.api
    definition = trivial.task.definition
    began = time.monotonic()
    spec = ContainerSpec(
        name=name,
        image=trivial.image.ref,
        run_id=run_id,
        role="task",
        network=slot.holder(network=False).network_mode,
        workdir=trivial.image.workdir,
        cpus=definition.cpus,
        memory_bytes=definition.memory_mb << 20,
        cgroup_parent=slot.cgroup.parent,
    )
    made = api.create_container_from_config(spec.create_body(), name=name)["Id"]
    api.inspect_container(made)
    api.start(made)
    agent = time.monotonic()
    api.put_archive(made, "/", _tar("solution/solve.sh"))
    _exec(api, made, ["bash", "-c", "bash /solution/solve.sh"], calls)
    agent = time.monotonic() - agent
    api.inspect_container(made)
    if slot.cgroup.process_count(made) is None:  # where the kernel's list is hidden it takes the engine's
        api.inspect_container(made)
        api.top(made, "-eo pid,stat,args")
    api.put_archive(made, "/", _tar("tests/test.sh"))
    b"".join(api.get_archive(made, "/tests")[0])
    verifier = _exec(api, made, ["bash", "-c", "bash /tests/test.sh"], calls)
    api.inspect_container(made)
    api.pause(made)
    b"".join(api.get_archive(made, "/tests")[0])
    api.remove_container(made, v=True, force=True)
    try:
        api.inspect_container(made)
    except NotFound:
        wall = time.monotonic() - began
        return wall - agent - verifier, wall
    raise RuntimeError(f"the engine still has {name} after its removal")


def _exec(api: docker.APIClient, container_id: str, argv: Sequence[str], calls: Calls) -> float:
    """Run a command and give the seconds its output was waited for."""
    made = api.exec_create(container_id, list(argv))["Id"]
    output = api.exec_start(made, stream=True)
    began = time.perf_counter()
    b"".join(output)
    waited = time.perf_counter() - began
    calls[OUTPUT_WAIT].append(waited * 1000)
    api.exec_inspect(made)
    return waited


def _tar(path: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(path)
        info.size = 5
        archive.addfile(info, io.BytesIO(b"true\n"))
    return buffer.getvalue()


if __name__ == "__main__":
    print(json.dumps(asdict(measure_floor(trivial_task(), int(sys.argv[1]), int(sys.argv[2])))))
