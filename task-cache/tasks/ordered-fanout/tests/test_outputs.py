"""Runs /app/fanout with jobs that wait for one another: what must be parallel deadlocks (and is given up) if it is not."""

import hashlib
import os
import random
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

FANOUT = "/app/fanout"
PATIENCE = 10  # seconds after which a job gives up waiting for another; nobody waits that long if all is well
NOBODY = 65534  # fanout runs as this user, who cannot write a verdict
PRELUDE = f"""
wait_for() {{
  local i
  [ -e gave.up ] && exit 9
  for ((i = 0; i < {PATIENCE * 50}; i++)); do [ -e "$1" ] && return 0; sleep 0.02; done
  touch gave.up
  exit 9
}}
"""


@pytest.fixture
def shop(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        os.chown(name, NOBODY, NOBODY)
        monkeypatch.chdir(name)
        yield Path(name)
        monkeypatch.chdir("/")


def job(shop, body):
    """A job script; its last argument is the line."""
    path = shop / "job"
    path.write_text("#!/bin/bash\n" + PRELUDE + body + "\n")
    path.chmod(0o755)
    return str(path)


def launch(slots, *command, lines=b""):
    source = Path("list")
    source.write_bytes(lines)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}
    with source.open("rb") as stdin:
        return subprocess.Popen(
            [FANOUT, str(slots), *command], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment, start_new_session=True, user=NOBODY, group=NOBODY, extra_groups=[],
        )


def finish(process, limit=2 * PATIENCE):
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail("does not end")
    return process.returncode, out, err


def run(slots, *command, lines=b""):
    return finish(launch(slots, *command, lines=lines))


def numbers(count):
    return b"".join(b"%d\n" % n for n in range(1, count + 1))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(path):
    """The process whose id the file holds is not there any more, or within a moment."""
    pid = int(Path(path).read_text())
    for _ in range(200):
        if not alive(pid):
            return True
        time.sleep(0.02)
    return False


def test_result():
    sieve = bytearray(b"\1") * 2_400_000
    base = 1_000_000_000
    for d in range(2, 31_700):
        if all(d % e for e in range(2, int(d**0.5) + 1)):
            first = -base % d
            sieve[first::d] = bytes(len(range(first, len(sieve), d)))
    wanted = ""
    for start in range(0, len(sieve), 100_000):
        primes = [base + n for n in range(start, start + 100_000) if sieve[n]]
        wanted += f"{base + start} {len(primes)} {sum(p % 10 for p in primes)}\n"
    assert Path("/app/result.txt").read_text() == wanted


def test_order(shop):
    rng = random.Random()
    delays = [rng.choice(["0", "0.01", "0.05"]) for _ in range(40)]
    command = job(shop, 'sleep $1; echo "$FANOUT_JOB begins"; sleep 0.01; echo "$FANOUT_JOB ends"')
    code, out, _ = run(4, command, lines="\n".join(delays).encode())
    assert code == 0
    assert out.decode().split("\n") == [f"{n} {w}" for n in range(1, 41) for w in ("begins", "ends")] + [""]


@pytest.mark.parametrize("slots", [2, 5])
def test_all_slots_are_used(shop, slots):
    others = "; ".join(f"wait_for here.{n}" for n in range(1, slots + 1))
    code, out, _ = run(slots, job(shop, f"touch here.$1; {others}; echo $1"), lines=numbers(slots))
    assert (code, out) == (0, numbers(slots))


def test_never_more_than_slots(shop):
    count = """
exec 9>>lock
flock 9; echo + >> trace; flock -u 9
sleep 0.03
flock 9; echo - >> trace; flock -u 9"""
    code, _, _ = run(3, job(shop, count), lines=numbers(30))
    assert code == 0
    level = peak = 0
    for sign in Path("trace").read_text().split():
        level += 1 if sign == "+" else -1
        peak = max(peak, level)
    assert peak <= 3


def test_one_job_at_a_time_with_one_slot(shop):
    code, _, _ = run(1, job(shop, 'mkdir alone || exit 1; sleep 0.02; rmdir alone; echo $1 >> began'), lines=numbers(10))
    assert code == 0
    assert Path("began").read_bytes() == numbers(10)


def test_free_slot_is_filled_at_once(shop):
    code, out, _ = run(2, job(shop, "[ $1 = 1 ] && wait_for did.6; touch did.$1; echo $1"), lines=numbers(7))
    assert (code, out) == (0, numbers(7))


def test_output_appears_as_soon_as_it_can(shop):
    process = launch(3, job(shop, "[ $1 = 2 ] && wait_for release; echo text $1; touch did.$1"), lines=numbers(4))
    try:
        got = b""
        while got != b"text 1\n":
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE / 2)
            assert ready, "the output of job 1 is held back"
            got += os.read(process.stdout.fileno(), 65536)
            assert len(got) <= len(b"text 1\n"), got
        for _ in range(500):
            if Path("did.4").exists():
                break
            time.sleep(0.02)
        assert Path("did.4").exists()
        assert select.select([process.stdout], [], [], 0.3)[0] == [], "output out of order"
    finally:
        Path("release").touch()
    code, out, _ = finish(process)
    assert (code, out) == (0, b"text 2\ntext 3\ntext 4\n")


def test_arguments_are_passed_as_they_are(shop):
    lines = [b"a b", b"", b"$HOME `id` *", b"'\"\\", b"-n", b"\xff\xfe \x80", b" lead and trail ", b"tab\there", b"last"]
    code, out, _ = run(3, job(shop, 'printf "<%s>" "$@"; printf "%s\\n" "$#"'), "one", "t w o", lines=b"\n".join(lines))
    assert code == 0
    assert out == b"".join(b"<one><t w o><%s>3\n" % line for line in lines)


def test_environment_input_and_errors_of_a_job(shop):
    body = 'cat; echo "$FANOUT_JOB $FANOUT_ATTEMPT $HOME"; echo "complaint $1" >&2; [ "$(ps -o pgid= -p $$ | tr -d " ")" = $$ ]'
    code, out, err = run(2, job(shop, body), lines=numbers(3))
    assert code == 0
    assert out == b"1 1 /nonexistent\n2 1 /nonexistent\n3 1 /nonexistent\n"
    assert sorted(err.split(b"\n")) == [b"", b"complaint 1", b"complaint 2", b"complaint 3"]


def test_retries(shop):
    body = """
echo "job $1 attempt $FANOUT_ATTEMPT"; echo x >> count.$1
case $1 in 2) [ $FANOUT_ATTEMPT = 3 ];; 4) [ $FANOUT_ATTEMPT = 2 ] || kill -9 $$;; 5) [ $FANOUT_ATTEMPT = 3 ] || exit 200;; esac"""
    code, out, _ = run(2, job(shop, body), lines=numbers(5))
    assert code == 0
    want = [(1, 1), (2, 3), (3, 1), (4, 2), (5, 3)]
    assert out.decode() == "".join(f"job {n} attempt {a}\n" for n, a in want)
    assert [len(Path(f"count.{n}").read_text().split()) for n, _ in want] == [a for _, a in want]


def test_retry_comes_before_the_next_job(shop):
    body = 'echo "$1 $FANOUT_ATTEMPT" >> trace; [ $1 != 2 ] || [ $FANOUT_ATTEMPT = 3 ]'
    code, _, _ = run(1, job(shop, body), lines=numbers(3))
    assert code == 0
    assert Path("trace").read_text() == "1 1\n2 1\n2 2\n2 3\n3 1\n"


def test_failed_job_stops_those_behind_it(shop):
    body = """
echo "text $1"; echo x >> count.$1
case $1 in
  1) wait_for third; sleep 0.3;;
  3) wait_for four; [ $FANOUT_ATTEMPT = 3 ] && touch third; exit 1;;
  4) sleep 1000 & echo $! > grandchild; echo $$ > child; touch four; wait; echo late;;
esac"""
    code, out, err = run(3, job(shop, body), lines=numbers(9))
    assert (code, out) == (1, b"text 1\ntext 2\n")
    assert b"fanout: job 3 failed" in err.split(b"\n")
    assert len(Path("count.3").read_text().split()) == 3
    assert gone("child") and gone("grandchild")
    assert not [n for n in range(5, 10) if Path(f"count.{n}").exists()]


def test_earlier_failure_takes_the_place(shop):
    body = """
echo x >> count.$1
case $1 in
  2) echo "text 2"; [ $FANOUT_ATTEMPT = 1 ] && wait_for second; exit 3;;
  3) wait_for did.1; [ $FANOUT_ATTEMPT = 3 ] && touch second; exit 4;;
esac
touch did.$1; echo "text $1" """
    code, out, err = run(2, job(shop, body), lines=numbers(6))
    assert (code, out) == (1, b"text 1\n")
    assert [line for line in err.split(b"\n") if line.startswith(b"fanout: job")] == [b"fanout: job 2 failed"]
    assert [len(Path(f"count.{n}").read_text().split()) for n in (2, 3)] == [3, 3]
    assert not Path("count.4").exists()


def test_command_that_does_not_exist(shop):
    code, out, err = run(2, str(shop / "missing"), lines=numbers(3))
    assert (code, out) == (1, b"")
    assert b"fanout: job 1 failed" in err.split(b"\n")


def test_leftovers_are_not_waited_for(shop):
    code, out, _ = run(2, job(shop, "sleep 1000 & echo $! > left.$1; echo $1"), lines=numbers(3))
    assert (code, out) == (0, numbers(3))
    assert all(gone(f"left.{n}") for n in (1, 2, 3))


def test_term(shop):
    body = "sleep 1000 & echo $! > grandchild.$1; echo $$ > child.$1; touch up.$1; wait"
    process = launch(2, job(shop, body), lines=numbers(4))
    for _ in range(500):
        if Path("up.1").exists() and Path("up.2").exists():
            break
        time.sleep(0.02)
    assert Path("up.1").exists() and Path("up.2").exists()
    process.send_signal(signal.SIGTERM)
    code, out, _ = finish(process)
    assert code in (143, -signal.SIGTERM)
    assert out == b""
    assert all(gone(f"{what}.{n}") for what in ("child", "grandchild") for n in (1, 2))
    assert not Path("up.3").exists()


def test_large_output(shop):
    size = 48 << 20
    body = f"head -c {size} /dev/zero | tr '\\0' $1"
    process = launch(2, job(shop, body), lines=b"a\nb\n")
    digest, length = hashlib.sha256(), 0
    while block := process.stdout.read(1 << 20):
        digest.update(block)
        length += len(block)
    code, _, _ = finish(process)
    assert (code, length) == (0, 2 * size)
    assert digest.digest() == hashlib.sha256(b"a" * size + b"b" * size).digest()


def test_empty_list(shop):
    assert run(2, job(shop, "echo $1"))[:2] == (0, b"")
