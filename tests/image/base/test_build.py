from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from guest.errors import EnvironmentFault
from guest.reason import Reason
from guest.trial.engine import Engine
from image.base.build import bootstrap_on_host, build_environment, host_can_bootstrap, run_tool, write_repository
from image.base.ensure import built, remove_work
from image.base.fetch import DEFAULT_MIRROR, fetch_debs, sources
from image.base.in_container import bootstrap_in_container
from image.base.lock import read_lock
from scripts.cache_dir import cache_dir
from tests.image.base.made import made_deb, made_lock

CHECKOUT = Path(__file__).resolve().parents[3]
on_host = pytest.mark.skipif(not host_can_bootstrap(), reason="needs root on an x86-64 Debian or Ubuntu")

BUILD_ELSEWHERE = """
import sys
from pathlib import Path
from image.base.build import bootstrap_on_host
from image.base.ensure import built
from image.base.fetch import DEFAULT_MIRROR
from image.base.lock import read_lock
with built(read_lock(), Path(sys.argv[1]), lambda _: None, mirror=DEFAULT_MIRROR, bootstrap=bootstrap_on_host) as made:
    print(made.expected.model_dump_json())
"""


def with_packages(directory: Path) -> Path:
    """Make `directory` a cache that has the packages already, so that tests of builds don't fetch them again."""
    debs = fetch_debs(read_lock(), cache_dir(), sources(read_lock()), lambda _: None)
    (directory / "debs").mkdir(parents=True)
    for sha256, path in debs.items():
        (directory / "debs" / sha256).symlink_to(path)
    return directory


@on_host
def test_a_build_elsewhere_gives_what_the_lock_expects(tmp_path: Path) -> None:
    elsewhere = with_packages(tmp_path / "else where")
    lock = read_lock()
    with built(lock, elsewhere, lambda _: None, mirror=DEFAULT_MIRROR, bootstrap=bootstrap_on_host) as result:
        assert result.expected == lock.expected
    assert sorted(path.name for path in elsewhere.iterdir()) == ["debs", "wheels"]


@on_host
@pytest.mark.drill
@pytest.mark.parametrize(
    ("umask", "variables"),
    [
        (0o077, {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "1"}),
        (0o000, {"TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2", "SOURCE_DATE_EPOCH": "1"}),
    ],
)
def test_umask_zone_locale_and_place_do_not_show(tmp_path: Path, umask: int, variables: dict[str, str]) -> None:
    elsewhere = with_packages(tmp_path / "x")
    made = subprocess.run(
        [sys.executable, "-c", BUILD_ELSEWHERE, str(elsewhere)],
        cwd=elsewhere,
        env={**os.environ, **variables, "PYTHONPATH": str(CHECKOUT)},
        umask=umask,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert made.strip() == read_lock().expected.model_dump_json()


@pytest.mark.engine
@pytest.mark.drill
def test_a_build_in_a_container_gives_the_same(engine: Engine, base_image: str, tmp_path: Path) -> None:
    lock = read_lock()
    bootstrap = partial(bootstrap_in_container, engine=engine.api, builder=base_image)
    elsewhere = with_packages(tmp_path / "x")
    with built(lock, elsewhere, lambda _: None, mirror=DEFAULT_MIRROR, bootstrap=bootstrap) as result:
        assert result.expected == lock.expected
    names = [name for row in engine.api.containers(all=True) for name in row["Names"]]
    assert not [name for name in names if name.startswith("/evalguest-base-build-")]


@on_host
def test_apt_itself_refuses_a_package_altered_after_it_was_fetched(tmp_path: Path) -> None:
    lock = read_lock()
    debs = dict(fetch_debs(lock, cache_dir(), sources(lock), lambda _: None))
    sha256 = lock.packages[0].sha256
    altered = tmp_path / "altered.deb"
    data = bytearray(debs[sha256].read_bytes())
    data[-1] ^= 1
    altered.write_bytes(bytes(data))
    debs[sha256] = altered
    write_repository(lock, debs, tmp_path / "repository")
    with pytest.raises(EnvironmentFault) as caught:
        bootstrap_on_host(lock, tmp_path / "repository", tmp_path / "raw.tar", lambda _: None)
    assert caught.value.reason is Reason.TOOL_FAILED
    assert "Hash Sum mismatch" in caught.value.message


def test_the_build_sees_nothing_of_the_users_environment() -> None:
    assert build_environment(made_lock(made_deb()), "/t") == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": "1795252544",
        "PYTHONHASHSEED": "0",
        "TMPDIR": "/t",
    }


def test_a_failing_tool_is_quoted() -> None:
    with pytest.raises(EnvironmentFault) as caught:
        run_tool(["sh", "-c", "echo no such luck >&2; exit 7"], os.environ)
    assert caught.value.reason is Reason.TOOL_FAILED
    assert "status 7" in caught.value.message
    assert "no such luck" in caught.value.message


def test_an_interrupted_tool_takes_what_it_started_with_it(tmp_path: Path) -> None:
    code = (
        "import os; from image.base.build import run_tool\n"
        "try: run_tool(['sh', '-c', 'sleep 60 & echo $! >pid; wait'], os.environ)\n"
        "except KeyboardInterrupt: print('stopped in order')"
    )
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env, stdout=subprocess.PIPE) as process:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=10)
    assert said == b"stopped in order\n"
    state = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    assert not state.exists() or ") Z " in state.read_text()


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="mounting needs root on Linux")
def test_leftover_mounts_are_undone_before_anything_is_removed(tmp_path: Path) -> None:
    outside, work = tmp_path / "outside", tmp_path / "base-work-x y"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    (work / "tree" / "dev").mkdir(parents=True)
    mounted = subprocess.run(["mount", "--bind", str(outside), str(work / "tree" / "dev")], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let root mount")
    subprocess.run(["mount", "-t", "tmpfs", "none", str(work / "tree")], check=True)
    remove_work(work)
    assert not work.exists()
    assert (outside / "precious").read_text() == "kept"


PROBE = r"""
set -e
test ! -e /etc/machine-id
test -z "$(find /var/log /var/cache/apt /var/lib/apt/lists -type f)"
test "$(stat -c %a /tmp)" = 1777
test -u /usr/bin/su
dpkg --audit && test -z "$(dpkg --audit)"
apt-get check -qq
useradd -m helper && test "$(setpriv --reuid helper --regid helper --init-groups id -un)" = helper
cd /tmp
printf 'def test_one():\n    assert True\n' >test_one.py
python3 -m pytest -q --ctrf report.json test_one.py >/dev/null
python3 -c 'import json; s = json.load(open("report.json"))["results"]["summary"]; assert s["passed"] == 1'
printf 'int main(void){return 0;}\n' >a.c && gcc -O2 -flto -fsanitize=address a.c && ./a.out
printf 'all:\n\t@true\n' >Makefile && make -s
git init -q r && sqlite3 :memory: 'select 1' >/dev/null && ps -e >/dev/null && openssl version >/dev/null
python3 -c 'import sqlite3, lzma, bz2, ssl; assert ssl.create_default_context().cert_store_stats()["x509_ca"]'
echo all is well
"""


def run_in(engine: Engine, image: str, script: str, network: str) -> str:
    """Run a script in a container of the image and give what it printed, errors included."""
    host = engine.api.create_host_config(network_mode=network)
    container = engine.api.create_container(image, ["bash", "-c", script], host_config=host)["Id"]
    try:
        engine.api.start(container)
        engine.api.wait(container)
        return bytes(engine.api.logs(container)).decode()
    finally:
        engine.api.remove_container(container, force=True)


@pytest.mark.engine
def test_the_image_has_what_tasks_and_verifiers_need(engine: Engine, base_image: str) -> None:
    assert run_in(engine, base_image, PROBE, "none").strip().split("\n")[-1] == "all is well"


@pytest.mark.engine
@pytest.mark.drill
def test_apt_installs_in_an_image_made_from_it(engine: Engine, base_image: str) -> None:
    script = "apt-get update -qq && apt-get install -y -qq --no-install-recommends jq && echo {} | jq -c ."
    assert run_in(engine, base_image, script, "bridge").strip().endswith("{}")


@pytest.mark.engine
def test_layers_and_times_are_those_of_the_lock(engine: Engine, base_image: str) -> None:
    lock = read_lock()
    seen = engine.api.inspect_image(base_image)
    assert seen["RootFS"]["Layers"] == [f"sha256:{lock.expected.tar_sha256}"]
    script = f"find /usr /opt -newermt @{lock.epoch}; stat -c %Y /usr/bin/git"
    shown = run_in(engine, base_image, script, "none")
    assert shown.strip() == str(lock.epoch)
