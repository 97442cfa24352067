"""Packing and checking an agent: the same tree gives the same bytes, and nothing that would be refused is written."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from guest.agent.archive import load_archive
from guest.errors import Refused
from guest.reason import Reason
from scripts.agent import pack_directory

CHECKOUT = Path(__file__).resolve().parents[2]
AGENT = b"class Agent:\n    pass\n"


def evalguest(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts", "agent", *map(str, arguments)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "agent"
    (root / "lib").mkdir(parents=True)
    (root / "agent.py").write_bytes(AGENT)
    (root / "lib" / "util.py").write_bytes(b"x = 1\n")
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "empty").write_bytes(b"")
    return root


def test_the_same_tree_gives_the_same_archive(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "place"
    (other / "lib").mkdir(parents=True)
    for name in ("empty", "run.sh", "lib/util.py", "agent.py"):
        (other / name).write_bytes((tree / name).read_bytes())
        os.utime(other / name, (1, 1))
        (other / name).chmod(0o700 if name == "run.sh" else 0o600)
    assert pack_directory(tree)[0] == pack_directory(other)[0]
    (other / "empty").write_bytes(b"1")
    assert pack_directory(tree)[0] != pack_directory(other)[0]


def test_pack_prints_the_hash_of_what_it_wrote_and_check_agrees(tree: Path, tmp_path: Path) -> None:
    packed = evalguest("pack", tree, "-o", tmp_path / "agent.zip")
    assert packed.returncode == 0, packed.stderr
    data = (tmp_path / "agent.zip").read_bytes()
    assert f"agent hash        {sha256(data).hexdigest()}" in packed.stdout
    assert zipfile.ZipFile(io.BytesIO(data)).namelist() == ["agent.py", "empty", "lib/util.py", "run.sh"]
    checked = evalguest("check", tmp_path / "agent.zip", "--json")
    assert checked.returncode == 0
    document = json.loads(checked.stdout)
    assert document["agent_hash"] == sha256(data).hexdigest()
    assert document["package_tree_sha"] == load_archive(data).tree_sha256
    assert document["files"] == {"agent.py": 22, "empty": 0, "lib/util.py": 6, "run.sh": 10}
    assert json.loads(evalguest("check", tree, "--json").stdout) == document


def test_caches_and_version_control_are_left_out_and_named(tree: Path, tmp_path: Path) -> None:
    for folder in ("__pycache__", "lib/__pycache__", ".git"):
        (tree / folder).mkdir()
        (tree / folder / "x.pyc").write_bytes(b"")
    packed = evalguest("pack", tree, "-o", tmp_path / "agent.zip")
    assert packed.returncode == 0
    assert packed.stderr.splitlines() == [
        "left out: .git",
        "left out: __pycache__",
        "left out: lib/__pycache__",
    ]
    assert set(load_archive((tmp_path / "agent.zip").read_bytes()).files) == {
        "agent.py",
        "empty",
        "lib/util.py",
        "run.sh",
    }


def test_a_large_agent_is_deflated(tree: Path) -> None:
    lines = "".join(f"# {sha256(str(at).encode()).hexdigest()}\n" for at in range(25_000))
    (tree / "lib" / "util.py").write_text(lines)
    data, _ = pack_directory(tree)
    assert len(data) < 1_048_576 < len(lines)
    assert load_archive(data).files["lib/util.py"].data == lines.encode()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda root: (root / "link").symlink_to("agent.py"), Reason.AGENT_ENTRY_REFUSED),
        (lambda root: (root / "away").symlink_to("/etc"), Reason.AGENT_ENTRY_REFUSED),
        (lambda root: os.mkfifo(root / "pipe"), Reason.AGENT_ENTRY_REFUSED),
        (lambda root: (root / "x.whl").write_bytes(b""), Reason.AGENT_ARCHIVE_NESTED),
        (lambda root: (root / "AGENT.py").write_bytes(b""), Reason.AGENT_PATH_DUPLICATE),
        (lambda root: (root / "agent.py").unlink(), Reason.AGENT_ENTRY_POINT_MISSING),
        (lambda root: os.truncate(root / "empty", 1 << 40), Reason.AGENT_TOO_MANY_FILES),
        (lambda root: [(root / f"f{at}").touch() for at in range(200)], Reason.AGENT_TOO_MANY_FILES),
        (lambda root: (root / "empty").write_bytes(os.urandom(1_100_000)), Reason.AGENT_ARCHIVE_TOO_LARGE),
        (lambda root: (root / "a\tb").touch(), Reason.AGENT_PATH_REFUSED),
    ],
)
def test_what_would_be_refused_is_not_written(make: object, reason: Reason, tree: Path, tmp_path: Path) -> None:
    assert callable(make)
    make(tree)
    target = tmp_path / "agent.zip"
    target.write_bytes(b"before")
    packed = evalguest("pack", tree, "-o", target)
    assert packed.returncode == 1
    assert f"reason code: {reason}" in packed.stderr
    assert target.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent", "agent.zip"]


def test_check_refuses_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "agent.zip").write_bytes(b"PK")
    checked = evalguest("check", tmp_path / "agent.zip")
    assert (checked.returncode, checked.stdout) == (1, "")
    assert "reason code: agent_archive_malformed" in checked.stderr


def test_what_cannot_be_read_or_written_is_a_wrong_command_line(tree: Path, tmp_path: Path) -> None:
    assert evalguest("check", tmp_path / "nothing.zip").returncode == 2
    assert evalguest("pack", tmp_path / "nothing", "-o", tmp_path / "a.zip").returncode == 2
    assert evalguest("pack", tree, "-o", tmp_path / "no" / "a.zip").returncode == 2


def test_every_limit_of_a_directory_is_that_of_its_archive(tree: Path) -> None:
    (tree / "agent.py").write_bytes(b"x = 1\n")
    with pytest.raises(Refused) as caught:
        pack_directory(tree)
    assert caught.value.reason is Reason.AGENT_ENTRY_POINT_MALFORMED
