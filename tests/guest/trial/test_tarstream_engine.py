from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest

from guest.errors import Refused
from guest.trial.engine import Engine
from guest.trial.tarstream import Entry, TarFile, TarLimits, pack, unpack
from tests.guest.trial.tar_bytes import LIMITS


def run(engine: Engine, container: str, script: str) -> str:
    started: str = engine.api.exec_create(container, ["bash", "-euc", script])["Id"]
    said: bytes = engine.api.exec_start(started)
    assert engine.api.exec_inspect(started)["ExitCode"] == 0, said
    return said.decode()


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def read(engine: Engine, container: str, path: str, limits: TarLimits = LIMITS) -> dict[str, Entry]:
    chunks, _ = engine.api.get_archive(container, path)
    return unpack(chunks, limits)


@pytest.mark.engine
def test_an_upload_arrives_in_a_container_as_packed(engine: Engine, task_container: str) -> None:
    files = {
        "up/test.sh": TarFile(b"#!/bin/sh\nexit 0\n", 0o755),
        "up/data/" + "n" * 150: TarFile(bytes(700), 0o4755),
        "up/data/é ☃": TarFile(b"x", 0o600),
        "made/on/the/way": TarFile(b""),
        "tmp/f": TarFile(b""),
    }
    run(engine, task_container, "mkdir -m 1777 -p /tmp; chmod 1777 /tmp")
    assert engine.api.put_archive(task_container, "/", pack(files, {"up": 0o751, "up/data": 0o700}))
    entries = read(engine, task_container, "/up")
    assert {path: (entry.kind, entry.mode, entry.data) for path, entry in entries.items() if entry.kind == "file"} == {
        path.removeprefix("up/"): ("file", one.mode, one.data) for path, one in files.items() if path.startswith("up/")
    }
    assert {entry.mtime for entry in entries.values() if entry.kind == "file"} == {1_577_836_800}
    assert (entries[""].mode, entries["data"].mode) == (0o751, 0o700)
    listed = run(engine, task_container, "stat -c '%n %a %u:%g' /up/test.sh /made /made/on/the/way /tmp")
    assert listed == "/up/test.sh 755 0:0\n/made 755 0:0\n/made/on/the/way 644 0:0\n/tmp 1777 0:0\n"


ODD = r"""
mkdir -p /d/sub; cd /d
echo hi > a; chmod 4755 a; ln a hard; ln -s /etc/passwd link; mkfifo pipe
ln -s "$(printf 'x%.0s' $(seq 300))" longlink
chown 3000000:3000000 sub; touch -d 2300-01-01 future; touch -d 1960-01-01 past
echo z > 'é ☃'; echo q > "sub/$(printf 'n%.0s' $(seq 200))"; echo 1 > $'new\nline'
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('/d/socket')"
"""


@pytest.mark.engine
def test_what_a_container_holds_is_told(engine: Engine, task_container: str) -> None:
    run(engine, task_container, ODD)
    entries = read(engine, task_container, "/d")
    assert {path: entry.kind for path, entry in entries.items()} == {
        "": "dir",
        "a": "file",
        "hard": "hardlink",
        "link": "symlink",
        "longlink": "symlink",
        "pipe": "fifo",
        "sub": "dir",
        "sub/" + "n" * 200: "file",
        "é ☃": "file",
        "new\nline": "file",
        "future": "file",
        "past": "file",  # the engine leaves sockets out
    }
    assert entries["a"].data == b"hi\n"
    assert entries["a"].mode == 0o4755
    assert (entries["hard"].link_target, entries["link"].link_target) == ("d/a", "/etc/passwd")
    assert entries["longlink"].link_target == "x" * 300
    assert (entries["future"].mtime, entries["past"].mtime) == (10_413_792_000, -315_619_200)
    assert set(read(engine, task_container, "/d/link")) == {""}
    assert set(read(engine, task_container, "/d/.")) == set(entries)


@pytest.mark.engine
def test_a_large_file_is_hashed_whole(engine: Engine, task_container: str) -> None:
    wanted = run(engine, task_container, "seq 1000000 > /big; sha256sum < /big").split()[0]
    entry = read(engine, task_container, "/big", TarLimits(16 << 20, 1, 10))[""]
    assert (entry.size, entry.data, entry.sha256, entry.truncated) == (6_888_896, b"1\n2\n3\n4\n5\n", wanted, True)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("truncate -s 1T /d/sparse", "1099511627776 bytes more"),
        ("seq -f /d/%g 6000 | xargs touch", "more than 4096 entries"),
        ("cd /d; for i in $(seq 80); do mkdir x; cd x; done", "65 parts"),
        ("touch $'/d/\\xff'", "not UTF-8"),
    ],
)
def test_a_hostile_container_is_refused_at_once(engine: Engine, task_container: str, script: str, said: str) -> None:
    run(engine, task_container, f"mkdir /d; {script}")
    gc.collect()
    sockets = open_files()
    began = time.perf_counter()
    with pytest.raises(Refused) as caught:
        read(engine, task_container, "/d", TarLimits(64 << 20, 4096, 1 << 20))
    assert time.perf_counter() - began < 1.0
    assert said in caught.value.message
    del caught
    gc.collect()
    assert open_files() <= sockets  # the unread answer does not hold its connection
