"""No process of the agent lives on into the verifier phase of an isolated task, however it hides or holds out."""

from __future__ import annotations

import platform
from contextlib import suppress

import pytest

from guest.reason import Reason
from guest.trial.cgroup import SlotCgroup
from guest.trial.environment import CommandTimeout, Environment
from guest.trial.outcome import INFRASTRUCTURE, Outcome
from tests.adversarial.agents import REWRITE, SLOW_ZERO, Attack, compiled
from tests.guest.trial.conftest import RunTrial
from tests.tasks_made import make_task

pytestmark = pytest.mark.engine

DAEMON = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void forge(void) {
    int file = open("/logs/forged", O_WRONLY | O_CREAT, 0644);
    write(file, "1", 1);
    close(file);
    rename("/logs/forged", "/logs/verifier/reward.txt");
}
static void *forge_on(void *_) { for (;;) { forge(); usleep(1000); } }
static void detach(void) { if (fork()) _exit(0); setsid(); close(0); close(1); close(2); }
"""
DEAD_LEADER = DAEMON + "int main() { pthread_t t; detach(); pthread_create(&t, 0, forge_on, 0); syscall(SYS_exit, 0); }"
# Lives 4 ms under each process id, 900 times: a list of ids is out of date before anybody asks about them.
HOPPER = (
    DAEMON + "int main() { detach(); for (int i = 0; i < 900; i++) { forge(); usleep(4000); if (fork()) _exit(0); } }"
)
STOPPED = (
    DAEMON
    + r"""
int main() {
    detach();
    int child = fork();
    if (!child) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); forge_on(0); }
    waitpid(child, 0, 0);
    kill(getpid(), SIGSTOP);
    forge_on(0);
}"""
)
RENAMED = DAEMON + 'int main(int c, char **v) { detach(); prctl(PR_SET_NAME, "\n) Z 1"); v[0][0] = 0; forge_on(0); }'
# The parent of vfork() waits where no signal but KILL reaches it.
UNINTERRUPTIBLE = DAEMON + "int main() { detach(); signal(SIGTERM, SIG_IGN); if (!vfork()) { for (;;) forge(); } }"
RACER = (
    DAEMON
    + "int main() { detach(); for (int i = 0; i < 3; i++) fork(); for (;;) { usleep(20000); if (fork()) _exit(0); } }"
)


@pytest.fixture(params=["kernel's list", "engine's list"])
def listing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Prove it by the kernel's own list, and by the engine's where the kernel's is hidden."""
    if request.param == "engine's list":
        monkeypatch.setattr(SlotCgroup, "process_count", lambda *_: None)
    return str(request.param)


@pytest.mark.usefixtures("listing")
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(DEAD_LEADER, id="dead-leader"),
        pytest.param(HOPPER, id="hopper"),
        pytest.param(STOPPED, id="stopped-and-traced"),
        pytest.param(RENAMED, id="renamed"),
        pytest.param(UNINTERRUPTIBLE, id="uninterruptible"),
    ],
)
def test_a_hidden_daemon_forges_nothing(run_trial: RunTrial, source: str) -> None:
    record = run_trial(SLOW_ZERO, compiled(source, "/z; sleep 0.1"))
    assert (record.outcome, record.reward, record.reason_code) == (Outcome.FAILED, 0.0, None), record.message


EXHAUSTER = DAEMON + "int main() { detach(); while (fork() >= 0); for (;;) { forge(); usleep(9000); } }"


def test_a_container_out_of_processes_still_lets_the_kill_start(run_trial: RunTrial) -> None:
    record = run_trial(SLOW_ZERO, compiled(EXHAUSTER, "/z; sleep 0.1"), verifier_wall_sec=1.0)
    assert record.reward == 0.0
    assert record.reason_code is not Reason.AGENT_LEFT_PROCESSES
    assert record.outcome not in INFRASTRUCTURE, record.message


def test_a_fork_race_with_the_kill_forges_nothing(run_trial: RunTrial) -> None:
    record = run_trial(SLOW_ZERO, compiled(RACER, "/z; sleep 0.1"))
    assert (record.outcome, record.reward, record.reason_code) == (Outcome.FAILED, 0.0, None), record.message


def test_a_command_given_up_at_once_does_not_start_later(run_trial: RunTrial) -> None:
    """The engine takes some 30 ms to start a command: long enough for a kill before, were it not waited for."""

    def act(environment: Environment) -> None:
        with suppress(CommandTimeout):
            environment.exec(REWRITE, timeout_sec=0.0001)

    for _ in range(2):
        record = run_trial(SLOW_ZERO, Attack(act))
        assert (record.outcome, record.reward, record.reason_code) == (Outcome.FAILED, 0.0, None)


@pytest.mark.usefixtures("listing")
@pytest.mark.parametrize("source", [pytest.param(DEAD_LEADER, id="dead-leader"), pytest.param(HOPPER, id="hopper")])
def test_a_shell_that_kills_nobody_is_no_help(run_trial: RunTrial, source: str) -> None:
    sabotage = "/z; ln -sf /bin/true /bin/sh; sleep 0.05"
    record = run_trial(SLOW_ZERO, compiled(source, sabotage))
    assert (record.outcome, record.reward, record.reason_code) == (
        Outcome.AGENT_ERROR,
        0.0,
        Reason.AGENT_LEFT_PROCESSES,
    )


@pytest.mark.parametrize(
    "sabotage",
    [
        "rm -f /bin/sh",
        "printf 'no program' > /x; chmod 755 /x; mv /x /bin/sh",
        "mkdir /d; mv /bin/sh /d/; mkdir /bin/sh",
    ],
)
def test_without_a_shell_a_daemon_is_found(run_trial: RunTrial, sabotage: str) -> None:
    record = run_trial(SLOW_ZERO, Attack(lambda e: e.exec(f"({REWRITE}) >/dev/null 2>&1 & {sabotage}")))
    assert record.reward == 0.0
    assert (record.outcome, record.reason_code) == (Outcome.AGENT_ERROR, Reason.AGENT_LEFT_PROCESSES), record.message


# Each line says one thing that must not work; what does is printed.
ESCAPES = r"""
import ctypes, glob, os, signal, socket, time
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno())
def write(path, text):
    with open(path, "w") as file: file.write(text)
def end_pid_1():
    for number in range(1, 65):
        if number not in (32, 33): os.kill(1, number)
    time.sleep(0.1)
    if "S (sleeping)" in open("/proc/1/status").read(): raise OSError
groups = glob.glob("/sys/fs/cgroup/*/") + ["/sys/fs/cgroup/unified/", "/proc/1/root/sys/fs/cgroup/cpuacct/"]
for name, act in {
    "user namespace": lambda: call(272, 0x10000000),
    "pid namespace": lambda: call(272, 0x20000000),
    "mount namespace": lambda: call(272, 0x20000),
    "network namespace": lambda: call(272, 0x40000000),
    "cgroup namespace": lambda: call(272, 0x2000000),
    "clone3 of a namespace": lambda: call(435, ctypes.byref((ctypes.c_uint64 * 8)(0x10000000)), 64),
    "tmpfs": lambda: call(165, b"none", b"/logs", b"tmpfs", 0, 0),
    "bind mount": lambda: call(165, b"/etc", b"/logs", 0, 4096, 0),
    "unmount": lambda: call(166, b"/etc/hosts", 2),
    "keyring": lambda: call(250, 0, -4, 1),
    "key": lambda: call(248, b"user", b"k", b"v", 1, -4),
    "bpf": lambda: call(321, 0, ctypes.byref((ctypes.c_uint32 * 30)(1, 4, 8, 1)), 72),
    "kernel log": lambda: call(103, 10, 0, 0),
    "raw socket": lambda: socket.socket(2, 3, 1),
    "packet socket": lambda: socket.socket(17, 3, 0),
    "vsock": lambda: socket.socket(40, 1, 0).connect((2, 1024)),
    "device": lambda: os.mknod("/tmp/d", 0o60600, os.makedev(8, 0)),
    "capability of a file": lambda: os.setxattr("/bin/sh", "security.capability", bytes(20)),
    "sysctl": lambda: write("/proc/sys/net/ipv4/ip_forward", "1"),
    "core pattern": lambda: write("/proc/sys/kernel/core_pattern", "|/x"),
    "host name": lambda: socket.sethostname("x"),
    "rates": lambda: [write(group + "cpu.cfs_quota_us", "-1") for group in groups if "/cpu/" in group][0],
    "counter": lambda: write("/sys/fs/cgroup/cpuacct/cpuacct.usage", "0"),
    "end of PID 1": end_pid_1,
    **{"group in " + group: lambda group=group: os.mkdir(group + "x") for group in groups},
}.items():
    try:
        act()
        print(name)
    except (OSError, IndexError):
        pass
print("done")
"""


def test_the_container_gives_no_means_of_escape(run_trial: RunTrial) -> None:
    agent = Attack(lambda e: e.exec('python3 -c "$PROGRAM"', env={"PROGRAM": ESCAPES}).stdout)
    record = run_trial(SLOW_ZERO, agent)
    assert agent.saw == "done\n"
    assert (record.outcome, record.reward) == (Outcome.FAILED, 0.0)


TRACER = r"""
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
extern char start[], end[];
/* open, write 1, close, sleep 1 ms, again */
asm("start: 1: mov $257,%eax\n mov $-100,%edi\n lea path(%rip),%rsi\n mov $0x201,%edx\n xor %r10d,%r10d\n"
    "syscall\n test %eax,%eax\n js 2f\n mov %eax,%ebx\n"
    "mov %ebx,%edi\n lea one(%rip),%rsi\n mov $1,%edx\n mov $1,%eax\n syscall\n"
    "mov %ebx,%edi\n mov $3,%eax\n syscall\n"
    "2: lea ts(%rip),%rdi\n xor %esi,%esi\n mov $35,%eax\n syscall\n jmp 1b\n"
    "ts: .quad 0\n .quad 1000000\npath: .asciz \"/logs/verifier/reward.txt\"\none: .ascii \"1\"\n .balign 8\nend:\n");
int main() {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_ATTACH, 1, 0, 0)) return puts("refused");
    waitpid(1, 0, 0);
    ptrace(PTRACE_GETREGS, 1, 0, &registers);
    registers.rip &= ~0xfffUL;
    for (char *at = start; at < end; at += 8) ptrace(PTRACE_POKETEXT, 1, registers.rip + (at - start), *(long *)at);
    registers.orig_rax = -1;
    ptrace(PTRACE_SETREGS, 1, 0, &registers);
    ptrace(PTRACE_DETACH, 1, 0, 0);
    puts("inside");
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code")
def test_code_put_into_pid_1_is_found(run_trial: RunTrial) -> None:
    agent = compiled(TRACER)
    record = run_trial(SLOW_ZERO, agent)
    assert record.reward == 0.0
    if agent.saw.startswith("inside"):  # a kernel with Yama may refuse it
        assert (record.outcome, record.reason_code) == (Outcome.AGENT_ERROR, Reason.AGENT_LEFT_PROCESSES)


def test_pid_1_sleeps_on_through_an_honest_trial(run_trial: RunTrial) -> None:
    noise = "for signal in TERM HUP CHLD CONT STOP; do kill -$signal 1; done; for i in 1 2 3; do (setsid true &); done"
    task = make_task(
        test=f"{noise}; ps ax; cat /proc/1/status; kill -9 -1; sleep 0.1; echo 1 > /logs/verifier/reward.txt"
    )
    record = run_trial(task, Attack(lambda e: e.exec(f"{noise}; kill -9 -1")))
    assert record.reason_code is Reason.REWARD_MISSING, "the test has killed itself"
    quiet = make_task(test=f"{noise}; ps ax; cat /proc/1/status; sleep 0.1; echo 1 > /logs/verifier/reward.txt")
    assert run_trial(quiet, Attack(lambda e: e.exec(f"{noise}; kill -9 -1"))).outcome is Outcome.PASSED
