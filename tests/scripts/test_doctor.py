"""What doctor says of this machine, and of one without an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from guest.trial.engine import Engine
from image.base.lock import read_lock

CHECKOUT = Path(__file__).resolve().parents[2]


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts", "doctor", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, check=False, timeout=60)


def checks_of(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    document = json.loads(done.stdout)
    assert set(document) == {"schema_version", "can", "checks"}
    assert document["schema_version"] == 1
    assert set(document["can"]) == {"dry_run", "build_base_image"}
    for check in document["checks"]:
        assert set(check) == {"name", "state", "found", "mend"}
        assert check["state"] in {"ok", "note", "missing"}
        assert check["found"]
        assert check["mend"] or check["state"] != "missing"
    return {check["name"]: check for check in document["checks"]}


@pytest.mark.engine
def test_this_machine_can_dry_run(engine: Engine, base_image: str, tmp_path: Path) -> None:
    done = doctor("--json", XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    checks = checks_of(done)
    assert checks["base image"]["found"] == base_image == read_lock().ref
    for part in (engine.info.version, engine.api.api_version, engine.info.storage_driver):
        assert part in checks["engine"]["found"]
    assert f"{engine.info.cpus} CPUs" in checks["machine"]["found"]
    assert f"cgroup v{engine.info.cgroup_version}" in checks["CPU time"]["found"]
    assert str(CHECKOUT) == checks["checkout"]["found"]
    assert checks["cache"]["found"] == f"{tmp_path}/evalguest, 0 MB"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.engine
def test_text_says_the_same(engine: Engine, base_image: str) -> None:
    assert engine
    done = doctor()
    assert (done.returncode, done.stderr) == (0, "")
    assert base_image in done.stdout
    assert done.stdout.splitlines()[-1].startswith("dry run: yes; ")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:2375", "unix:///nowhere/docker.sock"])
def test_without_an_engine_it_cannot(address: str) -> None:
    done = doctor("--json", DOCKER_HOST=address)
    assert done.returncode == 3
    checks = checks_of(done)
    assert checks["engine"]["state"] == "missing"
    assert address in checks["engine"]["found"]
    assert not json.loads(done.stdout)["can"]["dry_run"]
    assert doctor(DOCKER_HOST=address).returncode == 3


def test_the_cache_is_weighed_and_not_followed(tmp_path: Path) -> None:
    place = tmp_path / "evalguest"
    (place / "debs").mkdir(parents=True)
    (place / "debs" / "one").write_bytes(bytes(3_000_000))
    (place / "away").symlink_to("/usr")
    done = doctor("--json", XDG_CACHE_HOME=str(tmp_path), DOCKER_HOST="unix:///nowhere")
    assert checks_of(done)["cache"]["found"] == f"{place}, 3 MB"
