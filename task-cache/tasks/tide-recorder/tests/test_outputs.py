"""Makes logs, damages them, and compares what /app/decode prints with a decoder of our own and with the truth."""

import binascii
import random
import subprocess
import tempfile
from pathlib import Path

import pytest

HARBOUR_SEED = 20260301
NOBODY = 65534  # the decoder runs as this user, who can neither read the tests nor write a verdict


@pytest.fixture
def tmp_path():
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def frame(sequence, payload):
    body = bytes([len(payload)]) + (sequence % 65536).to_bytes(2, "little") + payload
    return b"\xa5\x5a" + body + binascii.crc_hqx(body, 0xFFFF).to_bytes(2, "little")


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def signed(n):
    return varint(2 * n if n >= 0 else -2 * n - 1)


def shown(value, exponent):
    if exponent >= 0:
        return str(value * 10**exponent)
    digits = str(abs(value)).rjust(1 - exponent, "0")
    return "-" * (value < 0) + digits[:exponent] + "." + digits[exponent:]


# The decoder of our own.


class Unreadable(Exception):
    pass


class Payload:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise Unreadable
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self):
        value = 0
        for place in range(5):
            byte = self.take(1)[0]
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value
        raise Unreadable

    def signed(self):
        value = self.varint()
        return -(value // 2) - 1 if value % 2 else value // 2


class Log:
    def __init__(self):
        self.lines, self.forgotten = [], None
        self.forget()

    def forget(self):
        self.time, self.value, self.step, self.exponent = None, {}, {}, {}

    def reading(self, channel):
        if self.time is not None and channel in self.value and channel in self.exponent:
            self.lines.append(f"{self.time},{channel},{shown(self.value[channel], self.exponent[channel])}")

    def move(self, channel, wait):
        if self.time is not None:
            self.time += wait
        if channel in self.value:
            self.value[channel] += self.step[channel]
        self.reading(channel)

    def entry(self, payload):
        head = payload.take(1)[0]
        kind, channel = head >> 4, head & 15
        if kind == 1:
            self.time = int.from_bytes(payload.take(6), "little")
        elif kind == 2:
            self.value[channel], self.step[channel] = payload.signed(), 0
            self.reading(channel)
        elif kind == 3:
            wait, step = payload.varint(), payload.signed()
            if channel in self.value:
                self.step[channel] = step
            self.move(channel, wait)
        elif kind == 4:
            wait, count = payload.varint(), payload.varint()
            if count > 1000:
                raise Unreadable
            for _ in range(count):
                self.move(channel, wait)
        elif kind == 5:
            exponent = int.from_bytes(payload.take(1), "little", signed=True)
            if abs(exponent) > 9:
                raise Unreadable
            self.exponent[channel] = exponent
        else:
            raise Unreadable


def decode(data):
    log, last, at = Log(), None, 0
    frames = duplicates = gaps = skipped = 0
    while at < len(data):
        end = at + 7 + data[at + 2] if at + 2 < len(data) else len(data) + 1
        body = data[at + 2 : end - 2]
        if data[at : at + 2] != b"\xa5\x5a" or end > len(data) or data[end - 2 : end] != binascii.crc_hqx(body, 0xFFFF).to_bytes(2, "little"):
            skipped, at = skipped + 1, at + 1
            continue
        at = end
        sequence = int.from_bytes(body[1:3], "little")
        if sequence == last:
            duplicates += 1
            continue
        frames += 1
        if last is not None and sequence != (last + 1) % 65536:
            gaps += 1
            log.forget()
        last = sequence
        payload = Payload(body[3:])
        try:
            while payload.at < len(payload.data):
                log.entry(payload)
        except Unreadable:
            pass
    return "".join(line + "\n" for line in [*log.lines, f"# frames {frames} duplicates {duplicates} gaps {gaps} skipped {skipped}"])


# The gauge, which knows what it has measured.


class Gauge:
    def __init__(self, rng, first=None):
        self.rng, self.frames, self.truth = rng, [], []
        self.sequence = rng.randrange(65536) if first is None else first
        self.time = rng.randrange(1 << 41)
        self.channels = {c: [0, 0, rng.randint(-9, 9)] for c in rng.sample(range(16), rng.randint(1, 6))}

    def read(self, channel):
        value, _, exponent = self.channels[channel]
        self.truth.append(f"{self.time},{channel},{shown(value, exponent)}")

    def number(self):
        return self.rng.choice([0, 1, -1, 63, 64, -64, -65, 8191, -8192, 2**34 - 1, -(2**34)]) if self.rng.random() < 0.3 else self.rng.randint(-300, 300)

    def key(self):
        out = b"\x10" + self.time.to_bytes(6, "little")
        for channel, state in self.channels.items():
            if self.rng.random() < 0.3:
                state[2] = self.rng.randint(-9, 9)
            state[:2] = [self.number(), 0]
            out += bytes([0x50 | channel]) + state[2].to_bytes(1, "little", signed=True) + bytes([0x20 | channel]) + signed(state[0])
            self.read(channel)
        return out

    def more(self):
        out = b""
        for _ in range(self.rng.randint(0, 12)):
            channel = self.rng.choice(list(self.channels))
            state, wait = self.channels[channel], self.rng.choice([0, 1, 1000, 127, 128, 70000])
            if self.rng.random() < 0.8:
                state[1] = self.number()
                out += bytes([0x30 | channel]) + varint(wait) + signed(state[1])
                count = 1
            else:
                count = self.rng.choice([0, 1, 2, 5, 130])
                out += bytes([0x40 | channel]) + varint(wait) + varint(count)
            for _ in range(count):
                self.time += wait
                state[0] += state[1]
                self.read(channel)
        return out

    def write(self, key=False):
        payload = self.key() if key else self.more()
        if self.rng.random() < 0.15:  # something newer than this format, perhaps with a frame inside
            inner = frame(self.sequence + self.rng.randint(0, 2), self.rng.randbytes(self.rng.randrange(20)))
            payload += bytes([self.rng.choice([0x00, 0x6F, 0x93, 0xF0])]) + self.rng.choice([b"", b"\xa5\x5a", inner])
        assert len(payload) < 256
        self.frames.append(frame(self.sequence, payload))
        self.sequence += 1


def gauge(rng, count, first=None):
    made = Gauge(rng, first)
    for number in range(count):
        made.write(key=number == 0 or rng.random() < 0.1)
    return made


def damaged(rng, frames, rate):
    """Frames lost, doubled and hurt, in one row."""
    out = bytearray()
    for part in frames:
        part = bytearray(part)
        if rng.random() < rate:
            place = rng.randrange(len(part))
            match rng.randrange(7):
                case 0:
                    part[place] ^= 1 << rng.randrange(8)
                case 1:
                    del part[place : place + rng.randint(1, 40)]
                case 2:
                    part[place:place] = rng.randbytes(rng.randint(1, 40))
                case 3:
                    part = bytearray()
                case 4:
                    part = part * rng.randint(2, 3)
                case 5:
                    part[2] = rng.randrange(256)
                case 6:
                    part[0:0] = b"\xa5\x5a" + bytes([rng.choice([0, 4, 30, 255])])
        out += part
    return bytes(out[: len(out) - rng.randrange(20)])


def run(path, limit=60):
    done = subprocess.run(
        ["/app/decode", str(path)], stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False, cwd="/",
        user=NOBODY, group=NOBODY, extra_groups=[],
    )
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout.decode()


def compare(got, want):
    """Names the first line that differs; to let pytest explain texts of this size takes minutes."""
    got, want = got.split("\n"), want.split("\n")
    for number, (left, right) in enumerate(zip(got, want)):
        assert left == right, f"line {number + 1}"
    assert len(got) == len(want)


def check(data, tmp_path):
    path = tmp_path / "log.tide"
    path.write_bytes(data)
    compare(run(path), decode(data))


def harbour():
    rng = random.Random(HARBOUR_SEED)
    return damaged(rng, gauge(rng, 600, first=65300).frames, 0.2)


def test_harbour():
    compare(Path("/app/harbour.csv").read_text(), decode(harbour()))


def test_log_worked_out_by_hand(tmp_path):
    """The expected text was written down by hand, from the bytes."""
    frames = [
        frame(65534, bytes.fromhex("10 e8 03 00 00 00 00  51 fe  21 09  31 0a 03  41 05 02")),  # scale -2: -5, -7, -9, -11
        frame(65535, bytes.fromhex("22 80 01  52 03  32 01 02")),  # 64 before its scale is known, then 65 thousand
        frame(0, bytes.fromhex("41 00 00  f0 21 00")),
        frame(2, bytes.fromhex("21 02  51 00  31 01 02  10 64 00 00 00 00 00  31 00 01")),
    ]
    data = b"\xa5" + frames[0] + frames[1] + frames[1] + b"\x5a\xa5\x5a\xff" + frames[2] + frames[3] + frames[3][:5]
    path = tmp_path / "hand.tide"
    path.write_bytes(data)
    assert run(path) == (
        "1000,1,-0.05\n1010,1,-0.07\n1015,1,-0.09\n1020,1,-0.11\n"
        "1021,2,65000\n"
        "100,1,1\n"
        "# frames 4 duplicates 1 gaps 1 skipped 10\n"
    )
    assert run(path) == decode(data)


@pytest.mark.parametrize("data", [b"", b"\xa5", b"\xa5\x5a", b"\xa5\x5a\x00", b"\xa5" * 1000, bytes(range(256)) * 4], ids=range(6))
def test_no_log_at_all(tmp_path, data):
    path = tmp_path / "none.tide"
    path.write_bytes(data)
    assert run(path) == f"# frames 0 duplicates 0 gaps 0 skipped {len(data)}\n"


@pytest.mark.parametrize("round_", range(3))
def test_sound_logs_give_what_was_measured(tmp_path, round_):
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    made = gauge(random.Random(seed), 150, first=65500 if round_ == 0 else None)
    data = b"".join(made.frames)
    path = tmp_path / "sound.tide"
    path.write_bytes(data)
    want = "\n".join([*made.truth, f"# frames {len(made.frames)} duplicates 0 gaps 0 skipped 0", ""])
    compare(decode(data), want)
    compare(run(path), want)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3, 0.6])
def test_damaged_logs(tmp_path, rate):
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    check(damaged(rng, gauge(rng, 400, first=65400).frames, rate), tmp_path)


def test_unreadable_entries(tmp_path):
    start = bytes.fromhex("1b 00 00 00 00 00 00  50 00  20 00")
    odd = ["30", "30 80", "30 01", "30 80 80 80 80 80 01 02", "40 01 e9 07", "50 0a", "50 f6", "50", "10 00 00 00", "60", "00", "f0"]
    frames = [frame(0, start)]
    for number, text in enumerate(odd, 1):
        frames.append(frame(number, bytes.fromhex("30 01 02") + bytes.fromhex(text) + bytes.fromhex("30 01 02")))
    frames.append(frame(len(odd) + 1, bytes.fromhex("40 01 e8 07  50 f7  30 ff ff ff ff 7f ff ff ff ff 7f")))
    check(b"".join(frames), tmp_path)


def test_large_numbers(tmp_path):
    start = bytes.fromhex("10 ff ff ff ff ff ff")
    steps = b"".join(bytes([0x41]) + varint(5) + varint(1000) for _ in range(30))
    payloads = [start + bytes.fromhex("51 f7 21") + signed(2**34 - 1) + b"\x31\x00" + signed(2**34 - 1), steps, bytes.fromhex("51 09") + steps]
    check(b"".join(frame(n, payload) for n, payload in enumerate(payloads)), tmp_path)


def test_large_log_in_time(tmp_path):
    rng = random.Random(random.SystemRandom().randrange(2**32))
    data = damaged(rng, gauge(rng, 12_000).frames, 0.1)
    data += b"\xa5\x5a\xff" * 200_000 + rng.randbytes(500_000)
    assert len(data) < 4 << 20
    check(data, tmp_path)
