from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from guest.trial.tarstream import TarLimits, unpack
from tests.guest.trial.tar_bytes import END, LIMITS, LONG, ROOT, block, body, by_tarfile, file, octal, pax, raw_pax

D = b"d/"
HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "ends 512 bytes short"),
    "no entry": (END, "holds no entry"),
    "half a header": (ROOT[:300], "ends 212 bytes short"),
    "no end": (ROOT, "ends 512 bytes short"),
    "one zero block": (ROOT + bytes(512), "ends 512 bytes short"),
    "an entry after one zero block": (ROOT + bytes(512) + file(b"d/a") + END, "something follows the end"),
    "an entry after the end": (ROOT + END + file(b"d/a") + END, "something follows the end"),
    "a byte after the end": (ROOT + END + b"\x01", "something follows the end"),
    "a byte after zeros after the end": (ROOT + END + bytes(5000) + b"\x01", "something follows the end"),
    "content cut": (ROOT + file(b"d/a", b"x" * 600)[:1000], "ends 112 bytes short"),
    "padding cut": (ROOT + file(b"d/a", b"x" * 600)[:1200], "ends 336 bytes short"),
    "padding not zero": (ROOT + file(b"d/a", b"x")[:-1] + b"y" + END, "padding"),
    # names
    "dotdot": (ROOT + file(b"d/../x") + END, "relative"),
    "dotdot at the end": (ROOT + block(b"d/..", b"5") + END, "relative"),
    "dotdot first": (ROOT + file(b"../x") + END, "not inside the first entry, 'd'"),
    "dotdot as root": (block(b"../", b"5") + END, "base name"),
    "dot": (ROOT + file(b"d/./x") + END, "relative"),
    "empty part": (ROOT + file(b"d//x") + END, "relative"),
    "two slashes": (ROOT + block(b"d/x//", b"5") + END, "relative"),
    "only a slash more": (ROOT + block(b"d//", b"5") + END, "relative"),
    "absolute": (ROOT + file(b"/etc/passwd") + END, "not inside"),
    "absolute by prefix": (ROOT + file(b"x", prefix=b"/d") + END, "not inside"),
    "absolute root": (block(b"/", b"5") + END, "base name"),
    "deep root": (block(b"a/d/", b"5") + END, "base name"),
    "no name": (file(b"") + END, "base name"),
    "no name later": (ROOT + file(b"") + END, "not inside"),
    "beside the root": (ROOT + file(b"e") + END, "not inside"),
    "a sibling that starts like the root": (ROOT + file(b"dd/x") + END, "not inside"),
    "the root again": (ROOT + ROOT + END, "not inside"),
    "inside a root that is a file": (file(b"d") + file(b"d/x") + END, "parent is not a directory"),
    "twice": (ROOT + file(b"d/a", b"0") + file(b"d/a", b"1") + END, "two entries"),
    "twice, once as a directory": (ROOT + file(b"d/a") + block(b"d/a/", b"5") + END, "two entries"),
    "twice, once by prefix": (ROOT + file(b"d/a") + file(b"a", prefix=b"d") + END, "two entries"),
    "under a file": (ROOT + file(b"d/a") + file(b"d/a/b") + END, "parent is not a directory"),
    "under a link": (ROOT + block(b"d/l", b"2", link=b"/") + file(b"d/l/x") + END, "parent is not a directory"),
    "no parent": (ROOT + file(b"d/a/b") + END, "parent is not a directory"),
    "not UTF-8": (ROOT + file(b"d/\xff") + END, "not UTF-8"),
    "a surrogate": (ROOT + pax(b"path=d/\xed\xa0\x80") + file(b"d/x") + END, "not UTF-8"),
    "text after NUL": (ROOT + file(b"d/a\0b") + END, "text after a NUL"),
    "link text after NUL": (ROOT + block(b"d/a", b"2", link=b"x\0y") + END, "text after a NUL"),
    "a file with a slash": (ROOT + file(b"d/a/") + END, "ends with a slash"),
    "a link with a slash": (ROOT + block(b"d/a/", b"2", link=b"/") + END, "ends with a slash"),
    # numbers
    "base-256 size": (ROOT + block(b"d/a", size=b"\x80" + bytes(10) + b"\x01") + END, "octal"),
    "base-256 terabytes": (ROOT + block(b"d/a", size=b"\x80" + bytes(5) + b"\x01" + bytes(5)) + END, "octal"),
    "negative base-256 size": (ROOT + block(b"d/a", size=b"\xff" * 12) + END, "octal"),
    "minus": (ROOT + block(b"d/a", size=b"-0000000001\0") + END, "octal"),
    "plus": (ROOT + block(b"d/a", size=b"+0000000001\0") + END, "octal"),
    "hexadecimal": (ROOT + block(b"d/a", size=b"0x000000001\0") + END, "octal"),
    "underscore": (ROOT + block(b"d/a", size=b"0000_000001\0") + END, "octal"),
    "digit 8": (ROOT + block(b"d/a", size=b"00000000008\0") + END, "octal"),
    "leading spaces": (ROOT + block(b"d/a", size=b"          1\0") + END, "octal"),
    "no size": (ROOT + block(b"d/a", size=bytes(12)) + END, "octal"),
    "size without an end": (ROOT + block(b"d/a", size=b"000000000001") + END, "octal"),
    "no mode": (ROOT + block(b"d/a", mode=bytes(8)) + END, "octal"),
    "base-256 mtime": (ROOT + block(b"d/a", mtime=b"\xff" * 12) + END, "octal"),
    "8 GiB": (ROOT + block(b"d/a", size=b"77777777777\0") + END, "8589934591 bytes more"),
    "checksum": (ROOT + block(b"d/a", off=1) + END, "checksum"),
    "no checksum": (ROOT + block(b"d/a")[:148] + bytes(8) + block(b"d/a")[156:] + END, "octal"),
    "text": (b"HTTP/1.1 500 Internal Server Error\r\n" * 30, "magic"),
    # types
    **{
        f"type {letter!r}": (ROOT + block(b"d/a", letter) + END, "is not one the engine writes")
        for letter in (
            b"\0",
            b"7",
            b"8",
            b"S",
            b"L",
            b"K",
            b"g",
            b"X",
            b"D",
            b"M",
            b"N",
            b"V",
            b"A",
            b"I",
            b" ",
            b"\xff",
        )
    },
    "GNU magic": (ROOT + block(b"d/a", magic=b"ustar  \0") + END, "magic"),
    "no magic": (ROOT + block(b"d/a", magic=bytes(8)) + END, "magic"),
    "GNU long name": (
        ROOT
        + block(b"././@LongLink", b"L", size=octal(9), magic=b"ustar  \0")
        + body(b"d/../../x")
        + file(b"d/a")
        + END,
        "magic",
    ),
    "a directory with content": (ROOT + block(b"d/a/", b"5", size=octal(1)) + body(b"x") + END, "1 bytes of content"),
    "a link with content": (ROOT + block(b"d/a", b"2", size=octal(1)) + body(b"x") + END, "1 bytes of content"),
    "a hard link with content": (ROOT + block(b"d/a", b"1", size=octal(1)) + body(b"x") + END, "1 bytes of content"),
    "a fifo with content": (ROOT + block(b"d/a", b"6", size=octal(1)) + body(b"x") + END, "1 bytes of content"),
    # PAX
    "PAX sparse size": (ROOT + pax(b"GNU.sparse.realsize=1") + file(b"d/a", b"x") + END, "not one the engine writes"),
    "PAX sparse map": (ROOT + pax(b"GNU.sparse.map=0,1") + file(b"d/a", b"x") + END, "not one the engine writes"),
    "PAX sparse name": (ROOT + pax(b"GNU.sparse.name=d/b") + file(b"d/a", b"x") + END, "not one the engine writes"),
    "PAX character set": (ROOT + pax(b"hdrcharset=BINARY") + file(b"d/a") + END, "not one the engine writes"),
    "PAX comment": (ROOT + pax(b"comment=x") + file(b"d/a") + END, "not one the engine writes"),
    "global PAX": (
        ROOT + block(b"g", b"g", size=octal(14)) + body(b"14 path=d/abc\n") + file(b"d/a") + END,
        "type b'g'",
    ),
    "PAX path that fits": (ROOT + file(b"d/a") + pax(b"path=d/reward.txt") + file(b"d/b") + END, "could not hold"),
    "PAX path, absolute": (ROOT + pax(b"path=/" + LONG) + file(b"d/b") + END, "not inside"),
    "PAX path, dotdot": (ROOT + pax(b"path=d/../" + LONG) + file(b"d/b") + END, "relative"),
    "PAX path, dotdot inside": (ROOT + pax(b"path=d/" + LONG + b"/../../../x") + file(b"d/b") + END, "relative"),
    "PAX path with NUL": (ROOT + pax(b"path=d/" + LONG + b"\0x") + file(b"d/b") + END, "could not hold"),
    "PAX path, empty": (ROOT + pax(b"path=") + file(b"d/b") + END, "could not hold"),
    "PAX path, twice used": (
        ROOT + pax(b"path=d/" + LONG) + file(b"d/b") + pax(b"path=d/" + LONG) + file(b"d/c") + END,
        "two entries",
    ),
    "PAX link that fits": (ROOT + pax(b"linkpath=/") + block(b"d/b", b"2") + END, "could not hold"),
    "PAX size that fits": (ROOT + pax(b"size=1") + file(b"d/b") + body(b"x") + END, "overrides a size"),
    "PAX size that just fits": (ROOT + pax(b"size=8589934591") + file(b"d/b") + END, "overrides a size"),
    "PAX size zero": (ROOT + pax(b"size=0") + file(b"d/b", b"x") + END, "overrides a size"),
    "PAX size negative": (ROOT + pax(b"size=-1") + file(b"d/b") + END, "overrides a size"),
    "PAX size and field": (ROOT + pax(b"size=8589934592") + file(b"d/b", b"x") + END, "overrides a size"),
    "PAX size, exponent": (ROOT + pax(b"size=9e9") + file(b"d/b") + END, "overrides a size"),
    "PAX size, space": (ROOT + pax(b"size= 8589934592") + file(b"d/b") + END, "overrides a size"),
    "PAX size, other digits": (ROOT + pax("size=٨٥٨٩٩٣٤٥٩٢".encode()) + file(b"d/b") + END, "overrides a size"),
    "PAX size, 20 digits": (ROOT + pax(b"size=" + b"9" * 20) + file(b"d/b") + END, "overrides a size"),
    "PAX size, 4000 digits": (ROOT + pax(b"size=" + b"9" * 4000) + file(b"d/b") + END, "overrides a size"),
    "PAX size, 1 TB": (ROOT + pax(b"size=1099511627776") + file(b"d/b") + END, "1099511627776 bytes more"),
    "PAX size of a link": (ROOT + pax(b"size=8589934592") + block(b"d/b", b"2") + END, "bytes of content"),
    "PAX mtime": (ROOT + pax(b"mtime=nan") + file(b"d/b") + END, "not a time"),
    "PAX mtime, huge": (ROOT + pax(b"mtime=" + b"9" * 13) + file(b"d/b") + END, "not a time"),
    "PAX record twice": (ROOT + pax(b"path=d/" + LONG, b"path=d/x" + LONG) + file(b"d/b") + END, "stands twice"),
    "PAX too short": (ROOT + raw_pax(b"9 uid=12345\n") + file(b"d/b") + END, "broken PAX"),
    "PAX too long": (ROOT + raw_pax(b"99 uid=12345\n") + file(b"d/b") + END, "broken PAX"),
    "PAX shorter than its key": (ROOT + raw_pax(b"3 uid=1\n") + file(b"d/b") + END, "broken PAX"),
    "PAX length zero": (ROOT + raw_pax(b"0 uid=1\n") + file(b"d/b") + END, "broken PAX"),
    "PAX leading zero": (ROOT + raw_pax(b"08 uid=1\n") + file(b"d/b") + END, "broken PAX"),
    "PAX without newline": (ROOT + raw_pax(b"8 uid=12") + file(b"d/b") + END, "broken PAX"),
    "PAX without value": (ROOT + raw_pax(b"6 uid\n") + file(b"d/b") + END, "broken PAX"),
    "PAX without key": (ROOT + raw_pax(b"5 =1\n") + file(b"d/b") + END, "broken PAX"),
    "PAX with text": (ROOT + raw_pax(b"hello\n") + file(b"d/b") + END, "broken PAX"),
    "PAX too large": (ROOT + pax(b"SCHILY.xattr.user.x=" + bytes(20_000)) + file(b"d/b") + END, "PAX records of 200"),
    "PAX twice": (ROOT + pax(b"uid=1") + pax(b"uid=2") + file(b"d/b") + END, "type b'x'"),
    "PAX at the end": (ROOT + pax(b"uid=1") + END, "magic"),
    "PAX cut": (ROOT + pax(b"uid=1")[:515], "bytes short"),
    # limits
    "path too deep": (ROOT + pax(b"path=d/" + b"a/" * 64 + b"a") + file(b"d/b") + END, "65 parts"),
    "path too long": (ROOT + pax(b"path=d/" + b"a" * 4096) + file(b"d/b") + END, "4096 bytes"),
    "too many entries": (ROOT + b"".join(file(b"d/%d" % at) for at in range(50)) + END, "more than 50 entries"),
    "too many bytes": (ROOT + file(b"d/a", bytes(1 << 20)) + END, "1048576 are allowed in all"),
    "zeros without end": (ROOT + bytes(2 << 20), "1048576 are allowed in all"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_streams_are_refused(case: str) -> None:
    data, said = HOSTILE[case]
    for chunks in ([data], [data[at : at + 333] for at in range(0, len(data), 333)]):
        with pytest.raises(Refused) as caught:
            unpack(chunks, LIMITS)
        assert caught.value.reason is Reason.TAR_REFUSED
        assert said in caught.value.message
        assert len(caught.value.message) < 400
        assert caught.value.message.isprintable()


def test_a_byte_after_an_empty_chunk_is_seen() -> None:
    with pytest.raises(Refused, match="something follows the end"):
        unpack([ROOT + END, b"", b"", b"x"], LIMITS)


def test_what_just_fits_the_limits_is_read() -> None:
    deep = b"d/" + b"a/" * 63 + b"a"
    folders = [deep[: 3 + 2 * at] for at in range(63)]
    data = ROOT + b"".join(block(name + b"/", b"5") for name in folders if len(name) < 100)
    data += b"".join(pax(b"path=" + name + b"/") + block(b"-", b"5") for name in folders if len(name) >= 100)
    data += pax(b"path=" + deep) + file(b"-", b"x") + END
    limits = TarLimits(total_bytes=len(data), entries=65, keep_bytes=1)
    assert unpack([data], limits)["/".join("a" * 64)].data == b"x"
    for total, count in ((len(data) - 1, 65), (len(data), 64)):
        with pytest.raises(Refused, match=r"allowed in all|more than 64 entries"):
            unpack([data], TarLimits(total, count, 1))


def test_the_message_names_the_place() -> None:
    with pytest.raises(Refused) as caught:
        unpack([ROOT + file(b"d/ok", b"x") + file(b"d/../out") + END], LIMITS)
    assert caught.value.message.startswith("tar stream at byte 2048, entry 'd/../out': ")


def test_a_broken_source_raises_its_own_error() -> None:
    def chunks() -> Iterator[bytes]:
        yield ROOT[:100]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        unpack(chunks(), LIMITS)


class Counted:
    """An endless stream that knows how much was drawn."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.parts = iter(parts)
        self.drawn = 0

    def __iter__(self) -> Iterator[bytes]:
        for part in self.parts:
            self.drawn += len(part)
            yield part


@pytest.mark.parametrize(
    ("parts", "most"),
    [
        # a file of 1 TB, declared: refused before a byte of it is drawn
        ([ROOT + pax(b"size=1099511627776") + file(b"d/b"), *[bytes(1 << 20)] * 300], 3072),
        # a million entries
        ((ROOT if at == 0 else file(b"d/%d" % at) for at in range(1_000_000)), 512 * 20_001),
        # a million PAX headers
        (itertools.chain([ROOT], itertools.repeat(pax(b"uid=1"))), 3000),
        # zeros for ever
        (itertools.chain([ROOT], itertools.repeat(bytes(1 << 16))), (64 << 20) + (1 << 17)),
    ],
)
def test_a_flood_is_refused_within_a_second_and_little_memory(parts: Iterable[bytes], most: int) -> None:
    source = Counted(parts)
    began = time.perf_counter()
    with pytest.raises(Refused):
        unpack(source, TarLimits(total_bytes=64 << 20, entries=20_000, keep_bytes=1 << 20))
    assert time.perf_counter() - began < 1.0
    assert source.drawn <= most


def test_memory_stays_flat_over_a_large_file() -> None:
    size = 200 << 20
    parts = itertools.chain([block(b"f", size=octal(size))], itertools.repeat(bytes(1 << 16), size >> 16), [END])
    limits = TarLimits(total_bytes=size + 4096, entries=1, keep_bytes=1 << 16)
    tracemalloc.start()
    entry = unpack(parts, limits)[""]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (entry.size, entry.truncated) == (size, True)
    assert peak < 1 << 20


# --- no input crashes it; what it takes, the standard library reads alike


LETTERS = {
    "file": b"0",
    "hardlink": b"1",
    "symlink": b"2",
    "char_device": b"3",
    "block_device": b"4",
    "dir": b"5",
    "fifo": b"6",
}


@given(st.binary(max_size=3000))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        unpack([data], LIMITS)


SAMPLE = (
    ROOT
    + file(b"d/a", b"0\n", mtime=b"15303445472\0")
    + pax(b"path=d/" + LONG, b"mtime=17.5", b"uid=3000000")
    + file(b"d/n", b"y" * 600)
    + block(b"d/l", b"2", link=b"/etc/passwd")
    + block(b"d/sub/", b"5")
    + file(b"b", b"1\n", prefix=b"d/sub")
    + END
)
HEADERS = [at for at in range(0, len(SAMPLE) - 1024, 512) if SAMPLE[at + 257 : at + 262] == b"ustar"]


@settings(max_examples=400)
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(HEADERS), st.integers(0, 511), st.binary(min_size=1, max_size=6)), max_size=3
    ),
    wild=st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), max_size=2),
    cut=st.one_of(st.none(), st.integers(0, len(SAMPLE))),
    step=st.integers(1, 2000),
)
def test_a_changed_archive_is_refused_or_read_as_the_standard_library_does(
    changes: list[tuple[int, int, bytes]], wild: list[tuple[int, int]], cut: int | None, step: int
) -> None:
    """Header bytes are changed and the checksums made good again, so that the change is met, not the checksum."""
    data = bytearray(SAMPLE)
    for at, offset, value in changes:
        end = min(offset + len(value), 512)
        data[at + offset : at + end] = value[: end - offset]
        data[at + 148 : at + 156] = b"        "
        data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    for at, letter in wild:
        data[at] = letter
    mangled = bytes(data[:cut])
    try:
        entries = unpack([mangled[at : at + step] for at in range(0, len(mangled), step)], LIMITS)
    except Refused as refusal:
        assert refusal.reason is Reason.TAR_REFUSED  # noqa: PT017 - a result is as good
        return
    root = mangled[:100].rstrip(b"\0").decode().removesuffix("/")
    ours = [
        (f"{root}/{path}" if path else root, LETTERS[entry.kind], entry.size, entry.data)
        for path, entry in entries.items()
    ]
    assert ours == by_tarfile(mangled)


@given(data=st.binary(max_size=200), records=st.lists(st.binary(max_size=30), max_size=4))
def test_any_pax_records_are_taken_or_refused(data: bytes, records: list[bytes]) -> None:
    for header in (raw_pax(data), pax(*records), pax(*(b"mtime=" + one for one in records))):
        try:
            unpack([ROOT + header + file(b"d/a") + END], LIMITS)
        except Refused as refusal:
            assert refusal.reason is Reason.TAR_REFUSED  # noqa: PT017 - a result is as good
