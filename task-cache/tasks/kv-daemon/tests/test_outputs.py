"""Talks to the service the session left behind. The order matters: the first tests need the store as it was left."""

import hashlib
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

GREETING_SHA256 = "65944731cf5e65b533f35d2a6dc137e22f3736fa69c3ee58ed404af91aeae7bf"
LARGEST = 1 << 20
BEGAN = time.clock_gettime(time.CLOCK_BOOTTIME)


class Client:
    def __init__(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", 7711), timeout=3)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> bytes:
        """One whole answer, read by its own shape."""
        line = self.file.readline()
        if found := re.fullmatch(rb"VALUE [0-9]+ ([0-9]+)\n", line):
            return line + self.file.read(int(found[1]) + 1)
        if found := re.fullmatch(rb"COUNT ([0-9]+)\n", line):
            return line + b"".join(self.file.readline() for _ in range(int(found[1])))
        return line

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        return self.answer()

    def stat(self) -> tuple[int, int, int]:
        found = re.fullmatch(rb"STAT ([0-9]+) ([0-9]+) ([0-9]+)\n", self.ask(b"STAT\n"))
        assert found
        pid, keys, version = map(int, found.groups())
        return pid, keys, version

    def closed(self) -> bool:
        try:
            return self.file.read(1) == b""
        except ConnectionError:
            return True


def put(key: str, value: bytes) -> bytes:
    return b"SET %s %d\n%s\n" % (key.encode(), len(value), value)


def cas(key: str, version: int, value: bytes) -> bytes:
    return b"CAS %s %d %d\n%s\n" % (key.encode(), version, len(value), value)


def start() -> int:
    """Run start.sh; give its exit status."""
    began = time.monotonic()
    script = subprocess.Popen(
        ["bash", "/app/start.sh"],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    status = script.wait(timeout=10)
    assert time.monotonic() - began < 6, "start.sh took longer than 5 seconds"
    return status


def in_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "a client hangs"
    if failures:
        raise failures[0]


@pytest.fixture
def client():
    with Client() as one:
        yield one


def test_the_session_left_it_running_with_the_greeting(client):
    pid, keys, version = client.stat()
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    assert ticks / os.sysconf("SC_CLK_TCK") < BEGAN, "the service is younger than the verifier"
    assert (keys, version) == (1, 1)
    answer = client.ask(b"GET greeting\n")
    head, value = answer.split(b"\n", 1)
    assert head == b"VALUE 1 274"
    assert hashlib.sha256(value[:-1]).hexdigest() == GREETING_SHA256


def test_start_changes_nothing_when_it_runs(client):
    before = client.stat()
    assert start() == 0
    assert client.stat() == before


def test_a_walk_through_the_protocol(client):
    for request, wanted in [
        (b"GET walk\n", b"NONE\n"),
        (put("walk", b"one"), b"OK 2\n"),
        (b"GET walk\n", b"VALUE 2 3\none\n"),
        (cas("walk", 1, b"no"), b"CONFLICT 2\n"),
        (cas("walk", 2, b""), b"OK 3\n"),
        (b"GET walk\n", b"VALUE 3 0\n\n"),
        (cas("walk:new", 3, b"no"), b"CONFLICT 0\n"),
        (cas("walk:new", 0, b"9"), b"OK 4\n"),
        (b"ADD walk:new -12\n", b"NUMBER 5 -3\n"),
        (b"ADD walk.missing 007\n", b"NUMBER 6 7\n"),
        (b"ADD walk 1\n", b"ERR number\n"),
        (b"KEYS walk\n", b"COUNT 3\nwalk\nwalk.missing\nwalk:new\n"),
        (b"KEYS walk:\n", b"COUNT 1\nwalk:new\n"),
        (b"KEYS nothing\n", b"COUNT 0\n"),
        (b"DEL walk\n", b"OK 7\n"),
        (b"DEL walk\n", b"NONE\n"),
        (cas("walk", 0, b"back"), b"OK 8\n"),
        (put("number", b"9223372036854775806"), b"OK 9\n"),
        (b"ADD number 1\n", b"NUMBER 10 9223372036854775807\n"),
        (b"ADD number 1\n", b"ERR number\n"),
        (b"ADD number -9223372036854775807\n", b"NUMBER 11 0\n"),
        (b"ADD number -9223372036854775808\n", b"NUMBER 12 -9223372036854775808\n"),
        (b"ADD number -1\n", b"ERR number\n"),
        (put("number", b" 1"), b"OK 13\n"),
        (b"ADD number 1\n", b"ERR number\n"),
        (put("number", b"-007"), b"OK 14\n"),
        (b"ADD number 1\n", b"NUMBER 15 -6\n"),
        (b"GET number\n", b"VALUE 15 2\n-6\n"),
    ]:
        assert client.ask(request) == wanted, request
    assert client.stat()[1:] == (5, 15)
    assert client.ask(b"QUIT\n") == b"BYE\n"
    assert client.closed()


@pytest.mark.parametrize(
    "request_",
    [b"", b"get greeting", b"GET", b"GET a b", b"GET  a", b" GET a", b"GET a ", b"GET a\r", b"GET caf\xc3\xa9", b"NOPE \x00\xff"]
    + [b"GET " + b"k" * 65, b"SET a", b"SET a 1 2", b"SET a -1", b"SET a x", b"SET a 12345678901", b"SET a +1", b"CAS a 1"]
    + [b"ADD a", b"ADD a 1.5", b"ADD a +1", b"ADD a 12345678901234567890", b"KEYS", b"KEYS /", b"STAT now", b"QUIT now"]
    + [b"SET a/b 3\nGET", b"CAS a x 8\nSET b 1\n", b"CAS a b/ 0\n", b"DEL *"],
)
def test_wrong_requests_are_answered_and_change_nothing(client, request_):
    before = client.stat()
    assert client.ask(request_ + b"\n") == b"ERR request\n"
    assert client.stat() == before


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"SET big 1048577\n", b"ERR large\n"),
        (b"SET b/g 9999999999\n", b"ERR large\n"),
        (b"SET short 3\nfour\n", b"ERR value\n"),
        (b"x" * 1025, b"ERR line\n"),
    ],
)
def test_what_ends_a_connection(client, data, wanted):
    before = client.stat()
    assert client.ask(data) == wanted
    assert client.closed()
    with Client() as other:
        assert other.stat() == before


def test_longest_line_and_longest_key(client):
    key = "k" * 64
    assert client.ask(put(key, b"v")).startswith(b"OK ")
    assert client.ask(b"DEL " + key.encode() + b"\n").startswith(b"OK ")
    assert client.ask(b"x" * 1024 + b"\n") == b"ERR request\n"


def test_values_are_bytes(client):
    rng = random.SystemRandom()
    for value in [b"\n", b"\n\nGET x\n", b"SET x 3\nabc\n", bytes(range(256)), b"\r\n\x00", rng.randbytes(LARGEST)]:
        assert client.ask(put("bytes", value)).startswith(b"OK ")
        assert client.ask(b"GET bytes\n").endswith(b" %d\n%s\n" % (len(value), value))
    client.ask(put("bytes", b""))


def test_in_pieces(client):
    whole = put("pieces", b"a\nb\n") + b"GET pieces\n" + b"NOPE\n" + cas("pieces", 0, b"\n") + b"DEL pieces\n"
    for at in range(len(whole)):
        client.send(whole[at : at + 1])
        if at % 4 == 0:
            time.sleep(0.001)
    assert client.answer().startswith(b"OK ")
    assert client.answer().endswith(b" 4\na\nb\n\n")
    assert client.answer() == b"ERR request\n"
    assert client.answer().startswith(b"CONFLICT ")
    assert client.answer().startswith(b"OK ")


def test_against_a_model_without_waiting(client):
    """Some hundred random requests in one go, their answers compared with those of a dictionary."""
    seed = random.SystemRandom().getrandbits(64)
    print("seed", seed)
    rng = random.Random(seed)
    version = client.stat()[2]
    model: dict[str, tuple[int, bytes]] = {}
    sent, wanted = [], []
    for _ in range(600):
        key = f"m:{rng.randrange(12):x}"
        held = model.get(key, (0, b""))
        what = rng.choice(["SET", "GET", "DEL", "CAS", "ADD", "KEYS", "SET"])
        value = rng.choice([b"%d" % rng.randrange(-99, 99), rng.randbytes(rng.randrange(20)), b"0\n"])
        if what == "SET" or (what == "CAS" and rng.random() < 0.7):
            version += 1
            model[key] = (version, value)
            sent.append(put(key, value) if what == "SET" else cas(key, held[0], value))
            wanted.append(b"OK %d\n" % version)
        elif what == "CAS":
            sent.append(cas(key, held[0] + 1, value))
            wanted.append(b"CONFLICT %d\n" % held[0])
        elif what == "GET":
            sent.append(f"GET {key}\n".encode())
            wanted.append(b"VALUE %d %d\n%s\n" % (held[0], len(held[1]), held[1]) if held[0] else b"NONE\n")
        elif what == "DEL":
            version += bool(held[0])
            model.pop(key, None)
            sent.append(f"DEL {key}\n".encode())
            wanted.append(b"OK %d\n" % version if held[0] else b"NONE\n")
        elif what == "ADD":
            delta = rng.randrange(-9, 9)
            sent.append(f"ADD {key} {delta}\n".encode())
            if held[0] and not re.fullmatch(rb"-?[0-9]{1,19}", held[1]):
                wanted.append(b"ERR number\n")
            else:
                version += 1
                total = int(held[1] or 0) + delta
                model[key] = (version, b"%d" % total)
                wanted.append(b"NUMBER %d %d\n" % (version, total))
        else:
            sent.append(b"KEYS m:\n")
            wanted.append(b"COUNT %d\n" % len(model) + b"".join(k.encode() + b"\n" for k in sorted(model)))
    threading.Thread(target=client.send, args=(b"".join(sent),), daemon=True).start()
    for request, answer in zip(sent, wanted, strict=True):
        assert client.answer() == answer, request


def test_many_clients_and_stalled_ones_hold_nobody_up():
    stalled = [Client() for _ in range(100)]
    try:
        halves = [b"GE", b"SET half 5\nab", b"SET half 5\nabcde", b"", b"CAS half 0 3"]
        for number, one in enumerate(stalled):
            one.send(halves[number % len(halves)])
        with Client() as client:
            began = time.monotonic()
            for _ in range(50):
                assert client.ask(b"GET half\n") == b"NONE\n"
            assert time.monotonic() - began < 2
    finally:
        for one in stalled:
            one.__exit__()
    with Client() as client:
        time.sleep(0.1)
        assert client.ask(b"GET half\n") == b"NONE\n", "a request that was cut off has been carried out"


def test_a_client_that_does_not_read_holds_nobody_up(client):
    assert client.ask(put("large", b"x" * (LARGEST // 2))).startswith(b"OK ")
    with Client() as deaf:
        deaf.send(b"GET large\n" * 40)  # 20 MiB of answers
        time.sleep(0.1)
        began = time.monotonic()
        for _ in range(20):
            assert client.ask(b"GET nothing\n") == b"NONE\n"
        assert time.monotonic() - began < 2
    client.ask(b"DEL large\n")


def test_additions_of_many_clients_are_not_lost():
    versions: list[int] = []

    def work(_: int) -> None:
        with Client() as one:
            for _ in range(40):
                versions.append(int(one.ask(b"ADD shared 1\n").split()[1]))

    in_threads(10, work)
    with Client() as client:
        assert client.ask(b"GET shared\n").endswith(b" 3\n400\n")
    assert len(set(versions)) == 400


def test_one_of_many_swaps_wins():
    for _ in range(5):
        with Client() as client:
            version = int(client.ask(put("swap", b"-")).split()[1])
        answers: list[bytes] = []

        def work(number: int, version: int = version) -> None:
            with Client() as one:
                answers.append(one.ask(cas("swap", version, b"%d" % number)))

        in_threads(8, work)
        assert sum(answer.startswith(b"OK ") for answer in answers) == 1


def snapshot(client: Client) -> tuple[int, list[bytes]]:
    """The version counter, and every key with its version and value."""
    lists = [client.ask(b"KEYS %c\n" % first) for first in b"abcdefghijklmnopqrstuvwxyz"]
    keys = [key for one in lists for key in one.split(b"\n")[1:-1]]
    return client.stat()[2], [key + b" " + client.ask(b"GET %s\n" % key) for key in keys]


def kill(client: Client) -> int:
    """Kill the process that holds the store, wait until it is gone or a zombie; give its pid."""
    pid = client.stat()[0]
    os.kill(pid, signal.SIGKILL)
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return pid
        except (FileNotFoundError, ProcessLookupError):
            return pid
        time.sleep(0.01)
    raise AssertionError(f"process {pid} does not die")


@pytest.mark.parametrize("_", range(2))
def test_everything_survives_the_death_of_the_process(_):
    with Client() as client:
        assert client.ask(put("last", os.urandom(100_000))).startswith(b"OK ")
        assert client.ask(put("gone", b"")).startswith(b"OK ")
        assert client.ask(b"DEL gone\n").startswith(b"OK ")
        before = snapshot(client)
        assert len(before[1]) > 5
        old = kill(client)
    assert start() == 0
    with Client() as client:
        assert client.stat()[0] != old
        assert snapshot(client) == before


def test_what_was_answered_survives_a_death_in_mid_write():
    answered: list[dict[int, bytes]] = [{} for _ in range(4)]

    def work(number: int) -> None:
        try:
            with Client() as one:
                for turn in range(10_000):
                    value = b"%d:" % turn + b"v" * 3_000
                    answer = one.ask(put(f"flight:{number}", value))
                    if not answer.startswith(b"OK ") or not answer.endswith(b"\n"):
                        return
                    answered[number][int(answer.split()[1])] = value
        except (ConnectionError, TimeoutError):
            return

    def strike(number: int) -> None:
        if number < 4:
            return work(number)
        with Client() as client:
            for _ in range(400):  # until every writer has been answered some times
                time.sleep(0.01)
                if all(len(versions) > 5 for versions in answered):
                    break
            kill(client)

    in_threads(5, strike)
    assert start() == 0
    with Client() as client:
        last = client.stat()[2]
        assert last >= max(version for versions in answered for version in versions)
        for number, versions in enumerate(answered):
            head, value = client.ask(b"GET flight:%d\n" % number).split(b"\n", 1)
            version = int(head.split()[1])
            assert version >= max(versions)
            assert re.fullmatch(rb"[0-9]+:v{3000}\n", value), "a change is there in part"
            if version in versions:
                assert versions[version] == value[:-1]
        assert client.ask(put("after", b"")) == b"OK %d\n" % (last + 1)
