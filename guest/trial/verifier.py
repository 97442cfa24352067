"""The verifier phase: from the end of the agent's turn to a reward.

The agent was root in the container the verifier runs in, so nothing there is believed: its processes are ended and the
engine's process list must agree, the engine itself empties the verifier's directories, the tests are uploaded and read
back, and the reward is read from a container that stands still. What cannot be proved is scored 0.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.budgets import Budget
from guest.tasks.task import Task
from guest.trial import container
from guest.trial.cgroup import SlotCgroup
from guest.trial.engine import Engine, engine_call
from guest.trial.exec import ExecResult, run_exec
from guest.trial.tarstream import Entry, TarFile, TarLimits, pack
from guest.trial.ustar import BLOCK

KILL_SEC = 10
KILLS = 3
PLAIN_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
# Spares PID 1 and the shell itself. The process list is read after it, so that a shell the agent has replaced cannot
# leave anything behind either.
KILL_ALL = ["/bin/sh", "-c", "kill -9 -1"]
CANARY = ".evalguest-canary"
READ_BACK = TarLimits(total_bytes=256 << 20, entries=20_000, keep_bytes=0)
RESULTS = TarLimits(total_bytes=64 << 20, entries=4096, keep_bytes=1 << 20)
_TEST_COMMAND = "(/tests/test.sh) > /logs/verifier/test-stdout.txt 2>&1"


@dataclass(frozen=True)
class Place:
    """Where a trial's phases happen: engine, task container, its slot's cgroup, and the switch that stops all."""

    engine: Engine
    container_id: str
    cgroup: SlotCgroup
    workdir: str
    stop: threading.Event


def end_agent_processes(place: Place) -> None:
    """End every process but PID 1 and prove it by a list of processes made outside the container.

    Where that shows PID 1 alone from the start there is nothing to kill, and nothing that could start anything. Raises
    Refused(AGENT_LEFT_PROCESSES, CONTAINER_ENDED), EnvironmentFault for engine errors.
    """
    for _ in range(KILLS):
        if _is_alone(place):
            return
        run_exec(
            place.engine,
            place.container_id,
            KILL_ALL,
            seconds=KILL_SEC,
            stop=place.stop,
            user="0",
            workdir="/",
            env=PLAIN_PATH,
            keep=0,
        )
    if not _is_alone(place):
        left = container.live_processes(place.engine, place.container_id)
        message = f"after {KILLS} kills {len(left)} processes live on: {', '.join(left)[:200]}"
        raise Refused(Reason.AGENT_LEFT_PROCESSES, message)


def _is_alone(place: Place) -> bool:
    """Say whether PID 1 is the container's only process.

    The kernel's own list costs microseconds; the engine's, where the kernel's is hidden, 12 ms and a `ps` beside it.
    """
    count = place.cgroup.process_count(place.container_id)
    return count == 1 if count is not None else not container.live_processes(place.engine, place.container_id)


def replace_inputs(place: Place, task: Task, *, alone: bool) -> None:
    """Empty `/tests`, `/solution` and `/logs/verifier`, upload the tests, and prove it by reading `/tests` back.

    No program of the container takes part: one tar stream makes the engine itself remove what is there (see
    `_emptied`). Raises Refused(VERIFIER_INPUTS_UNCLEAN, or with `alone` ENGINE_UNSUITABLE for an engine that keeps what
    it should replace), EnvironmentFault for engine errors. `alone` says that no process of the agent is left, which
    could have put back what the engine removed.
    """
    tests = {
        path: TarFile(file.data, 0o755 if file.executable or path == "test.sh" else 0o644)
        for path, file in task.subtree("tests").items()
    }
    # A verifier that runs as another user must be able to write its results.
    results_mode = 0o755 if task.definition.verifier_user in (None, "root", "0") else 0o777
    data = _one_after_another(
        pack({}, {"logs": 0o755}),
        *_emptied("logs/verifier", results_mode),
        *_emptied("solution", 0o755),
        *_emptied("tests", 0o755),
        pack({f"tests/{path}": file for path, file in tests.items()}),
    )
    with engine_call("upload the tests"):
        place.engine.api.put_archive(place.container_id, "/", data)
    try:
        read = container.copy_out(place.engine, place.container_id, "/tests", READ_BACK)
    except Refused as refusal:
        raise Refused(Reason.VERIFIER_INPUTS_UNCLEAN, f"/tests: {refusal.message}") from refusal
    found = {path: entry.sha256 for path, entry in read.items() if entry.kind != "dir"}
    wanted = {path: hashlib.sha256(file.data).hexdigest() for path, file in tests.items()}
    if alone and CANARY in found:
        raise Refused(Reason.ENGINE_UNSUITABLE, "the engine merged an upload into a directory it should have replaced")
    if found != wanted:
        odd = sorted(path for path in found.keys() | wanted.keys() if found.get(path) != wanted.get(path))
        raise Refused(
            Reason.VERIFIER_INPUTS_UNCLEAN, f"/tests does not hold exactly the task's tests: {odd[:5]} differ"
        )


def _emptied(path: str, mode: int) -> list[bytes]:
    """Give archives that, extracted one after the other, leave an empty directory whatever stood at `path` before.

    Extraction merges a directory into a directory but replaces anything else: a file in place of the directory removes
    it with all it holds, a directory in place of the file stands empty, and a link is replaced, not followed. The
    canary written first must be gone with the rest.
    """
    return [
        pack({f"{path}/{CANARY}": TarFile(b"")}, {path: mode}),
        pack({path: TarFile(b"")}),
        pack({}, {path: mode}),
    ]


def _one_after_another(*archives: bytes) -> bytes:
    """Join archives into one; each ends with two blocks of zeros, of which only the last pair stays."""
    end = bytes(2 * BLOCK)
    return b"".join(archive.removesuffix(end) for archive in archives) + end


def run_tests(place: Place, task: Task, budget: Budget) -> ExecResult:
    """Run the test script as Harbor does: as the verifier's user, in the image's workdir, output to a file.

    The result has no exit code when `verifier_wall_sec` ran out.
    """
    return run_exec(
        place.engine,
        place.container_id,
        ["bash", "-c", _TEST_COMMAND],
        seconds=budget.verifier_wall_sec,
        stop=place.stop,
        user=task.definition.verifier_user or "",
        workdir=place.workdir,
        env=task.definition.verifier_env,
        keep=4096,
    )


def read_results(place: Place) -> Mapping[str, Entry]:
    """Read `/logs/verifier`, best from a container that stands still: relative path to entry, links listed as such.

    Raises Refused(REWARD_UNREADABLE) past the limits or when it is no directory any more.
    """
    try:
        entries = container.copy_out(place.engine, place.container_id, "/logs/verifier", RESULTS)
    except Refused as refusal:
        raise Refused(Reason.REWARD_UNREADABLE, f"/logs/verifier: {refusal.message}") from refusal
    if entries[""].kind != "dir":
        raise Refused(Reason.REWARD_UNREADABLE, f"/logs/verifier is a {entries[''].kind}, expected a directory")
    return {path: entry for path, entry in entries.items() if path}
