from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from image.base.content import is_left_out, own_files, wheel_files
from image.base.lock import read_lock


@pytest.mark.parametrize(
    "path",
    [
        "dev/null",
        "run/lock",
        "etc/machine-id",
        "etc/passwd-",
        "etc/apt/trusted.gpg.d/somebody.asc",
        "var/cache/ldconfig/aux-cache",
        "var/cache/debconf/templates.dat-old",
        "var/lib/apt/lists/lock",
        "var/lib/dpkg/status-old",
        "usr/lib/gcc/x86_64-linux-gnu/14/libasan.a",
        "usr/bin/x86_64-linux-gnu-lto-dump-14",
    ],
)
def test_left_out(path: str) -> None:
    assert is_left_out(path)


@pytest.mark.parametrize(
    "path",
    [
        "dev",
        "tmp",
        "var/log",
        "etc/passwd",
        "etc/apt/apt.conf.d/70debconf",
        "var/lib/dpkg/status",
        "var/cache/debconf/templates.dat",
        "usr/lib/gcc/x86_64-linux-gnu/14/libgcc.a",
        "usr/lib/x86_64-linux-gnu/libasan.so.8.0.0",
        "usr/share/keyrings/debian-archive-keyring.gpg",
        "home/dev/null",
    ],
)
def test_kept(path: str) -> None:
    assert not is_left_out(path)


def test_apt_looks_at_debian_and_nowhere_else() -> None:
    files = own_files(read_lock())
    assert files["etc/apt/sources.list"].data == (
        b"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main\n"
    )
    assert {path for path, file in files.items() if file.mode != 0o644} == {"usr/sbin/policy-rc.d"}


def zipped(directory: Path, *names: str) -> Path:
    path = directory / "wheel.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, b"" if name.endswith("/") else b"x" * 100)
    return path


def test_a_pure_wheel_is_laid_where_python_looks(tmp_path: Path) -> None:
    files = wheel_files(zipped(tmp_path, "a/", "a/b.py", "a-1.dist-info/METADATA"))
    assert sorted(files) == [
        "usr/lib/python3/dist-packages/a-1.dist-info/METADATA",
        "usr/lib/python3/dist-packages/a/b.py",
    ]


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a//b", "a/./b", "a-1.data/scripts/run"])
def test_a_wheel_that_reaches_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused) as caught:
        wheel_files(zipped(tmp_path, "a.py", name))
    assert caught.value.reason is Reason.LOCK_MISMATCH
    assert repr(name) in caught.value.message


@given(position=st.integers(0, 400), value=st.binary(max_size=40))
def test_no_damage_crashes_the_reader(tmp_path_factory: pytest.TempPathFactory, position: int, value: bytes) -> None:
    directory = tmp_path_factory.getbasetemp()
    buffer = io.BytesIO(zipped(directory, "a.py", "b/c.py").read_bytes())
    buffer.seek(position)
    buffer.write(value)
    path = directory / "damaged.whl"
    path.write_bytes(buffer.getvalue())
    try:
        files = wheel_files(path)
    except Refused:
        return
    assert all(name.startswith("usr/lib/python3/dist-packages/") for name in files)
