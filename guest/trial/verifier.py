"""The verifier phase: from the end of the agent's turn to a reward.

The agent was root in the container the verifier runs in, so nothing there is believed: its processes are ended and the
engine's process list must agree, the verifier's directories are removed and made anew, the tests are uploaded and read
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
from guest.trial.engine import Engine, engine_call
from guest.trial.exec import ExecResult, run_exec
from guest.trial.tarstream import Entry, TarFile, TarLimits, pack, unpack

CLEANING_SEC = 60
PLAIN_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
# `kill -9 -1` spares PID 1 and the shell itself. Killing and cleaning share one exec, and the process list is read
# after it, so that a shell or rm the agent has replaced cannot leave anything behind either.
_KILL = "kill -9 -1; "
_CLEAN = "rm -rf /tests /solution /logs/verifier"
READ_BACK = TarLimits(total_bytes=256 << 20, entries=20_000, keep_bytes=0)
RESULTS = TarLimits(total_bytes=64 << 20, entries=4096, keep_bytes=1 << 20)
_TEST_COMMAND = "(/tests/test.sh) > /logs/verifier/test-stdout.txt 2>&1"


@dataclass(frozen=True)
class Place:
    """Where a trial's phases happen: the engine, the task container and the switch that stops all."""

    engine: Engine
    container_id: str
    workdir: str
    stop: threading.Event


def clean_up_after_agent(place: Place, *, isolated: bool) -> None:
    """Remove the verifier's inputs; when `isolated`, end every process but PID 1 and prove it.

    Raises Refused(AGENT_LEFT_PROCESSES or VERIFIER_INPUTS_UNCLEAN), EnvironmentFault for engine errors.
    """
    left: list[str] = []
    for _ in range(3):
        script = (_KILL if isolated else "") + _CLEAN
        result = run_exec(
            place.engine,
            place.container_id,
            ["/bin/sh", "-c", script],
            seconds=CLEANING_SEC,
            stop=place.stop,
            user="0",
            workdir="/",
            env=PLAIN_PATH,
            keep=4096,
        )
        if not isolated:
            break
        left = container.live_processes(place.engine, place.container_id)
        if not left:
            break
    if left:
        raise Refused(Reason.AGENT_LEFT_PROCESSES, f"after three kills {len(left)} processes live on: {left[0][:200]}")
    if result.exit_code != 0:
        said = result.output.decode(errors="replace").strip()[-500:]
        raise Refused(Reason.VERIFIER_INPUTS_UNCLEAN, f"the verifier's directories could not be removed: {said}")


def upload_tests(place: Place, task: Task) -> None:
    """Upload the task's tests and prove by reading back that `/tests` holds them and nothing else.

    Raises Refused(VERIFIER_INPUTS_UNCLEAN), EnvironmentFault for engine errors.
    """
    tests = {
        path: TarFile(file.data, 0o755 if file.executable or path == "test.sh" else 0o644)
        for path, file in task.subtree("tests").items()
    }
    # A verifier that runs as another user must be able to write its results.
    results_mode = 0o755 if task.definition.verifier_user in (None, "root", "0") else 0o777
    data = pack(
        {f"tests/{path}": file for path, file in tests.items()},
        {"tests": 0o755, "logs": 0o755, "logs/verifier": results_mode},
    )
    with engine_call("upload the tests"):
        place.engine.api.put_archive(place.container_id, "/", data)
    found = {path: entry.sha256 for path, entry in _read(place, "/tests", READ_BACK).items() if entry.kind != "dir"}
    wanted = {path: hashlib.sha256(file.data).hexdigest() for path, file in tests.items()}
    if found != wanted:
        odd = sorted(path for path in found.keys() | wanted.keys() if found.get(path) != wanted.get(path))
        raise Refused(
            Reason.VERIFIER_INPUTS_UNCLEAN, f"/tests does not hold exactly the task's tests: {odd[:5]} differ"
        )
    results = _read(place, "/logs/verifier", READ_BACK)
    if set(results) != {""} or results[""].kind != "dir":
        raise Refused(
            Reason.VERIFIER_INPUTS_UNCLEAN, f"/logs/verifier is not an empty directory: {sorted(results)[:5]}"
        )


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
        entries = _read(place, "/logs/verifier", RESULTS)
    except Refused as refusal:
        raise Refused(Reason.REWARD_UNREADABLE, f"/logs/verifier: {refusal.message}") from refusal
    if entries[""].kind != "dir":
        raise Refused(Reason.REWARD_UNREADABLE, f"/logs/verifier is a {entries[''].kind}, expected a directory")
    return {path: entry for path, entry in entries.items() if path}


def _read(place: Place, path: str, limits: TarLimits) -> dict[str, Entry]:
    with engine_call(f"read {path}"):
        chunks, _ = place.engine.api.get_archive(place.container_id, path)
        return unpack(chunks, limits)
