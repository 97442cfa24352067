from __future__ import annotations

import hashlib
import io
import random
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from image.base.canonical import write_canonical
from image.base.content import ImageFile

EPOCH = 1_700_000_000
Entry = tuple[str, bytes, int, bytes | str]
LONG = "usr/" + "x" * 120 + "/" + "y" * 140

TREE: list[Entry] = [
    ("usr", tarfile.DIRTYPE, 0o755, b""),
    ("usr/bin", tarfile.DIRTYPE, 0o755, b""),
    ("usr/bin/perl", tarfile.REGTYPE, 0o755, b"#!"),
    ("usr/bin/perl5", tarfile.LNKTYPE, 0o755, "usr/bin/perl"),
    ("usr/bin/su", tarfile.REGTYPE, 0o4755, b"su"),
    ("bin", tarfile.SYMTYPE, 0o777, "usr/bin"),
    ("usr/share", tarfile.DIRTYPE, 0o755, b""),
    ("usr/share/Főtanúsítvány.crt", tarfile.REGTYPE, 0o644, b"cert"),
    (LONG.rpartition("/")[0], tarfile.DIRTYPE, 0o700, b""),
    (LONG, tarfile.REGTYPE, 0o600, b"long"),
    ("tmp", tarfile.DIRTYPE, 0o1777, b""),
]


def raw_tar(
    directory: Path, entries: list[Entry], *, form: int = tarfile.PAX_FORMAT, mtime: float = 1.0, prefix: str = "./"
) -> Path:
    path = directory / "raw.tar"
    with tarfile.open(path, "w", format=form) as tar:
        for name, kind, mode, content in [(".", tarfile.DIRTYPE, 0o755, b""), *entries]:
            entry = tarfile.TarInfo(prefix + name if name != "." else "./")
            entry.type, entry.mode, entry.mtime, entry.uid, entry.gid = kind, mode, mtime, 0, 42
            entry.uname = f"name{mtime}"
            if isinstance(content, str):
                entry.linkname = (prefix if kind == tarfile.LNKTYPE else "") + content
            else:
                entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return path


def written(raw: Path, own: dict[str, ImageFile] | None = None) -> bytes:
    out = raw.with_name("out.tar")
    digest = write_canonical(raw, out, own=own or {}, epoch=EPOCH)
    data = out.read_bytes()
    assert hashlib.sha256(data).hexdigest() == digest
    return data


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar}


def test_names_modes_owners_and_contents_are_kept(tmp_path: Path) -> None:
    data = written(raw_tar(tmp_path, TREE))
    seen = members(data)
    assert list(seen) == sorted((name for name, *_ in TREE), key=lambda name: name.encode().split(b"/"))
    assert {name: (member.type, member.mode) for name, member in seen.items()} == {n: (k, m) for n, k, m, _ in TREE}
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in seen.values()} == {(0, 42, "", EPOCH)}
    assert seen["usr/bin/perl5"].linkname == "usr/bin/perl"
    assert seen["bin"].linkname == "usr/bin"
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        stream = tar.extractfile(LONG)
        assert stream is not None
        assert stream.read() == b"long"


def test_the_writer_of_the_raw_tar_does_not_show(tmp_path: Path) -> None:
    first = written(raw_tar(tmp_path, TREE))
    shuffled = list(TREE)
    random.Random(7).shuffle(shuffled)  # noqa: S311 - no secret
    # a hard link may only follow its target, so the target comes first in any real tar
    shuffled.sort(key=lambda entry: entry[1] == tarfile.LNKTYPE)
    assert written(raw_tar(tmp_path, shuffled, form=tarfile.GNU_FORMAT, mtime=2.5, prefix="")) == first


def test_what_belongs_to_the_machine_or_the_build_is_left_out(tmp_path: Path) -> None:
    dropped: list[Entry] = [
        ("dev/null", tarfile.CHRTYPE, 0o666, b""),
        ("etc/machine-id", tarfile.REGTYPE, 0o444, b"0123"),
        ("var/log/dpkg.log", tarfile.REGTYPE, 0o644, b"today"),
        ("etc/apt/sources.list", tarfile.REGTYPE, 0o644, b"deb copy:///here ./"),
    ]
    assert written(raw_tar(tmp_path, [*TREE, *dropped])) == written(raw_tar(tmp_path, TREE))


def test_own_files_lie_over_the_tree_with_their_parents(tmp_path: Path) -> None:
    own = {"usr/bin/su": ImageFile(b"other", 0o755), "opt/x/y": ImageFile(b"new")}
    data = written(raw_tar(tmp_path, TREE), own)
    seen = members(data)
    assert (seen["usr/bin/su"].mode, seen["usr/bin/su"].size, seen["usr/bin/su"].gid) == (0o755, 5, 0)
    assert [seen[name].type for name in ("opt", "opt/x", "opt/x/y")] == [tarfile.DIRTYPE, tarfile.DIRTYPE, b"0"]
    assert list(seen).count("usr/bin/su") == 1


@pytest.mark.parametrize(
    "entry",
    [
        ("usr/pipe", tarfile.FIFOTYPE, 0o644, b""),
        ("usr/disk", tarfile.BLKTYPE, 0o644, b""),
        ("usr/bin/aa", tarfile.LNKTYPE, 0o644, "usr/bin/perl"),
        ("usr/bin/zz", tarfile.LNKTYPE, 0o644, "etc/machine-id"),
    ],
)
def test_what_an_image_layer_should_not_hold_is_refused(tmp_path: Path, entry: Entry) -> None:
    raw = raw_tar(tmp_path, [*TREE, entry])
    with pytest.raises(Refused) as caught:
        write_canonical(raw, tmp_path / "out.tar", own={}, epoch=EPOCH)
    assert caught.value.reason is Reason.LOCK_MISMATCH
    assert entry[0] in caught.value.message


@given(
    st.dictionaries(st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1), st.binary(max_size=9)),
    st.randoms(use_true_random=False),
)
def test_the_order_of_any_files_does_not_show(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], order: random.Random
) -> None:
    entries: list[Entry] = [
        (f"srv/{name}", tarfile.REGTYPE, 0o644, data) for name, data in files.items() if name not in (".", "..")
    ]
    first = written(raw_tar(tmp_path_factory.getbasetemp(), entries))
    order.shuffle(entries)
    assert written(raw_tar(tmp_path_factory.getbasetemp(), entries)) == first
    assert len(members(first)) == len(entries)
