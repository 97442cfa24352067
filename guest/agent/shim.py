"""What runs as PID 1 of an agent host; stdlib only, read as text and given to Python in that container.

It takes the agent's files from the channel, loads `agent.py`, constructs its class `Agent` and lets it run; what the
agent asks of its environment becomes a request on the channel. The channel is moved away from the standard streams
first, so that nothing the agent prints can get into it: prints land in the log. The end of the channel (the
orchestrator is gone) ends the program, and with it the container.
"""

import asyncio
import base64
import concurrent.futures
import importlib
import inspect
import itertools
import json
import logging
import os
import struct
import sys
import threading
import traceback
import types
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Never

Message = dict[str, Any]

AGENT_DIR = Path("/tmp/agent")
LOGS_DIR = Path("/tmp/logs")
LENGTH = struct.Struct(">L")
USAGE_SEC = 2
FIELDS = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")


class Channel:
    """Requests to the orchestrator and its answers; any thread may ask."""

    def __init__(self) -> None:
        """Move the channel away from the standard streams."""
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, concurrent.futures.Future[Message]] = {}

    def send(self, message: Message) -> None:
        """Write one message whole."""
        data = json.dumps(message, allow_nan=False).encode()
        view = memoryview(LENGTH.pack(len(data)) + data)
        with self._sending:
            while view:
                view = view[os.write(self._out, view) :]

    def receive(self) -> Message:
        """Read one message; the end of the channel ends this program."""
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        message: Message = json.loads(self._read(length))
        return message

    def answer_forever(self) -> Never:
        """Hand each answer to whoever waits for it."""
        while True:
            message = self.receive()
            waiting = self._waiting.pop(message["id"], None)
            if waiting is not None:
                waiting.set_result(message)

    def ask(self, verb: str, arguments: Message) -> concurrent.futures.Future[Message]:
        """Send a request and give the future of its answer."""
        future: concurrent.futures.Future[Message] = concurrent.futures.Future()
        number = next(self._numbers)
        self._waiting[number] = future
        self.send({"id": number, "verb": verb, "args": arguments})
        return future

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(self._in, min(size - len(data), 1 << 20))
            if not piece:
                os._exit(0)
            data += piece
        return bytes(data)


def result_of(message: Message) -> Message:
    """Give an answer's result, or raise what it says went wrong."""
    if "error" in message:
        kind = {"timeout": RuntimeError, "value": ValueError, "missing": FileNotFoundError}
        raise kind.get(message["error"], RuntimeError)(message["message"])
    result: Message = message["result"]
    return result


class Done:
    """A result that is there already; it may be awaited all the same."""

    def __await__(self) -> Generator[Any, None, None]:
        """Give nothing, at once."""
        yield from ()


class Environment:
    """The task container as the agent sees it, with the names and results of Harbor's environments."""

    def __init__(self, channel: Channel, session_id: str, exec_result: Any) -> None:
        """Offer the verbs of a channel; `exec_result` is the class of what `exec` gives."""
        self._channel = channel
        self._exec_result = exec_result
        self.session_id = self.environment_name = session_id
        self.default_user: str | int | None = None
        self.logger = logging.getLogger("environment")

    async def _ask(self, verb: str, **arguments: Any) -> Message:
        return result_of(await asyncio.wrap_future(self._channel.ask(verb, arguments)))

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: Mapping[str, Any] | None = None,
        timeout_sec: float | None = None,
        user: str | int | None = None,
    ) -> Any:
        """Run a command through bash; stderr is merged into stdout."""
        user = self.default_user if user is None else user
        result = await self._ask(
            "exec",
            command=command,
            cwd=None if cwd is None else str(cwd),
            env={name: str(value) for name, value in (env or {}).items()},
            timeout_sec=timeout_sec,
            user=None if user is None else str(user),
        )
        return self._exec_result(stdout=result["stdout"], stderr=None, return_code=result["return_code"])

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file of the agent host into the task container."""
        directory, _, name = str(target_path).rpartition("/")
        await self._ask("upload", target=directory or "/", files={name: packed(Path(source_path))})

    def upload_dir(self, source_dir: Path | str, target_dir: str) -> Done:
        """Copy a directory's regular files; works with and without await."""
        root = Path(source_dir)
        files = {
            path.relative_to(root).as_posix(): packed(path)
            for path in sorted(root.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }
        result_of(self._channel.ask("upload", {"target": str(target_dir), "files": files}).result())
        return Done()

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy one regular file out of the task container."""
        files = (await self._ask("download", path=str(source_path)))["files"]
        if "" not in files:
            raise FileNotFoundError(f"{source_path} is not a regular file")
        Path(target_path).write_bytes(base64.b64decode(files[""]))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy a directory's regular files out of the task container."""
        for name, data in (await self._ask("download", path=str(source_dir)))["files"].items():
            if name:
                target = Path(target_dir) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(base64.b64decode(data))

    async def is_dir(self, path: str, user: object = None) -> bool:  # noqa: ARG002 - Harbor's parameter
        """Say whether a path is a directory there."""
        return bool((await self._ask("is_dir", path=str(path)))["is"])

    async def is_file(self, path: str, user: object = None) -> bool:  # noqa: ARG002 - Harbor's parameter
        """Say whether a path is a regular file there."""
        return bool((await self._ask("is_file", path=str(path)))["is"])


def packed(path: Path) -> Message:
    """Give a file as a message carries it."""
    return {"data": base64.b64encode(path.read_bytes()).decode(), "executable": os.access(path, os.X_OK)}


def unpack(files: Mapping[str, Message]) -> None:
    """Lay the agent's files down."""
    for name, file in files.items():
        target = AGENT_DIR / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(base64.b64decode(file["data"]))
        target.chmod(0o755 if file["executable"] else 0o644)
    AGENT_DIR.mkdir(exist_ok=True)
    LOGS_DIR.mkdir(exist_ok=True)
    os.chdir(AGENT_DIR)
    sys.path.insert(0, str(AGENT_DIR))


def construct(start: Message) -> Any:
    """Load the module and construct the agent with those of the usual keywords that it takes."""
    agent_class = importlib.import_module("agent").Agent
    offered: Message = {
        "logs_dir": LOGS_DIR,
        "model_name": start["model_name"],
        "extra_env": dict(start["extra_env"]),
        "logger": logging.getLogger("agent"),
        "mcp_servers": [],
        "skills_dir": None,
    }
    parameters = inspect.signature(agent_class).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        offered = {name: value for name, value in offered.items() if name in named}
    return agent_class(**offered)


async def leave_probe(environment: Environment, probe: Message) -> None:
    """Write the probe where it is looked for, by a command like any other."""
    command = 'mkdir -p "${P%/*}" && printf %s "$V" > "$P"'
    await environment.exec(command, env={"P": probe["path"], "V": probe["value"]}, timeout_sec=30)


async def run(agent: Any, begin: Message, environment: Environment, context: Any) -> Any:
    """Leave the probe, run the agent's two steps, each awaited when it has to be; give what the second one says."""
    if begin["probe"]:
        await leave_probe(environment, begin["probe"])
    steps: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("setup", (environment,)),
        ("run", (begin["instruction"], environment, context)),
    )
    said = None
    for name, arguments in steps:
        if name == "run" or hasattr(agent, name):
            said = getattr(agent, name)(*arguments)
            if inspect.isawaitable(said):
                said = await said
    return said


def usage_of(context: Any) -> Message:
    """Give the numbers that a context carries."""
    numbers = {name: getattr(context, name, None) for name in FIELDS}
    return {
        name: value if isinstance(value, int | float) and not isinstance(value, bool) else None
        for name, value in numbers.items()
    }


def report_usage_forever(channel: Channel, context: Any) -> Never:
    """Tell the usage when it has changed, so that it is known of an agent that is cut off too."""
    told = usage_of(context)
    while True:
        threading.Event().wait(USAGE_SEC)
        now = usage_of(context)
        if now != told:
            channel.send({"verb": "usage", "args": now})
            told = now


def last_words(error: BaseException) -> str:
    """Give an error in words, its own frames first to go."""
    words = "".join(traceback.format_exception(error))
    return words[-20_000:].encode(errors="backslashreplace").decode()


def main() -> Never:
    """Serve one agent, from its files to its last word."""
    channel = Channel()
    start = channel.receive()
    os.environ.update(start["env"])
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    names = types.ModuleType("harbor_names")
    sys.modules["harbor_names"] = names
    exec(compile(start["harbor_names"], "harbor_names.py", "exec"), names.__dict__)  # noqa: S102 - our own text
    names.install(Environment)
    step = "load"
    try:
        unpack(start["files"])
        agent = construct(start)
        channel.send({"verb": "ready", "args": {}})
        begin = channel.receive()
        step = "run"
        threading.Thread(target=channel.answer_forever, daemon=True).start()
        environment = Environment(channel, begin["session_id"], names.ExecResult)
        context = names.AgentContext(env=dict(start["extra_env"]))
        threading.Thread(target=report_usage_forever, args=(channel, context), daemon=True).start()
        said = asyncio.run(run(agent, begin, environment, context))
        end: Message = {
            "verb": "done",
            "args": {"said": said if isinstance(said, str) else None, "usage": usage_of(context)},
        }
    except BaseException as error:  # noqa: BLE001 - whatever the agent raises is told, then this program ends
        end = {"verb": "failed", "args": {"step": step, "error": last_words(error)}}
    sys.stderr.flush()
    channel.send(end)
    # Not waiting for threads that the agent has left.
    os._exit(0)


if __name__ == "__main__":
    main()
