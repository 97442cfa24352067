#!/bin/bash
set -euo pipefail
cat > /app/fanout <<'E'
#!/usr/bin/python3 -I
"""fanout J COMMAND [ARG...] < LIST: runs one job per line, J at a time; output in order."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile

ATTEMPTS = 3


class Fanout:
    def __init__(self, slots, command, jobs):
        self.slots, self.command, self.jobs = slots, command, jobs
        self.running = {}  # pid -> (Popen, job number, attempt, output file)
        self.outputs = {}  # job number -> output file of the successful attempt
        self.limit = len(jobs) + 1  # the failed job; none behind it matters any more
        self.written = 0

    def start(self, number, attempt):
        while attempt <= ATTEMPTS:
            output = tempfile.TemporaryFile()
            environment = {**os.environb, b"FANOUT_JOB": b"%d" % number, b"FANOUT_ATTEMPT": b"%d" % attempt}
            try:
                process = subprocess.Popen(
                    [*self.command, self.jobs[number - 1]],
                    stdin=subprocess.DEVNULL, stdout=output, process_group=0, env=environment,
                )
            except OSError:
                output.close()
                attempt += 1
                continue
            self.running[process.pid] = (process, number, attempt, output)
            return
        self.fail(number)

    def fail(self, number):
        self.limit = min(self.limit, number)
        for pid, (_, running, _, _) in self.running.items():
            if running > self.limit:
                os.killpg(pid, signal.SIGKILL)

    def write(self):
        while self.written + 1 in self.outputs:
            self.written += 1
            output = self.outputs.pop(self.written)
            output.seek(0)
            shutil.copyfileobj(output, sys.stdout.buffer, 1 << 20)
            output.close()
        sys.stdout.buffer.flush()

    def reap(self):
        # The leader is looked at first and collected last: until then its group cannot become somebody else's.
        pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
        process, number, attempt, output = self.running[pid]
        os.killpg(pid, signal.SIGKILL)
        status = process.wait()
        del self.running[pid]
        if number > self.limit:
            output.close()
        elif status == 0:
            self.outputs[number] = output
            self.write()
        else:
            output.close()
            self.start(number, attempt + 1)

    def run(self):
        following = 1
        while True:
            while len(self.running) < self.slots and following < min(self.limit, len(self.jobs) + 1):
                self.start(following, 1)
                following += 1
            if not self.running:
                break
            self.reap()
        if self.limit > len(self.jobs):
            return 0
        print(f"fanout: job {self.limit} failed", file=sys.stderr)
        return 1

    def kill(self):
        for pid in self.running:
            os.killpg(pid, signal.SIGKILL)


def stop(_number, _frame):
    raise SystemExit(143)


def main():
    jobs = sys.stdin.buffer.read().split(b"\n")
    if jobs[-1] == b"":
        jobs.pop()
    fanout = Fanout(int(sys.argv[1]), [os.fsencode(word) for word in sys.argv[2:]], jobs)
    signal.signal(signal.SIGTERM, stop)
    try:
        return fanout.run()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        fanout.kill()


sys.exit(main())
E
chmod 755 /app/fanout
/app/fanout 2 /app/bin/census < /app/jobs.txt > /app/result.txt
