"""Agents that attack from inside the agent host: the channel, the container, the job, the next trial."""

from __future__ import annotations

import time

import pytest

from guest.agent import host
from guest.reason import Reason
from guest.trial.engine import Engine
from tests.guest.agent.conftest import RunAgent

pytestmark = pytest.mark.engine

# The channel's own descriptor, found among those that are open: anything can be written to it.
OUT = """
import json, stat, struct
def is_pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False
out = max(fd for fd in range(3, 100) if is_pipe(fd))
def frame(data): os.write(out, struct.pack(">L", len(data)) + data)
args = {"command": "sleep 9", "cwd": None, "env": {}, "timeout_sec": None, "user": None}
def ask(n): frame(json.dumps({"verb": "exec", "id": n, "args": args}).encode())
"""


@pytest.mark.parametrize(
    "attack",
    [
        'os.write(out, b"\\x00\\x00")\nos._exit(0)',
        'os.write(out, struct.pack(">L", 100_000_000))\ntime.sleep(100)',
        'os.write(out, struct.pack(">L", 2**32 - 1))\ntime.sleep(100)',
        'frame(b"not json")\ntime.sleep(100)',
        'frame(b"[]")\ntime.sleep(100)',
        "frame(b'{\"verb\":' * 100_000)\ntime.sleep(100)",
        'frame(b\'{"a":1,"a":2}\')\ntime.sleep(100)',
        'frame(b\'{"verb":"quote","id":1,"args":{}}\')\ntime.sleep(100)',
        'frame(b\'{"verb":"exec","id":true,"args":{}}\')\ntime.sleep(100)',
        'frame(b\'{"verb":"exec","args":{}}\')\ntime.sleep(100)',
        'frame(b\'{"verb":"usage","args":{"n_input_tokens":-1}}\')\ntime.sleep(100)',
        'frame(b\'{"verb":"done"}\')\ntime.sleep(100)',
        "ask(7); ask(7)\ntime.sleep(100)",
        "[ask(n) for n in range(50)]\ntime.sleep(100)",
    ],
    ids=range(14),
)
def test_what_is_no_message_ends_the_agent_and_nothing_else(run_agent: RunAgent, attack: str) -> None:
    began = time.monotonic()
    ended = run_agent(body=OUT + attack)
    assert ended.reason in {Reason.AGENT_CHANNEL_BROKEN, Reason.AGENT_HOST_ENDED}, ended
    assert time.monotonic() - began < 30
    assert ended.seat.hosts == []


def test_a_forged_end_is_only_the_end(run_agent: RunAgent) -> None:
    """An agent may say that it is done; there is nothing it could say about its score."""
    ended = run_agent(
        body=OUT + 'frame(json.dumps({"verb":"done","args":{"reward":1,"score":1}}).encode())\ntime.sleep(100)'
    )
    assert ended.reason is Reason.AGENT_CHANNEL_BROKEN  # for the usage that is missing


def test_prints_never_reach_the_channel(run_agent: RunAgent) -> None:
    ended = run_agent(
        body="""
import struct, subprocess
for _ in range(50):
    os.write(1, struct.pack(">L", 5) + b"[1,2]")
    sys.stdout.buffer.write(bytes(range(256))); sys.stdout.flush()
subprocess.run(["sh", "-c", "echo from a child; echo x >&2; cat"])
print((await environment.exec("echo still here")).stdout)
"""
    )
    assert ended.error is None, ended
    assert "from a child" in ended.log
    assert "still here" in ended.log


def test_a_flood_of_output_is_cut_and_holds_nobody_up(run_agent: RunAgent) -> None:
    began = time.monotonic()
    ended = run_agent(
        body="""
for _ in range(80):
    os.write(2, b"x" * (1 << 20))
print((await environment.exec("echo still here")).stdout)
"""
    )
    assert ended.error is None, ended
    assert ended.log.rstrip().endswith("still here")
    assert len(ended.seat.log.kept) == 1 << 20
    assert ended.seat.log.size > 80 << 20
    assert time.monotonic() - began < 40


def test_a_flood_of_messages_is_slowed_down(run_agent: RunAgent) -> None:
    ended = run_agent(
        body=OUT
        + """
for n in range(2000):
    frame(b'{"verb":"usage","args":{"n_input_tokens":1,"n_cache_tokens":null,"n_output_tokens":null,"cost_usd":null}}')
"""
    )
    assert ended.error is None, ended


def test_an_agent_that_blocks_at_import_is_given_up(run_agent: RunAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LOAD_SEC", 2)
    for source in (
        "import time\ntime.sleep(1000)\nclass Agent: pass\n",
        "class Agent:\n    def __init__(self):\n        while True: pass\n",
    ):
        assert run_agent(source).reason is Reason.AGENT_LOAD_FAILED


STEADY = "while True: os.write(2, b'x' * 4096); time.sleep(0.001)"


def test_an_agent_that_prints_steadily_is_ended_all_the_same(
    run_agent: RunAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is always something to read, and never so much that reading pauses."""
    monkeypatch.setattr(host, "LOAD_SEC", 2)
    began = time.monotonic()
    assert run_agent(body=STEADY, seconds=3).reason is Reason.AGENT_TIMEOUT
    assert run_agent(f"import os, time\n{STEADY}\nclass Agent: pass\n").reason is Reason.AGENT_LOAD_FAILED
    assert time.monotonic() - began < 20


def test_the_host_has_nothing(run_agent: RunAgent) -> None:
    ended = run_agent(
        body="""
import glob, socket
def tried(name, what):
    try:
        what(); print(name, "WORKED")
    except BaseException as error:
        print(name, "failed", type(error).__name__)
status = open("/proc/self/status").read()
print([line.split() for line in status.splitlines() if line.startswith(("CapEff", "CapBnd", "NoNewPrivs", "Seccomp:"))])
print("ids", os.getuid(), os.getgid(), os.getgroups())
print("devices", sorted(os.listdir("/sys/class/net")))
tried("root", lambda: open("/x", "w"))
tried("etc", lambda: open("/etc/passwd", "a"))
tried("shm", lambda: open("/dev/shm/big", "wb").write(bytes(2 << 20)))
tried("outside", lambda: socket.create_connection(("1.1.1.1", 53), timeout=2))
tried("gateway", lambda: socket.create_connection(("172.17.0.1", 22), timeout=2))
tried("metadata", lambda: socket.create_connection(("169.254.169.254", 80), timeout=2))
tried("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).connect((2, 8090)))
tried("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("namespace", lambda: os.unshare(os.CLONE_NEWUSER))
tried("mount", lambda: os.listdir("/proc/1/root/../host"))
tried("setuid", lambda: os.setuid(0))
sockets = ["/var/run/docker.sock", "/run/docker.sock", "/var/run/dstack.sock", "/var/run/tappd.sock"]
for path in (*sockets, "/tests", "/solution", "/opt/agent-challenge"):
    print("exists", path, os.path.exists(path))
print("abstract", [line.split()[-1] for line in open("/proc/net/unix").read().splitlines()[1:] if "@" in line])
print("mine", sorted(name for name in os.listdir("/tmp")))
"""
    )
    assert ended.error is None, ended
    assert "WORKED" not in ended.log
    assert "['CapEff:', '0000000000000000']" in ended.log
    assert "['CapBnd:', '0000000000000000']" in ended.log
    assert "['NoNewPrivs:', '1']" in ended.log
    assert "['Seccomp:', '2']" in ended.log
    assert "ids 65534 65534" in ended.log
    assert "devices ['lo']" in ended.log
    assert "True" not in "".join(line for line in ended.log.splitlines() if line.startswith("exists"))
    assert "abstract []" in ended.log
    assert "mine ['agent', 'logs']" in ended.log


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("open('/tmp/x', 'wb').write(bytes(200 << 20))", "No space left"),
        ("[open(f'/tmp/{n}', 'w').close() for n in range(20_000)]", "No space left"),
        ("[os.fork() or time.sleep(100) for _ in range(500)]", "temporarily unavailable"),
    ],
)
def test_what_the_host_may_use_is_bounded(run_agent: RunAgent, body: str, words: str) -> None:
    ended = run_agent(body=body)
    assert ended.reason is Reason.AGENT_FAILED, ended
    assert words in str(ended.error)


def test_nothing_reaches_the_next_trial(run_agent: RunAgent, engine: Engine) -> None:
    first = run_agent(
        body="open('/tmp/left', 'w').write('x')\nopen('/dev/shm/left', 'w').write('x')\nprint(os.uname().nodename)"
    )
    second = run_agent(body="print('left:', os.path.exists('/tmp/left'), os.path.exists('/dev/shm/left'))")
    assert (first.error, second.error) == (None, None)
    assert "left: False False" in second.log
    names = [row["Names"][0] for row in engine.api.containers(all=True) if "agent" in row["Names"][0]]
    assert not any(first.seat.run_id in name for name in names)
