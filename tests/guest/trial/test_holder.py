import threading
from collections.abc import Iterator

import pytest

from guest.trial.container import ContainerSpec, create, start
from guest.trial.engine import Engine
from guest.trial.exec import run_exec
from guest.trial.holder import Holder, HolderImage

pytestmark = pytest.mark.engine


@pytest.fixture
def holder(engine: Engine, holder_image: HolderImage, run_id: str, request: pytest.FixtureRequest) -> Iterator[Holder]:
    made = Holder(engine, holder_image, run_id, f"evalguest-{run_id}-holder", network=request.param)
    yield made
    made.close()


def join(engine: Engine, holder: Holder, base_image: str, run_id: str, name: str) -> str:
    spec = ContainerSpec(
        name=f"evalguest-{run_id}-{name}",
        image=base_image,
        run_id=run_id,
        role="task",
        network=holder.network_mode,
    )
    container_id, _ = create(engine, spec)
    start(engine, container_id)
    return container_id


def inside(engine: Engine, container_id: str, script: str) -> str:
    result = run_exec(engine, container_id, ["sh", "-c", script], seconds=20, stop=threading.Event())
    return result.output.decode().strip()


@pytest.mark.parametrize("holder", [False], indirect=True)
def test_nothing_written_to_shared_files_reaches_the_next_trial(
    engine: Engine, holder: Holder, base_image: str, run_id: str
) -> None:
    first = join(engine, holder, base_image, run_id, "first")
    before = inside(engine, first, "cat /etc/hosts /etc/hostname /etc/resolv.conf")
    planted = """
    for f in /etc/hosts /etc/hostname /etc/resolv.conf; do
        echo secret >> $f; touch -d @1234567 $f; chmod 4777 $f; chown 7:8 $f
        python3 -c "import os; os.setxattr('$f', 'user.secret', b'secret')"
    done
    """
    inside(engine, first, planted)
    look = """
    cat /etc/hosts /etc/hostname /etc/resolv.conf
    stat -c '%a %u %g %Y' /etc/hosts /etc/hostname /etc/resolv.conf
    python3 -c "import os; print([os.listxattr(f) for f in ('/etc/hosts', '/etc/hostname', '/etc/resolv.conf')])"
    """
    second = join(engine, holder, base_image, run_id, "second")
    assert "secret" in inside(engine, second, look)
    holder.reset()
    plain = "644 0 0 0\n644 0 0 0\n644 0 0 0\n[[], [], []]"
    assert inside(engine, second, look) == f"{before}\n{plain}"


@pytest.mark.parametrize("holder", [False], indirect=True)
def test_without_network_there_is_loopback_only(engine: Engine, holder: Holder, base_image: str, run_id: str) -> None:
    joined = join(engine, holder, base_image, run_id, "task")
    assert inside(engine, joined, "ls /sys/class/net") == "lo"
    assert not holder.gateway_answers()


@pytest.mark.parametrize("holder", [True], indirect=True)
def test_network_is_cut_and_joined_again(engine: Engine, holder: Holder, base_image: str, run_id: str) -> None:
    joined = join(engine, holder, base_image, run_id, "task")
    others = "ls /sys/class/net | grep -vc '^lo$'"
    assert inside(engine, joined, others) == "1"
    assert holder.gateway_answers()
    holder.set_network(connected=False)
    holder.set_network(connected=False)
    assert inside(engine, joined, others) == "0"
    assert not holder.gateway_answers()
    holder.set_network(connected=True)
    assert inside(engine, joined, others) == "1"


@pytest.mark.parametrize("holder", [True], indirect=True)
def test_slots_cannot_reach_each_other(
    engine: Engine, holder: Holder, holder_image: HolderImage, base_image: str, run_id: str
) -> None:
    other = Holder(engine, holder_image, run_id, f"evalguest-{run_id}-other", network=True)
    try:
        target = join(engine, other, base_image, run_id, "target")
        inside(engine, target, "nohup python3 -m http.server 8000 >/dev/null 2>&1 & sleep 1")
        address = inside(engine, target, "tail -1 /etc/hosts | cut -f1")
        joined = join(engine, holder, base_image, run_id, "task")
        dial = f"import socket; socket.create_connection(('{address}', 8000), timeout=2); print('reached')"
        assert inside(engine, target, f'python3 -c "{dial}"') == "reached"
        assert "reached" not in inside(engine, joined, f'python3 -c "{dial}"').splitlines()
    finally:
        engine.api.remove_container(target, force=True)
        other.close()


def test_a_holder_ends_with_its_orchestrator(engine: Engine, holder_image: HolderImage, run_id: str) -> None:
    holder = Holder(engine, holder_image, run_id, f"evalguest-{run_id}-holder", network=False)
    holder._socket.shutdown(2)
    assert engine.api.wait(holder.container_id, timeout=10)["StatusCode"] == 0
