from __future__ import annotations

import contextlib
import lzma
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from image.base.deb import control_paragraph, packages_index
from tests.image.base.made import CONTROL, ar_of, made_deb, made_lock, tar_of


def written(directory: Path, data: bytes) -> Path:
    path = directory / "x.deb"
    path.write_bytes(data)
    return path


def test_the_control_file_is_found_whatever_compressed_it(tmp_path: Path) -> None:
    plain = tar_of("./control", CONTROL.encode(), "w")
    for name, data in (("control.tar", plain), ("control.tar.xz", lzma.compress(plain))):
        deb = ar_of({"debian-binary": b"2.0\n", "odd": b"x", name: data})
        assert control_paragraph(written(tmp_path, deb)) == CONTROL.rstrip("\n")


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_it_reads_what_dpkg_deb_builds_and_dpkg_deb_reads_what_it_made(tmp_path: Path) -> None:
    tree = tmp_path / "tree" / "DEBIAN"
    tree.mkdir(parents=True)
    (tree / "control").write_text(CONTROL)
    subprocess.run(["dpkg-deb", "--build", str(tree.parent), str(tmp_path / "y.deb")], check=True, capture_output=True)
    assert control_paragraph(tmp_path / "y.deb") == CONTROL.rstrip("\n")
    shown = subprocess.run(
        ["dpkg-deb", "-f", str(written(tmp_path, made_deb()))], check=True, capture_output=True, text=True
    )
    assert shown.stdout == CONTROL


def test_the_index_carries_the_locks_hash_not_the_files(tmp_path: Path) -> None:
    lock = made_lock(made_deb())
    sha256 = lock.packages[0].sha256
    altered = written(tmp_path, made_deb(CONTROL + "Description: altered\n"))
    index = packages_index(lock, {sha256: altered}).decode()
    assert f"\nFilename: ./{sha256}.deb\nSize: {lock.packages[0].size}\nSHA256: {sha256}\n" in index
    assert index.startswith("Package: hello\n")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"!<arch>\n",
        made_deb()[:100],
        made_deb()[:200],
        ar_of({"control.tar.gz": tar_of("./other", b"")}),
        ar_of({"control.tar.zst": b"\x28\xb5\x2f\xfd"}),
        ar_of({"control.tar.gz": b"no gzip"}),
        ar_of({"control.tar.gz": tar_of("./control", b"\xff\xfe")}),
        ar_of({"debian-binary": b"2.0\n"}),
        made_deb().replace(b"`\n", b"``", 1),
    ],
)
def test_what_is_no_package_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(Refused) as caught:
        control_paragraph(written(tmp_path, data))
    assert caught.value.reason is Reason.LOCK_MISMATCH


@given(position=st.integers(0, len(made_deb()) - 1), value=st.binary(max_size=80), cut=st.booleans())
def test_no_damage_crashes_the_reader(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: bytes, cut: bool
) -> None:
    deb = made_deb()
    damaged = deb[:position] + value + (b"" if cut else deb[position + len(value) :])
    path = written(tmp_path_factory.getbasetemp(), damaged)
    with contextlib.suppress(Refused):
        control_paragraph(path)
