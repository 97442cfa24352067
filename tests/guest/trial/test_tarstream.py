from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from guest.trial.tarstream import Entry, TarFile, TarLimits, pack, unpack
from tests.guest.trial.tar_bytes import END, LIMITS, LONG, ROOT, block, body, by_tarfile, content, file, pax

# --- what the engine writes is read


def test_an_archive_laid_out_by_hand_is_read() -> None:
    data = (
        ROOT
        + file(b"d/a", b"hello", mode=b"0104755\0", mtime=b"15303445472\0")  # the engine writes type bits too
        + pax(b"mtime=-315619200", b"uid=3000000", b"SCHILY.xattr.security.capability=\x01\0\0=\n\x02")
        + file(b"d/past")
        + pax(b"path=d/" + LONG)
        + file(b"d/" + LONG[:98], b"x")
        + pax(b"path=d/\xc3\xa9", b"mtime=12.75")
        + file(b"d/e")
        + block(b"d/sl", b"2", link=b"/etc/passwd")
        + pax(b"linkpath=\xff" + LONG)
        + block(b"d/sl2", b"2", link=LONG[:100])
        + block(b"d/hl", b"1", link=b"d/a")
        + block(b"d/null", b"3")
        + block(b"d/disk", b"4")
        + block(b"d/pipe", b"6")
        + block(b"d/sub/", b"5")
        + file(b"in", b"q", prefix=b"d/sub")
        + END
    )
    entries = unpack([data], LIMITS)
    assert [(path, entry.kind) for path, entry in entries.items()] == [
        ("", "dir"),
        ("a", "file"),
        ("past", "file"),
        ("n" * 101, "file"),
        ("é", "file"),
        ("sl", "symlink"),
        ("sl2", "symlink"),
        ("hl", "hardlink"),
        ("null", "char_device"),
        ("disk", "block_device"),
        ("pipe", "fifo"),
        ("sub", "dir"),
        ("sub/in", "file"),
    ]
    digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of "hello", as published everywhere
    assert entries["a"] == Entry("file", 0o4755, 5, 1_796_098_874, b"hello", digest)
    assert (entries["past"].mtime, entries["é"].mtime) == (-315_619_200, 12)
    assert (entries["sl"].link_target, entries["hl"].link_target) == ("/etc/passwd", "d/a")
    assert entries["sl2"].link_target == "\\xff" + "n" * 101
    assert entries["sub/in"].data == b"q"
    assert (entries[""].mode, entries[""].sha256, entries[""].link_target) == (0o755, "", None)


def test_a_single_file_or_link_is_its_own_root() -> None:
    assert unpack([file(b"f", b"1") + END], LIMITS)[""].data == b"1"
    assert unpack([block(b"l", b"2", link=b"/") + END], LIMITS)[""].link_target == "/"
    assert set(unpack([block(b"./", b"5") + file(b"./f") + END], LIMITS)) == {"", "f"}


def test_the_head_of_a_larger_file_is_kept_with_size_and_hash_of_all() -> None:
    data = bytes(range(256)) * 20
    stream = file(b"f", data) + END
    limits = TarLimits(total_bytes=len(stream), entries=1, keep_bytes=1000)
    whole = hashlib.sha256(data).hexdigest()
    assert unpack([stream], limits)[""] == Entry("file", 0o644, 5120, 0, data[:1000], whole, truncated=True)
    none = unpack([stream], TarLimits(len(stream), 1, 0))[""]
    assert (none.data, none.sha256, none.truncated) == (b"", whole, True)
    assert not unpack([stream], TarLimits(len(stream), 1, 5120))[""].truncated


def test_zeros_may_follow_the_end() -> None:
    assert set(unpack([file(b"f") + END, bytes(9000), b"", b"\0"], LIMITS)) == {""}


@pytest.mark.parametrize("step", [1, 7, 511, 512, 513, 4096])
def test_chunks_may_be_cut_anywhere(step: int) -> None:
    data = ROOT + file(b"d/a", b"x" * 700) + pax(b"path=d/" + LONG) + file(b"d/n", b"y" * 512) + END
    chunks = [data[at : at + step] for at in range(0, len(data), step)]
    entries = unpack([b"", *chunks], LIMITS)
    assert (entries["a"].data, entries["n" * 101].data) == (b"x" * 700, b"y" * 512)


# --- uploads

part = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=60).filter(
    lambda text: text not in (".", "..")
)
path_strategy = st.lists(part, min_size=1, max_size=5).map("/".join)
file_strategy = st.builds(TarFile, st.binary(max_size=1500), st.integers(0, 0o7777))


@settings(max_examples=150)
@given(
    files=st.dictionaries(path_strategy, file_strategy, max_size=6),
    mode=st.integers(0, 0o7777),
    step=st.integers(1, 999),
)
def test_what_is_packed_is_unpacked(files: dict[str, TarFile], mode: int, step: int) -> None:
    folders = {path[:at] for path in files for at, letter in enumerate(path) if letter == "/"}
    assume(not folders & files.keys())
    directories = {"r": 0o755, **{f"r/{path}": mode for path in folders}}
    rooted = {f"r/{path}": one for path, one in files.items()}
    data = pack(rooted, directories)
    assert data == pack(dict(reversed(rooted.items())), dict(reversed(directories.items())))
    entries = unpack([data[at : at + step] for at in range(0, len(data), step)], LIMITS)
    assert entries.keys() == {"", *files, *folders}
    for path, one in files.items():
        assert entries[path] == Entry(
            "file", one.mode, len(one.data), 1_577_836_800, one.data, hashlib.sha256(one.data).hexdigest()
        )
    assert all(entries[path] == Entry("dir", mode, 0, 1_577_836_800) for path in folders)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        seen = {member.name: member for member in archive}
        assert seen.keys() == {*rooted, *directories}
        assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in seen.values()} == {(0, 0, "", "", 1_577_836_800)}
        for path, one in rooted.items():
            assert (seen[path].isreg(), seen[path].mode, content(archive, seen[path])) == (True, one.mode, one.data)
        assert all(seen[path].isdir() and seen[path].mode == bits for path, bits in directories.items())


def test_the_bytes_of_an_upload_are_fixed() -> None:
    """Worked out with the layout above: equal uploads stay equal from release to release."""
    made = pack({"tests/test.sh": TarFile(b"exit 0\n", 0o755)}, {"tests": 0o755})
    stamp = b"%011o\0" % 1_577_836_800
    directory = block(b"tests/", b"5", mode=b"0000755\0", mtime=stamp)
    script = block(b"tests/test.sh", mode=b"0000755\0", mtime=stamp, size=b"00000000007\0")
    assert made == directory + script + body(b"exit 0\n") + END


def test_parents_come_first_and_are_not_made_up() -> None:
    data = pack({"b/c": TarFile(b""), "a": TarFile(b""), "b-": TarFile(b"")}, {"b": 0o700})
    assert [name for name, *_ in by_tarfile(data)] == ["a", "b", "b-", "b/c"]
    assert [name for name, *_ in by_tarfile(pack({"x/y": TarFile(b"")}))] == ["x/y"]
    assert pack({}) == END


@pytest.mark.parametrize(
    "path",
    ["", "/", "/a", "..", "a/../b", "./a", "a/.", "a//b", "a/", "a\0b", "\udcff", "a/" * 64 + "a", "a" * 4096],
)
def test_bad_paths_are_not_uploaded(path: str) -> None:
    for files, directories in (({path: TarFile(b"")}, {}), ({}, {path: 0o755})):
        with pytest.raises(Refused) as caught:
            pack(files, directories)
        assert caught.value.reason is Reason.TAR_REFUSED
        assert caught.value.message.startswith("cannot upload '")


@pytest.mark.parametrize(
    ("files", "directories"),
    [
        ({"a": TarFile(b"")}, {"a": 0o755}),
        ({"a": TarFile(b""), "a/b": TarFile(b"")}, {}),
        ({"a": TarFile(b""), "a/b/c": TarFile(b"")}, {}),
        ({"a": TarFile(b"")}, {"a/b": 0o755}),
        ({"a": TarFile(b"", 0o100644)}, {}),
        ({"a": TarFile(b"", -1)}, {}),
        ({}, {"a": 0o40755}),
    ],
)
def test_contradictions_are_not_uploaded(files: dict[str, TarFile], directories: dict[str, int]) -> None:
    with pytest.raises(Refused) as caught:
        pack(files, directories)
    assert caught.value.reason is Reason.TAR_REFUSED


# --- other writers


@pytest.mark.parametrize("form", ["posix", "ustar"])
def test_gnu_tar_archives_are_read(form: str, tmp_path: Path) -> None:
    root = tmp_path / "d"
    nested = root / ("p" * 70) / ("q" * 70)
    nested.mkdir(parents=True)
    (nested / "f").write_bytes(b"nested")
    (root / "empty").write_bytes(b"")
    (root / "big").write_bytes(bytes(range(256)) * 300)
    (root / "link").symlink_to("../outside")
    os.mkfifo(root / "pipe")
    os.link(root / "big", root / "same")
    if form == "posix":
        (root / "é").write_bytes(b"1")
    done = subprocess.run(
        ["tar", f"--format={form}", "--sort=name", "-cf", "-", "-C", tmp_path, "d"], check=True, stdout=subprocess.PIPE
    )
    entries = unpack([done.stdout], LIMITS)
    on_disk = {path.relative_to(root).as_posix() for path in root.rglob("*")}
    assert entries.keys() == {"", *on_disk}
    assert entries["p" * 70 + "/" + "q" * 70 + "/f"].data == b"nested"
    assert entries["big"].sha256 == hashlib.sha256(bytes(range(256)) * 300).hexdigest()
    assert entries["big"].mtime == int((root / "big").stat().st_mtime)
    assert {entry.kind for entry in entries.values()} == {"dir", "file", "symlink", "hardlink", "fifo"}
    assert (entries["link"].link_target, entries["same"].link_target) == ("../outside", "d/big")


def test_gnu_tar_reads_an_upload(tmp_path: Path) -> None:
    files = {"a/" + "n" * 150: TarFile(b"x" * 513, 0o600), "a/é": TarFile(b"", 0o755)}
    done = subprocess.run(
        ["tar", "-xf", "-", "-C", tmp_path], input=pack(files, {"a": 0o700}), check=False, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    for path, one in files.items():
        assert (tmp_path / path).read_bytes() == one.data
        assert (tmp_path / path).stat().st_mode & 0o7777 == one.mode


@given(
    names=st.lists(part, min_size=1, max_size=5, unique=True),
    data=st.binary(max_size=1200),
    form=st.sampled_from([tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT]),
    stamp=st.integers(-(10**10), 10**10).map(lambda quarters: quarters / 4),
)
def test_tarfile_archives_are_read(names: list[str], data: bytes, form: int, stamp: float) -> None:
    made = io.BytesIO()
    names = [name for name in names if form == tarfile.PAX_FORMAT or len(name.encode()) < 97]
    with tarfile.open(fileobj=made, mode="w", format=form, encoding="utf-8") as archive:
        top = tarfile.TarInfo("d")
        top.type = tarfile.DIRTYPE
        archive.addfile(top)
        for name in names:
            member = tarfile.TarInfo(f"d/{name}")
            member.size = len(data)
            member.mtime = stamp if form == tarfile.PAX_FORMAT else int(abs(stamp))
            archive.addfile(member, io.BytesIO(data))
    entries = unpack([made.getvalue()], LIMITS)
    assert {path: entry.data for path, entry in entries.items() if path} == dict.fromkeys(names, data)
