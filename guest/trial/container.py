"""Containers: a description without free fields, creation, and the check that the engine did exactly that.

Nothing is ever mounted, no host namespace is shared, no capability added. The engine's own view of the container is
compared with the description between create and start: an image's VOLUME, a daemon default or a later engine's idea
of a good default shows there, before anything runs.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.errors import APIError, NotFound

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.engine import Engine, engine_call
from guest.trial.tarstream import Entry, TarLimits, unpack

OWNER_LABEL = "evalguest"
DROPPED_CAPABILITIES = ("MKNOD", "NET_RAW", "SETFCAP")
PIDS_LIMIT = 1024
NOBODY_ID = 65534
NOBODY = f"{NOBODY_ID}:{NOBODY_ID}"
SEALED_PIDS_LIMIT = 128
SEALED_SHM_BYTES = 1 << 20
SEALED_INODES = 16_384
SLEEP_LOOKS = 1000
REMOVE_TRIES = 3
REMOVE_SEC = 900  # millions of files, or one with a great many extents, take the engine minutes
# After exec PID 1 is the image's own sleep (or tail): no init of the engine, which root inside could end.
KEEP_ALIVE = ("/bin/sh", "-c", "command -v sleep >/dev/null && exec sleep infinity; exec tail -f /dev/null")


@dataclass(frozen=True)
class ContainerSpec:
    """All that can be said about a container of ours.

    `network` is `none`, `container:<id>` (the network namespace of a slot's holder) or the name of a bridge of ours.
    A `sealed` one, for code of strangers, has nothing it could do without: no user, no capability, nothing writable but
    a directory in memory of `scratch_bytes`, which counts against its memory.
    """

    name: str
    image: str
    run_id: str
    role: str
    network: str
    command: tuple[str, ...] = KEEP_ALIVE
    workdir: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    cpus: float = 1.0
    memory_bytes: int = 128 << 20
    cgroup_parent: str = ""
    open_stdin: bool = False
    sealed: bool = False
    scratch_bytes: int = 0

    def create_body(self) -> dict[str, Any]:
        """Give the body of the engine's create call (Docker Engine API 1.41, ContainerCreate)."""
        return {
            "Image": self.image,
            "Entrypoint": list(self.command),
            "Cmd": [],
            "Env": [f"{name}={value}" for name, value in self.env.items()],
            "Labels": {OWNER_LABEL: self.run_id, f"{OWNER_LABEL}.role": self.role},
            "WorkingDir": self.workdir,
            "User": NOBODY if self.sealed else "0:0" if self.role == "holder" else "",
            "OpenStdin": self.open_stdin,
            "StdinOnce": self.open_stdin,
            "Healthcheck": {"Test": ["NONE"]},
            "StopTimeout": 1,
            "HostConfig": {
                "NetworkMode": self.network,
                "NanoCpus": round(self.cpus * 1e9),
                "Memory": self.memory_bytes,
                "MemorySwap": self.memory_bytes,
                "ShmSize": SEALED_SHM_BYTES if self.sealed else self.memory_bytes // 2,
                "PidsLimit": SEALED_PIDS_LIMIT if self.sealed else PIDS_LIMIT,
                "CapDrop": ["ALL"] if self.sealed else list(DROPPED_CAPABILITIES),
                "ReadonlyRootfs": self.sealed,
                "Tmpfs": {"/tmp": self._scratch_options()} if self.sealed else None,  # noqa: S108 - the container's
                "SecurityOpt": ["no-new-privileges"],
                "IpcMode": "private",
                "CgroupnsMode": "private",
                "CgroupParent": self.cgroup_parent,
                "LogConfig": {"Type": "none", "Config": {}},
                "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
                "Init": False,
            },
        }

    def _scratch_options(self) -> str:
        size = f"size={self.scratch_bytes},nr_inodes={SEALED_INODES}"
        return f"rw,exec,nosuid,nodev,mode=0700,uid={NOBODY_ID},gid={NOBODY_ID},{size}"


def create(engine: Engine, spec: ContainerSpec) -> tuple[str, dict[str, Any]]:
    """Create (not start) a container; give its id and the engine's inspection of it, already checked.

    Raises EnvironmentFault for engine errors, Refused(LAUNCH_REFUSED) when the inspection differs from the spec; the
    container is then removed again.
    """
    with engine_call(f"create the container {spec.name}"):
        container_id = str(engine.api.create_container_from_config(spec.create_body(), name=spec.name)["Id"])
    try:
        with engine_call(f"inspect the container {spec.name}"):
            inspection = engine.api.inspect_container(container_id)
        check_inspection(spec, inspection)
    except BaseException:
        remove(engine, container_id)
        raise
    return container_id, inspection


def check_inspection(spec: ContainerSpec, inspection: Mapping[str, Any]) -> None:
    """Compare the engine's inspection with the spec. Raises Refused(LAUNCH_REFUSED) naming each member that differs."""
    host: Mapping[str, Any] = inspection["HostConfig"]
    config: Mapping[str, Any] = inspection["Config"]
    body = spec.create_body()
    differing = [
        f"{name} is {host.get(name)!r}, expected {wanted!r}"
        for name, wanted in body["HostConfig"].items()
        if name != "Init" and (host.get(name) or None) != (wanted or None)
    ]
    differing += [
        f"{name} is {config.get(name)!r}, expected {body[name]!r}"
        for name in ("Entrypoint", "Labels", "WorkingDir", "OpenStdin", "User")
        if not _same(name, config.get(name), body[name])
    ]
    for name in _MUST_BE_EMPTY:
        if host.get(name):
            differing.append(f"{name} is {host[name]!r}, expected nothing")
    if inspection.get("Mounts"):
        where = ", ".join(str(mount.get("Destination")) for mount in inspection["Mounts"])
        differing.append(f"the container would have mounts at {where} (an image's VOLUME?), expected none")
    if differing:
        raise Refused(
            Reason.LAUNCH_REFUSED, f"the engine made {spec.name} other than described: {'; '.join(differing)}"
        )


_MUST_BE_EMPTY = (
    *("Privileged", "Binds", "VolumesFrom", "Mounts", "CapAdd", "Devices", "DeviceRequests", "DeviceCgroupRules"),
    *("PidMode", "UTSMode", "UsernsMode", "PortBindings", "PublishAllPorts", "Links", "ExtraHosts", "Sysctls"),
    *("GroupAdd", "Dns", "DnsOptions", "DnsSearch", "StorageOpt", "AutoRemove", "OomKillDisable", "Init"),
)


def _same(name: str, found: object, wanted: object) -> bool:
    """Compare a config member; labels may also hold those of the image, and a task's user is the image's own."""
    if name == "User" and not wanted:
        return True
    if name == "Labels" and isinstance(found, dict) and isinstance(wanted, dict):
        return all(found.get(key) == value for key, value in wanted.items())
    return found == wanted


def start(engine: Engine, container_id: str) -> None:
    """Start a created container. Raises EnvironmentFault with the engine's own words."""
    with engine_call("start the container"):
        engine.api.start(container_id)


def is_running(engine: Engine, container_id: str) -> bool:
    """Say whether the container's PID 1 lives. A container that is gone does not."""
    with engine_call("inspect the container"):
        try:
            return bool(engine.api.inspect_container(container_id)["State"]["Running"])
        except NotFound:
            return False


def first_process_time(engine: Engine, container_id: str) -> int | None:
    """Give the CPU time (ns) that PID 1 has used, None where this machine's `/proc` does not show it.

    It sleeps for good, and the kernel drops whatever signal it is sent from inside, so its time stands still unless
    somebody has put code into it (root in the container may trace it). One that has only just started, or thawed, is
    waited for. Format: Linux, proc_pid_stat(5) and `Documentation/scheduler/sched-stats.rst`.

    Raises Refused(AGENT_LEFT_PROCESSES) when it does not sleep.
    """
    with engine_call("inspect the container"):
        pid = engine.api.inspect_container(container_id)["State"]["Pid"]
    process = Path("/proc", str(pid))
    try:
        if container_id not in (process / "cgroup").read_text():  # the engine counts processes elsewhere
            return None
        for _ in range(SLEEP_LOOKS):
            if (process / "stat").read_text().rpartition(")")[2].split()[0] == "S":
                return int((process / "schedstat").read_text().split()[0])
            time.sleep(0.01)
    except (OSError, ValueError, IndexError):
        return None
    raise Refused(Reason.AGENT_LEFT_PROCESSES, "PID 1 of the task container, which only sleeps, runs")


def live_processes(engine: Engine, container_id: str) -> list[str]:
    """Give the commands of all processes but PID 1 that are not zombies, from the engine's process list.

    The container is frozen meanwhile: the engine takes the ids first and asks `ps` about them later, so that a process
    which forks and ends faster than that would never be seen. One whose first thread has ended looks like a zombie
    while its others run, hence the number of threads.

    Raises Refused: CONTAINER_ENDED when there are none at all, ENGINE_UNSUITABLE when the engine cannot list them (it
    runs the `ps` of its own machine, which no container can influence).
    """
    with engine_call("inspect the container"):
        state = engine.api.inspect_container(container_id)["State"]
    if not state["Running"]:
        raise Refused(Reason.CONTAINER_ENDED, "PID 1 of the task container has ended")
    try:
        with frozen(engine, container_id), engine_call("list the container's processes"):
            rows = engine.api.top(container_id, "-eo pid,nlwp,stat,args")["Processes"] or []
    except EnvironmentFault as fault:
        if not is_running(engine, container_id):
            raise Refused(Reason.CONTAINER_ENDED, "PID 1 of the task container has ended") from fault
        raise Refused(Reason.ENGINE_UNSUITABLE, fault.message, "install ps (procps) beside the engine") from fault
    first = str(state["Pid"])
    return [
        args for pid, threads, stat, args in rows if pid != first and not (stat.startswith("Z") and int(threads) <= 1)
    ]


def copy_out(engine: Engine, container_id: str, path: str, limits: TarLimits) -> dict[str, Entry]:
    """Read a file or directory out of a container; keys are paths relative to it, the empty one for itself.

    Raises Refused(TAR_REFUSED) for an answer beyond the limits. It is then broken off: the engine would go on reading a
    file of a terabyte, and could not remove the container meanwhile.
    """
    with engine_call(f"read {path}"):
        chunks, _ = engine.api.get_archive(container_id, path)
        with closing(chunks):
            return unpack(chunks, limits)


@contextmanager
def frozen(engine: Engine, container_id: str) -> Iterator[None]:
    """Let nothing in the container run inside. No command may be about to start in it: that wedges the engine."""
    with engine_call("pause the container"):
        engine.api.pause(container_id)
    try:
        yield
    finally:
        with engine_call("go on with the container"):
            engine.api.unpause(container_id)


def remove(engine: Engine, container_id: str) -> None:
    """Remove a container with its anonymous volumes and prove that it is gone.

    An engine that is still at it is given time: what the container holds must not decide whether a job goes on. Raises
    EnvironmentFault(CONTAINER_LEFT) when it refuses three times, or has not done it after REMOVE_SEC.
    """
    words = ""
    refusals = 0
    began = time.monotonic()
    while refusals < REMOVE_TRIES and time.monotonic() - began < REMOVE_SEC:
        try:
            with engine_call("remove the container"):
                try:
                    engine.api.remove_container(container_id, v=True, force=True)
                except APIError as error:
                    if error.status_code not in (404, 409):  # gone already, or on its way
                        raise
                    words = str(error)
                engine.api.inspect_container(container_id)
        except EnvironmentFault as fault:
            if isinstance(fault.__cause__, NotFound):
                return
            words = fault.message[-500:]
            if fault.reason is not Reason.ENGINE_TIMEOUT:
                refusals += 1
                _empty_layer(engine, container_id)
        time.sleep(0.5)
    raise EnvironmentFault(Reason.CONTAINER_LEFT, f"the container {container_id[:12]} could not be removed: {words}")


def _empty_layer(engine: Engine, container_id: str) -> None:
    """Empty the writable layer of a dead container that the engine fails to remove, where this machine shows it.

    The engine holds a file descriptor for each level of a tree that it removes, so that some ten thousand directories
    in one another are too deep for it, then and ever after. `rm` removes any tree.
    """
    with suppress(EnvironmentFault), engine_call("find what is left of a container"):
        inspection = engine.api.inspect_container(container_id)
        layer = Path((inspection["GraphDriver"]["Data"] or {}).get("UpperDir") or "/")
        if not inspection["State"]["Running"] and engine.info.root_dir in layer.parents and layer.is_dir():
            subprocess.run(["rm", "-rf", "--one-file-system", "--", *layer.iterdir()], check=False)
