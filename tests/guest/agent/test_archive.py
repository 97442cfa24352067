"""What a submitted archive may be: every limit, and the archives that two readers would read differently."""

from __future__ import annotations

import io
import stat
import struct
import warnings
import zipfile
import zlib
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.agent.archive import AgentPackage, load_archive
from guest.errors import Refused
from guest.reason import Reason

AGENT = b"class Agent:\n    pass\n"


def archive(
    files: dict[str, bytes] | None = None, *, method: int = zipfile.ZIP_DEFLATED, modes: dict[str, int] | None = None
) -> bytes:
    """A ZIP file of `agent.py` and more; a mode of the whole 16 bits can be set for each."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as target, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in ({"agent.py": AGENT} | (files or {})).items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            info.create_system = 3
            info.external_attr = (modes or {}).get(name, stat.S_IFREG | 0o644) << 16
            target.writestr(info, data)
    return made.getvalue()


def refusal(data: bytes) -> Refused:
    with pytest.raises(Refused) as caught:
        load_archive(data)
    return caught.value


def test_a_good_archive() -> None:
    data = archive({"lib/util.py": b"", "run.sh": b"#!/bin/sh\n", "data/é.txt": b"x"}, modes={"run.sh": 0o100755})
    package = load_archive(data)
    assert isinstance(package, AgentPackage)
    assert package.sha256 == sha256(data).hexdigest()
    assert {path: file.data for path, file in package.files.items()} == {
        "agent.py": AGENT,
        "lib/util.py": b"",
        "run.sh": b"#!/bin/sh\n",
        "data/é.txt": b"x",
    }
    assert [path for path, file in package.files.items() if file.executable] == ["run.sh"]
    leaves = [sha256(path.encode() + b"\0" + package.files[path].data).digest() for path in sorted(package.files)]
    assert package.tree_sha256 == sha256(b"".join(leaves)).hexdigest()


def test_archives_of_other_tools_are_read_alike() -> None:
    stored = load_archive(archive({"x": b"y" * 50}, method=zipfile.ZIP_STORED))
    deflated = load_archive(archive({"x": b"y" * 50}))
    streamed = load_archive(streaming({"agent.py": AGENT, "x": b"y" * 50}))
    with_folders = load_archive(archive({"lib/": b"", "lib/a.py": b""}, modes={"lib/": stat.S_IFDIR | 0o755}))
    assert stored.tree_sha256 == deflated.tree_sha256 == streamed.tree_sha256
    assert stored.sha256 != deflated.sha256
    assert set(with_folders.files) == {"agent.py", "lib/a.py"}


def streaming(files: dict[str, bytes]) -> bytes:
    """An archive whose sizes come after the data, as tools write it into a pipe."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.data += memoryview(data)  # type: ignore[arg-type]
            return memoryview(data).nbytes  # type: ignore[arg-type]

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in files.items():
            target.writestr(name, data)
    return bytes(pipe.data)


BIG = b"".join(sha256(bytes([at % 256, at // 256])).digest() for at in range(40_000))  # 1.2 MB that does not deflate


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (archive({"x": BIG}), Reason.AGENT_ARCHIVE_TOO_LARGE),
        (b"", Reason.AGENT_ARCHIVE_MALFORMED),
        (b"PK\x05\x06" + bytes(18), Reason.AGENT_ENTRY_POINT_MISSING),
        (b"#!/bin/sh\n" + archive(), Reason.AGENT_ARCHIVE_MALFORMED),
        (archive() + b"\n", Reason.AGENT_ARCHIVE_MALFORMED),
        (archive()[:-1], Reason.AGENT_ARCHIVE_MALFORMED),
        (archive() + archive({"b": b""}), Reason.AGENT_ARCHIVE_MALFORMED),
        (archive({f"f{at}": b"" for at in range(200)}), Reason.AGENT_TOO_MANY_FILES),
        (archive({f"d{at}/": b"" for at in range(400)}), Reason.AGENT_TOO_MANY_FILES),
        (archive({"/".join("abcdefghijklm"): b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"n" * 181: b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"é" * 91: b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"/etc/passwd": b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"../x": b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"a/../../x": b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"./x": b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"a//x": b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"a\\x": b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"a\nx": b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"a\x7fx": b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"a\u202ex": b""}), Reason.AGENT_PATH_REFUSED),
        (archive({"aXx": b""}).replace(b"aXx", b"a\0x"), Reason.AGENT_PATH_REFUSED),
        (archive({"aXx": b""}).replace(b"aXx", b"a\xffx"), Reason.AGENT_PATH_REFUSED),
        (archive({"lib/a": b"", "LIB/A": b""}), Reason.AGENT_PATH_DUPLICATE),
        (archive({"\u00e9": b"", "e\u0301": b""}), Reason.AGENT_PATH_DUPLICATE),
        (archive({"ﬁle": b"", "file": b""}), Reason.AGENT_PATH_DUPLICATE),
        (archive({"stra\u00dfe": b"", "STRASSE": b""}), Reason.AGENT_PATH_DUPLICATE),
        (archive({"lib": b"", "lib/a": b""}), Reason.AGENT_PATH_DUPLICATE),
        (archive({"LIB": b"", "lib/a": b""}), Reason.AGENT_PATH_DUPLICATE),
        (archive({"aXx": b"1", "aYx": b"2"}).replace(b"aYx", b"aXx"), Reason.AGENT_PATH_DUPLICATE),
        (archive({"l": b"/etc/passwd"}, modes={"l": stat.S_IFLNK | 0o777}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"p": b""}, modes={"p": stat.S_IFIFO | 0o644}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"p": b""}, modes={"p": stat.S_IFCHR | 0o644}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"p": b""}, modes={"p": stat.S_IFBLK | 0o644}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"p": b""}, modes={"p": stat.S_IFSOCK | 0o644}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"p": b""}, modes={"p": stat.S_IFDIR | 0o755}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"p/": b""}, modes={"p/": stat.S_IFREG | 0o755}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"p/": b"x"}, modes={"p/": stat.S_IFDIR | 0o755}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"p": b""}, modes={"p": stat.S_IFREG | 0o4755}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"p": b""}, modes={"p": stat.S_IFREG | 0o2755}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"p": b""}, modes={"p": stat.S_IFREG | 0o1644}), Reason.AGENT_ENTRY_REFUSED),
        (archive({"x": bytes(200_000)}), Reason.AGENT_ARCHIVE_EXPANDS),
        (archive({"inner.zip": b""}), Reason.AGENT_ARCHIVE_NESTED),
        (archive({"lib/Inner.WHL": b""}), Reason.AGENT_ARCHIVE_NESTED),
        (archive({"a.tar.gz": b""}), Reason.AGENT_ARCHIVE_NESTED),
        (archive({"a.txt": archive()}), Reason.AGENT_ARCHIVE_NESTED),
        (archive({"a.txt": b"\x1f\x8b\x08"}), Reason.AGENT_ARCHIVE_NESTED),
        (archive({"a.txt": b"7z\xbc\xaf\x27\x1c"}), Reason.AGENT_ARCHIVE_NESTED),
        (archive({"a.txt": b"x" * 257 + b"ustar\x0000"}), Reason.AGENT_ARCHIVE_NESTED),
        (archive({"evil.pth": b"import os"}), Reason.AGENT_FILE_REFUSED),
        (archive({"__pycache__/a.pyc": b""}), Reason.AGENT_FILE_REFUSED),
        (archive({"lib.so": b""}), Reason.AGENT_FILE_REFUSED),
        (archive({"tool": b"\x7fELF\x02\x01"}), Reason.AGENT_FILE_REFUSED),
        (archive({"agent.py": b"x = 1\n"}), Reason.AGENT_ENTRY_POINT_MALFORMED),
        (archive({"agent.py": b"def f():\n  class Agent: pass\n"}), Reason.AGENT_ENTRY_POINT_MALFORMED),
        (archive({"agent.py": b"class Agent(:\n"}), Reason.AGENT_ENTRY_POINT_MALFORMED),
        (archive({"agent.py": b"class Agent: pass # \xff\n"}), Reason.AGENT_ENTRY_POINT_MALFORMED),
        (archive({"agent.py": b"class Agent: pass\n\0"}), Reason.AGENT_ENTRY_POINT_MALFORMED),
        (archive({"agent.py": b"(" * 5000 + b")" * 5000}, method=0), Reason.AGENT_ENTRY_POINT_MALFORMED),
        (archive({"agent.py": b"~-" * 100_000 + b"1"}, method=0), Reason.AGENT_ENTRY_POINT_MALFORMED),
        (archive({"agent.py": b"#" * 1_048_577 + b"\n" + AGENT}), Reason.AGENT_ARCHIVE_EXPANDS),
        (archive({"agent.py": BIG.hex().encode()[:1_048_600]}), Reason.AGENT_ENTRY_POINT_MALFORMED),
    ],
)
def test_what_is_refused(data: bytes, reason: Reason) -> None:
    error = refusal(data)
    assert error.reason is reason, error.message
    assert error.message.isprintable()


def test_an_agent_in_a_folder_is_told_where_it_belongs() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as target:
        target.writestr("my-agent/agent.py", AGENT)
    error = refusal(made.getvalue())
    assert error.reason is Reason.AGENT_ENTRY_POINT_MISSING
    assert "not in a folder" in error.hint


# --- archives that two readers read differently

LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"


def patched(data: bytes, mark: bytes, offset: int, form: str, value: int) -> bytes:
    """Write one number into the first header with a mark."""
    at = data.index(mark) + offset
    size = struct.calcsize(form)
    return data[:at] + struct.pack(form, value) + data[at + size :]


PLAIN = archive()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (patched(PLAIN, LOCAL, 6, "<H", 1), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(patched(PLAIN, LOCAL, 6, "<H", 1), CENTRAL, 8, "<H", 1), Reason.AGENT_ARCHIVE_ENCRYPTED),
        (patched(PLAIN, LOCAL, 8, "<H", 0), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(patched(PLAIN, LOCAL, 8, "<H", 12), CENTRAL, 10, "<H", 12), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, LOCAL, 14, "<L", 7), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, CENTRAL, 16, "<L", 7), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(patched(PLAIN, LOCAL, 14, "<L", 7), CENTRAL, 16, "<L", 7), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, LOCAL, 22, "<L", 7), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(patched(PLAIN, LOCAL, 22, "<L", 7), CENTRAL, 24, "<L", 7), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(patched(PLAIN, LOCAL, 22, "<L", 99), CENTRAL, 24, "<L", 99), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, CENTRAL, 42, "<L", 1), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, CENTRAL, 34, "<H", 1), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, b"PK\x05\x06", 4, "<H", 1), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, b"PK\x05\x06", 8, "<H", 2), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, b"PK\x05\x06", 10, "<H", 2), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, b"PK\x05\x06", 12, "<L", 2), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, b"PK\x05\x06", 16, "<L", 2), Reason.AGENT_ARCHIVE_MALFORMED),
        (patched(PLAIN, b"PK\x05\x06", 20, "<H", 2), Reason.AGENT_ARCHIVE_MALFORMED),
        (PLAIN.replace(b"agent.py", b"other.py", 1), Reason.AGENT_ARCHIVE_MALFORMED),
    ],
)
def test_headers_that_disagree(data: bytes, reason: Reason) -> None:
    assert refusal(data).reason is reason


def with_extra(kind: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as target:
        info = zipfile.ZipInfo("agent.py")
        info.extra = struct.pack("<HH", kind, 4) + bytes(4)
        target.writestr(info, AGENT)
    return made.getvalue()


def test_extra_fields_may_carry_times_but_no_names_or_sizes() -> None:
    assert load_archive(with_extra(0x5455)).files["agent.py"].data == AGENT
    for kind in (0x0001, 0x7075):
        assert refusal(with_extra(kind)).reason is Reason.AGENT_ARCHIVE_MALFORMED


def test_bytes_that_belong_to_no_entry() -> None:
    at = PLAIN.index(CENTRAL)
    gap = PLAIN[:at] + b"hidden" + PLAIN[at:]
    shifted = patched(gap, b"PK\x05\x06", 16, "<L", at + 6)
    assert refusal(shifted).reason is Reason.AGENT_ARCHIVE_MALFORMED
    assert zipfile.ZipFile(io.BytesIO(shifted)).namelist() == ["agent.py"]  # the usual reader sees nothing of it


def test_bytes_after_the_end_of_a_deflated_stream() -> None:
    body = zlib.compress(AGENT, wbits=-15) + b"hidden"
    local = struct.pack("<4sHHHHHLLLHH", LOCAL, 20, 0, 8, 0, 0, zlib.crc32(AGENT), len(body), len(AGENT), 8, 0)
    central = struct.pack(
        "<4sHHHHHHLLLHHHHHLL",
        CENTRAL,
        20,
        20,
        0,
        8,
        0,
        0,
        zlib.crc32(AGENT),
        len(body),
        len(AGENT),
        *(8, 0, 0, 0, 0, 0, 0),
    )
    start = len(local) + 8 + len(body)
    end = struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, 1, 1, len(central) + 8, start, 0)
    error = refusal(local + b"agent.py" + body + central + b"agent.py" + end)
    assert error.reason is Reason.AGENT_ARCHIVE_MALFORMED


def test_a_header_that_claims_little_does_not_make_a_bomb() -> None:
    """100 MB of zeros under a header that says 10 bytes: inflating stops at what the ratio allows."""
    body = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = body.compress(bytes(100_000_000)) + body.flush()
    crc = zlib.crc32(bytes(10))
    local = struct.pack("<4sHHHHHLLLHH", LOCAL, 20, 0, 8, 0, 0, crc, len(packed), 10, 8, 0)
    central = struct.pack(
        "<4sHHHHHHLLLHHHHHLL", CENTRAL, 20, 20, 0, 8, 0, 0, crc, len(packed), 10, *(8, 0, 0, 0, 0, 0, 0)
    )
    start = len(local) + 8 + len(packed)
    end = struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, 1, 1, len(central) + 8, start, 0)
    error = refusal(local + b"agent.py" + packed + central + b"agent.py" + end)
    assert error.reason is Reason.AGENT_ARCHIVE_EXPANDS


@given(st.integers(0, len(PLAIN) * 8 - 1))
def test_a_flipped_bit_is_refused_or_changes_nothing_that_counts(bit: int) -> None:
    data = bytearray(PLAIN)
    data[bit // 8] ^= 1 << bit % 8
    try:
        package = load_archive(bytes(data))
    except Refused:
        return
    assert package.files["agent.py"].data == AGENT or set(package.files) != {"agent.py"}
    assert package.sha256 != sha256(PLAIN).hexdigest()


@given(st.binary(max_size=400) | st.binary(max_size=60).map(lambda tail: PLAIN[:-30] + tail))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    try:
        load_archive(data)
    except Refused as error:
        assert error.message.isprintable()  # noqa: PT017 - a package is as good
