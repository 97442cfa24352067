import subprocess
import sys
import threading
from pathlib import Path

import pytest

from guest.errors import EnvironmentFault
from guest.trial.cgroup import SlotCgroup
from guest.trial.container import ContainerSpec, create, remove, start
from guest.trial.engine import Engine, EngineInfo
from guest.trial.exec import run_exec


def engine_with(engine: Engine, **changes: str) -> Engine:
    """The same engine claiming another cgroup driver or version."""
    return Engine(engine.api, engine.info.model_copy(update=changes))


@pytest.mark.engine
def test_parent_keeps_the_time_of_removed_children(
    engine: Engine, base_image: str, run_id: str, stop: threading.Event
) -> None:
    cgroup = SlotCgroup(engine, f"evalguest_{run_id}_0")
    spec = ContainerSpec(
        name=f"evalguest-{run_id}-task",
        image=base_image,
        run_id=run_id,
        role="task",
        network="none",
        cgroup_parent=cgroup.parent,
    )
    container_id, _ = create(engine, spec)
    start(engine, container_id)
    before = cgroup.cpu_seconds(container_id)
    spin = "import time\nwhile time.process_time() < 1.5: pass"
    run_exec(engine, container_id, ["setsid", "--wait", "python3", "-c", spin], seconds=30, stop=stop)
    used = cgroup.cpu_seconds(container_id) - before
    assert 1.5 <= used < 2.0
    assert cgroup.source in ("cgroup1", "cgroup2")
    assert (cgroup.memory(container_id).peak_bytes or 0) > 1 << 20
    assert cgroup.memory(container_id).oom_kills == 0
    assert cgroup.process_count(container_id) == 1
    run_exec(engine, container_id, ["sh", "-c", "sleep 100 >/dev/null 2>&1 &"], seconds=30, stop=stop)
    assert cgroup.process_count(container_id) == 2
    remove(engine, container_id)
    assert used <= cgroup.cpu_seconds(container_id) - before < used + 0.1
    cgroup.remove()
    with pytest.raises(EnvironmentFault):
        cgroup.cpu_seconds(container_id)


@pytest.mark.engine
def test_memory_kills_are_counted(engine: Engine, base_image: str, run_id: str, stop: threading.Event) -> None:
    cgroup = SlotCgroup(engine, f"evalguest_{run_id}_0")
    spec = ContainerSpec(
        name=f"evalguest-{run_id}-task",
        image=base_image,
        run_id=run_id,
        role="task",
        network="none",
        memory_bytes=64 << 20,
        cgroup_parent=cgroup.parent,
    )
    container_id, _ = create(engine, spec)
    start(engine, container_id)
    hog = run_exec(engine, container_id, ["python3", "-c", "b'x' * (1 << 30)"], seconds=30, stop=stop)
    assert hog.exit_code == 137
    assert (cgroup.memory(container_id).oom_kills or 0) >= 1
    remove(engine, container_id)
    cgroup.remove()


@pytest.mark.engine
def test_stats_serve_where_files_cannot_be_read(
    engine: Engine, task_container: str, stop: threading.Event, tmp_path: Path
) -> None:
    cgroup = SlotCgroup(engine, "evalguest_none_0", trees=(tmp_path,))
    assert cgroup.source == "stats"
    before = cgroup.cpu_seconds(task_container)
    spin = "import time\nwhile time.process_time() < 0.5: pass"
    run_exec(engine, task_container, ["python3", "-c", spin], seconds=30, stop=stop)
    assert 0.45 < cgroup.cpu_seconds(task_container) - before < 1.0
    assert cgroup.memory(task_container).peak_bytes is None
    assert cgroup.process_count(task_container) is None


MOUNTS = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
UNIFIED = next((Path(where) for _, where, kind, *_ in MOUNTS if kind == "cgroup2"), None)


@pytest.mark.engine
@pytest.mark.skipif(UNIFIED is None, reason="no cgroup version 2 is mounted on this machine")
def test_version_two_is_read_from_a_real_group(engine: Engine) -> None:
    """The kernel keeps cpu.stat in every version 2 group, even where the controllers live in version 1."""
    tree = UNIFIED
    assert tree is not None
    cgroup = SlotCgroup(
        engine_with(engine, cgroup_version="2", cgroup_driver="cgroupfs"), "evalguest_two_0", trees=(tree,)
    )
    group = tree / "evalguest_two_0"
    group.mkdir()
    try:
        spin = f"""
import pathlib, time
pathlib.Path({str(group / "cgroup.procs")!r}).write_text("0")
while time.process_time() < 0.5: pass
"""
        subprocess.run([sys.executable, "-c", spin], check=True)
        assert cgroup.source == "cgroup2"
        assert 0.4 < cgroup.cpu_seconds("any") < 0.8
    finally:
        group.rmdir()


def test_version_two_files_and_the_systemd_names(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    scope = tmp_path / "evalguest_x_0.slice" / "docker-abc.scope"
    scope.mkdir(parents=True)
    (scope.parent / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n")
    (scope / "cpu.stat").write_text("usage_usec 1\nnr_periods 40\nnr_throttled 3\nthrottled_usec 1500000\n")
    (scope / "memory.peak").write_text("1048576\n")
    (scope / "memory.events").write_text("low 0\nhigh 0\nmax 2\noom 1\noom_kill 1\noom_group_kill 0\n")
    cgroup = SlotCgroup(
        engine_with(engine, cgroup_version="2", cgroup_driver="systemd"), "evalguest_x_0", trees=(tmp_path,)
    )
    assert cgroup.parent == "evalguest_x_0.slice"
    assert cgroup.cpu_seconds("abc") == 2.5
    assert (cgroup.memory("abc").peak_bytes, cgroup.memory("abc").oom_kills) == (1 << 20, 1)
    assert (cgroup.throttling("abc").periods, cgroup.throttling("abc").seconds) == (3, 1.5)


def test_info_of_an_engine_without_cgroup_version_is_version_one() -> None:
    info = EngineInfo.model_validate(
        {
            "ServerVersion": "19.03",
            "NCPU": 2,
            "MemTotal": 1,
            "CgroupDriver": "cgroupfs",
            "Driver": "overlay2",
            "DockerRootDir": "/var/lib/docker",
            "Something": "else",
        }
    )
    assert info.cgroup_version == "1"
