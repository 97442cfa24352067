import copy
import io
import threading
from typing import Any

import pytest

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial.container import ContainerSpec, check_inspection, create, is_running, live_processes, remove, start
from guest.trial.engine import Engine
from guest.trial.exec import run_exec

pytestmark = pytest.mark.engine


def spec(base_image: str, run_id: str, **changes: Any) -> ContainerSpec:
    values: dict[str, Any] = {
        "name": f"evalguest-{run_id}-task",
        "image": base_image,
        "run_id": run_id,
        "role": "task",
        "network": "none",
    }
    return ContainerSpec(**{**values, **changes})


def test_limits_reach_the_kernel(engine: Engine, base_image: str, run_id: str, stop: threading.Event) -> None:
    container_id, inspection = create(
        engine, spec(base_image, run_id, cpus=0.5, memory_bytes=256 << 20, workdir="/var")
    )
    start(engine, container_id)

    def inside(script: str) -> str:
        return run_exec(engine, container_id, ["sh", "-c", script], seconds=20, stop=stop).output.decode().strip()

    status = dict(line.split(":\t", 1) for line in inside("cat /proc/self/status").splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    # Capability numbers from linux/capability.h: NET_RAW 13, SYS_ADMIN 21, MKNOD 27, SETFCAP 31; CHOWN is 0.
    capabilities = int(status["CapBnd"], 16)
    assert [bit for bit in (13, 21, 27, 31) if capabilities >> bit & 1] == []
    assert capabilities & 1
    assert inside("df -k /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2") == str(128 << 10)
    assert inside("cat /proc/1/comm") == "sleep"
    assert inside("ls /sys/class/net") == "lo"
    host = inspection["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (500_000_000, 256 << 20, 256 << 20)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("Privileged", True),
        ("Binds", ["/:/host"]),
        ("CapAdd", ["SYS_ADMIN"]),
        ("NetworkMode", "host"),
        ("PidMode", "host"),
        ("IpcMode", "shareable"),
        ("SecurityOpt", ["seccomp=unconfined"]),
        ("Devices", [{"PathOnHost": "/dev/kvm"}]),
        ("MemorySwap", -1),
        ("PidsLimit", None),
        ("CgroupnsMode", "host"),
        ("RestartPolicy", {"Name": "always", "MaximumRetryCount": 0}),
        ("VolumesFrom", ["other"]),
        ("Sysctls", {"net.ipv4.ip_forward": "1"}),
    ],
)
def test_a_difference_in_the_inspection_is_refused(
    engine: Engine, base_image: str, run_id: str, member: str, value: object
) -> None:
    wanted = spec(base_image, run_id)
    _, inspection = create(engine, wanted)
    changed = copy.deepcopy(inspection)
    changed["HostConfig"][member] = value
    with pytest.raises(Refused) as caught:
        check_inspection(wanted, changed)
    assert caught.value.reason is Reason.LAUNCH_REFUSED
    assert member in caught.value.message


def test_an_image_with_a_volume_is_refused_and_removed(engine: Engine, base_image: str, run_id: str) -> None:
    dockerfile = f'FROM {base_image}\nVOLUME /data\nENTRYPOINT ["/bin/false"]\nHEALTHCHECK CMD true\n'.encode()
    image = f"evalguest-test-volume:{run_id}"
    for answer in engine.api.build(fileobj=io.BytesIO(dockerfile), tag=image, rm=True, decode=True):
        assert "error" not in answer
    try:
        with pytest.raises(Refused) as caught:
            create(engine, spec(image, run_id))
        assert caught.value.reason is Reason.LAUNCH_REFUSED
        assert "/data" in caught.value.message
        assert engine.api.containers(all=True, filters={"label": f"evalguest={run_id}"}) == []
        assert engine.api.volumes(filters={"dangling": True, "label": f"evalguest={run_id}"})["Volumes"] in (None, [])
    finally:
        engine.api.remove_image(image, force=True)


def test_an_image_that_is_absent_is_an_engine_fault(engine: Engine, run_id: str) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        create(engine, spec("evalguest-no-such-image:1", run_id))
    assert "No such image" in caught.value.message


def test_processes_are_seen_and_removal_is_proved(engine: Engine, task_container: str, stop: threading.Event) -> None:
    assert live_processes(engine, task_container) == []
    run_exec(engine, task_container, ["sh", "-c", "setsid sleep 1234 >/dev/null 2>&1 &"], seconds=20, stop=stop)
    assert live_processes(engine, task_container) == ["sleep 1234"]
    assert is_running(engine, task_container)
    remove(engine, task_container)
    assert not is_running(engine, task_container)
    remove(engine, task_container)
