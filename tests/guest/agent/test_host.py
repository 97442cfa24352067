"""What a submitted agent finds: its constructor, its environment, Harbor's names, and nothing else."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from guest.reason import Reason
from guest.trial.agent import Seat
from guest.trial.engine import Engine
from tests.guest.agent.conftest import RunAgent

pytestmark = pytest.mark.engine

RUN = "    async def run(self, instruction, environment, context):\n        print('ran', instruction)\n"
HARBOR = '''
from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.agent.context import AgentContext


class Agent(BaseAgent):
    """Written against Harbor, and unchanged."""

    @staticmethod
    def name() -> str:
        return "mine"

    def version(self) -> str | None:
        return "1.0"

    async def setup(self, environment: BaseEnvironment) -> None:
        await environment.exec("mkdir -p /srv/w")

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        result: ExecResult = await environment.exec("echo $A; pwd", cwd="/srv/w", env={"A": "x"}, timeout_sec=9)
        self.logger.info("said %r, %s", result.stdout, isinstance(environment, BaseEnvironment))
        context.n_input_tokens = 12
        context.cost_usd = 0.5
        context.metadata = {"a": 1}
'''


@pytest.mark.parametrize(
    "constructor",
    [
        "    pass\n",
        "    def __init__(self): pass\n",
        "    def __init__(self, logs_dir): print(logs_dir)\n",
        "    def __init__(self, logs_dir, model_name=None, extra_env=None): assert extra_env == {}\n",
        "    def __init__(self, logs_dir, model_name, **rest): assert set(rest) >= {'logger', 'mcp_servers'}\n",
        "    def __init__(self, *, logger, mcp_servers, skills_dir): logger.info('made')\n",
    ],
)
def test_constructors_of_both_forms(run_agent: RunAgent, constructor: str) -> None:
    ended = run_agent("class Agent:\n" + constructor + RUN)
    assert (ended.error, "ran Do it." in ended.log) == (None, True), ended


def test_a_subclass_of_harbor_s_base_agent_runs_unchanged(run_agent: RunAgent) -> None:
    ended = run_agent(HARBOR)
    assert ended.error is None
    assert "said 'x\\n/srv/w\\n', True" in ended.log
    assert ended.usage is not None
    assert ended.usage.model_dump() == {
        "n_input_tokens": 12,
        "n_cache_tokens": None,
        "n_output_tokens": None,
        "cost_usd": 0.5,
    }


def test_plain_functions_are_agents_too_and_what_they_return_is_logged(run_agent: RunAgent) -> None:
    source = "class Agent:\n    def run(self, instruction, environment, context):\n        return 'the \\u00e9nd'\n"
    ended = run_agent(source)
    assert (ended.error, "the énd" in ended.log) == (None, True)


def test_modules_beside_it_and_files_can_be_used(run_agent: RunAgent) -> None:
    source = (
        "from lib.util import f\nclass Agent:\n    def run(self, *_):\n        print(f(), open('data.txt').read())\n"
    )
    files = {"lib/__init__.py": b"", "lib/util.py": b"def f(): return 7\n", "data.txt": b"data"}
    ended = run_agent(source, files=files)
    assert (ended.error, "7 data" in ended.log) == (None, True), ended


def test_what_exec_gives(run_agent: RunAgent) -> None:
    ended = run_agent(
        body="""
r = await environment.exec("echo out; echo err >&2; exit 3")
print(r.return_code, r.stderr, sorted(r.stdout.split()))
print((await environment.exec("true")).stdout)
print(repr((await environment.exec("printf 'a\\\\377b'")).stdout))
print((await environment.exec("id -un", user="nobody")).stdout)
print(len((await environment.exec("head -c 3000000 /dev/zero | tr '\\\\0' x")).stdout))
try:
    await environment.exec("sleep 100", timeout_sec=0.5)
except RuntimeError as error:
    print("late:", error)
try:
    await environment.exec("true", timeout=5)
except TypeError as error:
    print("type error")
"""
    )
    assert ended.error is None, ended
    words = ended.log
    assert "3 None ['err', 'out']" in words
    assert "\nNone\n" in words
    assert "'a\\ufffdb'" in words or "'a\ufffdb'" in words
    assert "nobody" in words
    assert "10486" in words  # a MiB, and the line that says it was cut
    assert "late: the command did not end within 0.5 s and was killed" in words
    assert "type error" in words


def test_commands_run_side_by_side(run_agent: RunAgent) -> None:
    ended = run_agent(
        body="""
start = time.monotonic()
results = await asyncio.gather(*[environment.exec(f"sleep 1; echo {n}") for n in range(6)])
print([r.stdout.strip() for r in results], time.monotonic() - start < 4)
"""
    )
    assert "['0', '1', '2', '3', '4', '5'] True" in ended.log, ended


def test_files_go_both_ways(run_agent: RunAgent) -> None:
    ended = run_agent(
        body="""
os.makedirs("/tmp/up/sub")
open("/tmp/up/a", "wb").write(bytes(range(256)) * 100)
open("/tmp/up/sub/b.sh", "w").write("#!/bin/sh\\necho ran\\n")
os.chmod("/tmp/up/sub/b.sh", 0o755)
os.symlink("/etc/passwd", "/tmp/up/link")
environment.upload_dir("/tmp/up", "/srv/w/dir")
await environment.upload_dir("/tmp/up", "/srv/w/again")
await environment.upload_file("/tmp/up/a", "/srv/w/one")
print((await environment.exec("/srv/w/dir/sub/b.sh; ls /srv/w/again; stat -c %s /srv/w/one")).stdout.split())
await environment.download_dir("/srv/w/dir", "/tmp/down")
await environment.download_file("/srv/w/one", "/tmp/one")
print(open("/tmp/one", "rb").read() == open("/tmp/down/a", "rb").read() == bytes(range(256)) * 100)
print(await environment.is_dir("/srv/w"), await environment.is_file("/srv/w"), await environment.is_file("/srv/w/one"))
for path in ("/srv/w/dir", "/etc/nothing"):
    try:
        await environment.download_file(path, "/tmp/x")
    except (FileNotFoundError, ValueError, RuntimeError) as error:
        print("no file:", type(error).__name__)
"""
    )
    assert ended.error is None, ended
    assert "['ran', 'a', 'sub', '25600']" in ended.log
    assert "True\nTrue False True\nno file: FileNotFoundError" in ended.log


@pytest.mark.parametrize(
    "call",
    [
        'environment.exec("true", cwd="relative")',
        'environment.exec("true", cwd="/a/../b")',
        'environment.exec("true", env={"LD_PRELOAD": "/x"})',
        'environment.exec("true", env={"https_proxy": "x"})',
        'environment.exec("true", env={"A=B": "x"})',
        'environment.exec("true", user="root; id")',
        'environment.exec("true", timeout_sec=0)',
        'environment.exec("true", timeout_sec=float("inf"))',
        'environment.exec("x" * 1_100_000)',
        "environment.exec(7)",
        'environment.upload_file("/tmp/agent/agent.py", "relative/path")',
        'environment.upload_file("/tmp/agent/agent.py", "/a/../../b")',
        'environment.download_file("/proc/../x", "/tmp/x")',
        'environment.is_dir("x")',
    ],
)
def test_requests_out_of_form_are_answered_and_not_done(run_agent: RunAgent, call: str) -> None:
    ended = run_agent(
        body=f"""
try:
    await {call}
    print("done")
except ValueError as error:
    print("refused:", error)
print((await environment.exec("echo still here")).stdout)
"""
    )
    assert ended.error is None, ended
    assert "refused:" in ended.log
    assert "still here" in ended.log


# --- agents that cannot be loaded, and ends of other kinds


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise OSError('at import')\nclass Agent: pass\n", "OSError: at import"),
        ("import nothing_of_that_name\nclass Agent: pass\n", "No module named 'nothing_of_that_name'"),
        ("class Agent:\n    def __init__(self): raise ValueError('no')\n", "ValueError: no"),
        ("class Agent:\n    def __init__(self, needed): pass\n", "needed"),
        ("import sys\nsys.exit('bye')\nclass Agent: pass\n", "SystemExit: bye"),
        ("x = 1\n", "has no attribute 'Agent'"),
        ("from harbor.llms.chat import Chat\nclass Agent: pass\n", "harbor.llms"),
    ],
)
def test_agents_that_cannot_be_constructed(run_agent: RunAgent, source: str, words: str) -> None:
    ended = run_agent(source)
    assert ended.reason is Reason.AGENT_LOAD_FAILED
    assert words in str(ended.error)
    assert words in ended.log


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        ("raise KeyError('what')", Reason.AGENT_FAILED, "KeyError: 'what'"),
        ("sys.exit(3)", Reason.AGENT_FAILED, "SystemExit: 3"),
        ("await environment.nothing()", Reason.AGENT_FAILED, "no attribute 'nothing'"),
        ("os._exit(0)", Reason.AGENT_HOST_ENDED, "exit code 0"),
        ("import ctypes; ctypes.string_at(0)", Reason.AGENT_HOST_ENDED, "exit code"),
        ("x = [bytes(1 << 20) + bytes([n % 7]) for n in range(4096)]", Reason.AGENT_HOST_ENDED, "memory"),
    ],
)
def test_agents_that_break_off(run_agent: RunAgent, body: str, reason: Reason, words: str) -> None:
    ended = run_agent(body=body)
    assert ended.reason is reason, ended
    assert words in str(ended.error)


def test_the_end_does_not_wait_for_threads_nor_for_commands_left_running(
    run_agent: RunAgent, engine: Engine, task_container: str
) -> None:
    ended = run_agent(
        body="""
import threading
threading.Thread(target=time.sleep, args=(1000,)).start()
task = asyncio.ensure_future(environment.exec("exec sleep 1000.5"))
await asyncio.sleep(1)
print("leaving")
"""
    )
    assert ended.error is None, ended
    assert "leaving" in ended.log
    processes: Any = engine.api.top(task_container, "-eo pid,args")["Processes"]
    assert not any("1000.5" in row[-1] for row in processes)
    assert ended.seat.hosts == []


def test_a_phase_that_is_over_ends_the_agent(run_agent: RunAgent) -> None:
    ended = run_agent(body="print('begun', flush=True)\nawait asyncio.sleep(1000)", seconds=2)
    assert ended.reason is Reason.AGENT_TIMEOUT
    assert "begun" in ended.log


def test_an_agent_that_blocks_its_own_loop_is_ended_alike(run_agent: RunAgent) -> None:
    assert run_agent(body="time.sleep(1000)", seconds=2).reason is Reason.AGENT_TIMEOUT


def test_a_stopped_job_ends_the_agent(run_agent: RunAgent, seat: Seat) -> None:
    threading.Timer(2, seat.stop.set).start()
    assert run_agent(body="await asyncio.sleep(1000)").reason is Reason.INTERRUPTED
