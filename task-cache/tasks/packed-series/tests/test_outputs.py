"""Builds the agent's sources and holds the tool against a codec written here from the same description."""

import pathlib
import random
import struct
import subprocess
import zlib

import pytest

FLAGS = "-std=c11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all".split()
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
LEAST, MOST = -(2**63), 2**63 - 1
draw = random.SystemRandom()


@pytest.fixture(scope="session")
def tool() -> str:
    folder = pathlib.Path("/tmp/dpack-check")
    folder.mkdir(mode=0o755)
    sources = sorted(map(str, pathlib.Path("/app/src").glob("*.c")))
    assert sources, "no C sources in /app/src"
    made = subprocess.run(["gcc", *FLAGS, "-o", folder / "dpack", *sources], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr[-3000:]
    return str(folder / "dpack")


def run(tool: str, command: str, data: bytes) -> tuple[int, bytes]:
    # The address sanitizer reserves terabytes without using them, so memory is bounded by what is really touched.
    limited = [*NOBODY, "env", "-i", "ASAN_OPTIONS=hard_rss_limit_mb=400:detect_leaks=0", tool, command]
    ended = subprocess.run(limited, input=data, capture_output=True, timeout=60, cwd="/")
    assert b"Sanitizer" not in ended.stderr, ended.stderr[-3000:].decode(errors="replace")
    assert b"runtime error" not in ended.stderr, ended.stderr[-3000:].decode(errors="replace")
    if ended.returncode == 3:
        assert ended.stdout == b"", "a refused input must leave nothing on stdout"
        assert ended.stderr.strip() != b"", "a refused input needs a line on stderr"
    return ended.returncode, ended.stdout


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def zigzag(number: int) -> int:
    number = (number + 2**63) % 2**64 - 2**63
    return number * 2 if number >= 0 else -number * 2 - 1


def body(series: list[int | None]) -> bytes:
    present = [value for value in series if value is not None]
    missing = len(present) < len(series)
    out = b"DPK1" + bytes([missing]) + varint(len(series))
    if missing:
        bits = sum((value is not None) << place for place, value in enumerate(series))
        out += bits.to_bytes((len(series) + 7) // 8, "little")
    before = 0
    for start in range(0, len(present), 64):
        block = present[start : start + 64]
        out += varint(zigzag(block[0] - before))
        if len(block) > 1:
            rest = [zigzag(block[place] - block[place - 1]) for place in range(1, len(block))]
            width = max(rest).bit_length()
            bits = sum(number << place * width for place, number in enumerate(rest))
            out += bytes([width]) + bits.to_bytes((len(rest) * width + 7) // 8, "little")
        before = block[-1]
    return out


def packed(content: bytes) -> bytes:
    return content + struct.pack("<I", zlib.crc32(content))


def text(series: list[int | None]) -> bytes:
    return b"".join(b"?\n" if value is None else b"%d\n" % value for value in series)


def stat(series: list[int | None]) -> bytes:
    present = [value for value in series if value is not None]
    least, most = (min(present), max(present)) if present else ("?", "?")
    return f"count={len(series)} missing={len(series) - len(present)} min={least} max={most} sum={sum(present)}\n".encode()


def random_series(length: int) -> list[int | None]:
    spread = draw.choice([1, 3, 200, 2**20, 2**40, 2**62, 2**63])
    gaps = draw.choice([0, 0, 0.02, 0.5, 1])
    value = draw.randint(-spread, spread - 1)
    series: list[int | None] = []
    for _ in range(length):
        value = max(LEAST, min(MOST, draw.choice([value, value + draw.randint(-spread, spread), draw.randint(-spread, spread)])))
        series.append(None if draw.random() < gaps else value)
    return series


SERIES = [
    [],
    [0],
    [None],
    [LEAST],
    [MOST, LEAST, MOST],
    [LEAST, MOST] * 40,
    [1, 2, None, -5],
    [7] * 64,
    [7] * 65,
    list(range(128)),
    [None] * 17,
    [MOST] * 300,
    [LEAST] * 300,
]


def test_round_trips(tool: str) -> None:
    several = [*SERIES, *(random_series(draw.choice([1, 2, 63, 64, 65, 127, 128, 129, 500])) for _ in range(25))]
    for series in several:
        wanted = packed(body(series))
        assert run(tool, "pack", text(series)) == (0, wanted), series[:20]
        assert run(tool, "unpack", wanted) == (0, text(series)), series[:20]
        assert run(tool, "stat", wanted) == (0, stat(series)), series[:20]


@pytest.mark.parametrize(
    ("given", "series"),
    [
        (b"", []),
        (b"\n \t\n# 5\n\r\n", []),
        (b"+5\r\n -0007 \t\r\n?\n000000000000000000000000000000\n12", [5, -7, None, 0, 12]),
        (b"-9223372036854775808\n9223372036854775807\n", [LEAST, MOST]),
        (b"  ?  \n-0", [None, 0]),
        (b"0" * 5000 + b"9\n", [9]),
    ],
)
def test_text_that_is_accepted(tool: str, given: bytes, series: list[int | None]) -> None:
    assert run(tool, "pack", given) == (0, packed(body(series)))


@pytest.mark.parametrize(
    "given",
    [
        *(b"9223372036854775808", b"-9223372036854775809", b"18446744073709551617", b"1" * 60, b"-" + b"9" * 30),
        *(b"1 2", b"--1", b"+", b"-", b"1.0", b"0x10", b"1e3", b"??", b"? 1", b"1\x00", b"\x00", b"\xc2\xa05", b"5 # five"),
        *(b"1\n2\nx\n", b"1\r2\n", b"\x0b1\n", b"+-3"),
    ],
)
def test_text_that_is_refused(tool: str, given: bytes) -> None:
    assert run(tool, "pack", given)[0] == 3


def test_damaged_files_are_refused(tool: str) -> None:
    for series in ([1, 2, None, -5], [MOST, LEAST, None], list(range(70)), [], [5]):
        good = packed(body(series))
        for end in range(len(good)):
            assert run(tool, draw.choice(["unpack", "stat"]), good[:end])[0] == 3, (series, end)
        for command in ("unpack", "stat"):
            assert run(tool, command, good + b"\0")[0] == 3
            place = draw.randrange(len(good))
            flipped = bytes([*good[:place], good[place] ^ 1 << draw.randrange(8), *good[place + 1 :]])
            assert run(tool, command, flipped)[0] == 3, (series, place)


HOSTILE = {
    "flag bit 1": b"DPK1\x02\x00",
    "flag says missing, nothing is": b"DPK1\x01\x01\x01\x00",
    "count needlessly long": b"DPK1\x00\x81\x00\x00",
    "first needlessly long": b"DPK1\x00\x01\x80\x00",
    "width too large for its numbers": b"DPK1\x00\x02\x00\x02\x01",
    "width 65": b"DPK1\x00\x02\x00\x41" + b"\xff" * 9,
    "width 255": b"DPK1\x00\x02\x00\xff" + b"\xff" * 40,
    "unused bit of the rest": b"DPK1\x00\x02\x00\x01\x03",
    "unused bit of the bitmap": b"DPK1\x01\x02\x05\x00",
    "count beyond the file": b"DPK1\x00" + varint(2**40),
    "count of all ones": b"DPK1\x00" + varint(2**64 - 1),
    "bitmap beyond the file": b"DPK1\x01" + varint(2**64 - 1),
    "bitmap size that wraps": b"DPK1\x01" + varint(2**64 - 8) + b"\0" * 8,
    "varint of eleven bytes": b"DPK1\x00" + b"\xff" * 10 + b"\x01",
    "varint beyond 64 bits": b"DPK1\x00\x01" + b"\xff" * 9 + b"\x7f",
    "bytes between blocks and check": b"DPK1\x00\x01\x00\x00",
    "another magic": b"DPK2\x00\x00",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_made_up_files_with_a_right_check_are_refused(tool: str, name: str) -> None:
    for command in ("unpack", "stat"):
        assert run(tool, command, packed(HOSTILE[name]))[0] == 3


def test_wrong_calls(tool: str) -> None:
    for arguments in ([], ["pack", "x"], ["nothing"], [""]):
        ended = subprocess.run([*NOBODY, tool, *arguments], input=b"", capture_output=True, timeout=20, cwd="/")
        assert ended.returncode == 2, arguments


def test_a_long_series(tool: str) -> None:
    series = [draw.randrange(-1000, 1000) + 3 * place for place in range(200_000)]
    wanted = packed(body(series))
    assert run(tool, "pack", text(series)) == (0, wanted)
    assert run(tool, "unpack", wanted) == (0, text(series))
    assert run(tool, "stat", wanted) == (0, stat(series))


def test_a_compiled_tool_is_left() -> None:
    assert pathlib.Path("/app/dpack").is_file()
