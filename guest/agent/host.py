"""The agent host: one sealed container a trial, in which a submitted agent runs and can do nothing but ask.

It has no network, no mounts, no sockets, no capabilities and nothing to write to but a directory in memory; its CPU
time counts in the slot of its trial. It lives for one agent phase, so nothing an agent learns reaches another trial.
"""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

from pydantic import ValidationError

from guest.agent.archive import AgentPackage
from guest.agent.channel import Channel
from guest.agent.requests import VERBS, UsageReport, answer
from guest.errors import EnvironmentFault, EvalguestError, Refused
from guest.reason import Reason
from guest.trial import container
from guest.trial.agent import Seat
from guest.trial.container import ContainerSpec
from guest.trial.engine import engine_call
from guest.trial.environment import Environment
from guest.trial.exec import close_stream, raw_socket
from guest.trial.probe import PROBE_PATH

MEMORY_BYTES = 512 << 20
SCRATCH_BYTES = 128 << 20
CPUS = 1.0
CONCURRENT = 8
IN_FLIGHT = 32
LOAD_SEC = 120
LAST_LOOKS = 4
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class HostImage:
    """The image agent hosts run: a Python 3 and the wheels that agents may use, nothing of ours and no task."""

    ref: str


class AgentHost:
    """A started agent host whose agent is loaded. Use `with`; leaving it removes the container."""

    def __init__(self, seat: Seat, image: HostImage, package: AgentPackage, *, env: Mapping[str, str]) -> None:
        """Describe the host; nothing happens before it is entered. `env` is what the agent finds set."""
        self._seat = seat
        self._image = image
        self._package = package
        self._env = dict(env)
        self._opened = ExitStack()
        self._messages: Iterator[dict[str, Any] | None] = iter(())
        self._channel: Channel
        self.container_id = ""
        self.usage: UsageReport | None = None

    def __enter__(self) -> Self:
        """Create and start the container, send the agent's files, wait until the agent is constructed.

        Raises EnvironmentFault(AGENT_HOST_UNAVAILABLE) for the container, nothing of the agent having run,
        Refused(AGENT_LOAD_FAILED) for an agent that cannot be loaded.
        """
        try:
            self._start_or_say_so()
            self._load()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the container and prove it."""
        self.close()

    def run(self, instruction: str, environment: Environment) -> None:
        """Let the agent act until it is done. Raises whatever ends the phase before that.

        Requests are served eight at a time; what still runs when the phase ends is ended with it.
        """
        probe = {"path": PROBE_PATH, "value": self._seat.probe} if self._seat.probe else None
        self._channel.send({"session_id": self._seat.trial_id, "instruction": instruction, "probe": probe})
        with ThreadPoolExecutor(CONCURRENT, thread_name_prefix="request") as pool:
            try:
                self._serve(environment, pool)
            finally:
                environment.close()
                self._kill()

    def close(self) -> None:
        """Remove the container. Raises EnvironmentFault when it cannot be removed."""
        try:
            if self.container_id:
                container.remove(self._seat.engine, self.container_id)
                self._seat.hosts.remove(self.container_id)
                self.container_id = ""
        finally:
            self._opened.close()

    def _start_or_say_so(self) -> None:
        try:
            self._start()
        except EvalguestError as error:
            raise EnvironmentFault(
                Reason.AGENT_HOST_UNAVAILABLE, f"the agent host could not be started: {error.message}", error.hint
            ) from error

    def _start(self) -> None:
        spec = ContainerSpec(
            name=f"evalguest-{self._seat.run_id}-{self._seat.trial_id}-agent",
            image=self._image.ref,
            run_id=self._seat.run_id,
            role="agent",
            network="none",
            command=("python3", "-B", "-c", (_HERE / "shim.py").read_text()),
            env={"HOME": "/tmp", "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"},  # noqa: S108
            cpus=CPUS,
            memory_bytes=MEMORY_BYTES,
            cgroup_parent=self._seat.cgroup_parent,
            open_stdin=True,
            sealed=True,
            scratch_bytes=SCRATCH_BYTES,
        )
        engine = self._seat.engine
        self.container_id, _ = container.create(engine, spec)
        self._seat.hosts.append(self.container_id)
        with engine_call("attach to an agent host"):
            stream = engine.api.attach_socket(
                self.container_id, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
            )
        self._opened.callback(close_stream, stream)
        self._channel = Channel(raw_socket(stream), self._seat.log)
        container.start(engine, self.container_id)
        self._messages = self._channel.receive()

    def _load(self) -> None:
        self._channel.send(
            {
                "env": self._env,
                "extra_env": {},
                "model_name": None,
                "harbor_names": (_HERE / "harbor_names.py").read_text(),
                "files": {
                    path: {"data": base64.b64encode(file.data).decode(), "executable": file.executable}
                    for path, file in self._package.files.items()
                },
            }
        )
        deadline = time.monotonic() + LOAD_SEC
        for message in self._messages:
            if message is None:
                if self._seat.stop.is_set():
                    raise Refused(Reason.INTERRUPTED, "stopped while an agent was loaded")
                if time.monotonic() > deadline:
                    raise Refused(Reason.AGENT_LOAD_FAILED, f"the agent was not constructed within {LOAD_SEC} s")
            elif message.get("verb") == "ready":
                return
            else:
                self._end(message)
        self._ended()

    def _serve(self, environment: Environment, pool: ThreadPoolExecutor) -> None:
        running: dict[Future[None], int] = {}
        for message in self._messages:
            environment.seconds_left()
            if self._seat.stop.is_set():
                raise Refused(Reason.INTERRUPTED, "stopped while an agent ran")
            for future in [future for future in running if future.done()]:
                running.pop(future)
                future.result()
            if message is None:
                continue
            verb = message.get("verb")
            number = message.get("id")
            if verb == "usage":
                self._take_usage(message.get("args"))
            elif verb in VERBS and isinstance(number, int) and not isinstance(number, bool):
                if number in running.values() or len(running) >= IN_FLIGHT:
                    self._break(f"has more than {IN_FLIGHT} requests under way, or two of one number")
                running[pool.submit(self._answer, environment, number, str(verb), message.get("args"))] = number
            elif self._end(message):
                return
        self._ended()

    def _answer(self, environment: Environment, number: int, verb: str, arguments: object) -> None:
        self._channel.send({"id": number, **answer(environment, verb, arguments)})

    def _end(self, message: Mapping[str, Any]) -> bool:
        """Take the agent's last message. Raises Refused for a failure, and for what is no message at all."""
        arguments = message.get("args")
        if message.get("verb") in {"done", "failed"}:
            # What it printed before may come after; the end of the stream follows at once.
            for _ in itertools.islice(self._messages, LAST_LOOKS):
                pass
        if message.get("verb") == "done" and isinstance(arguments, dict):
            self._take_usage(arguments.get("usage"))
            if isinstance(arguments.get("said"), str):
                self._seat.log.add(f"\n{arguments['said']}\n".encode(errors="backslashreplace"))
            return True
        if message.get("verb") == "failed" and isinstance(arguments, dict):
            words = str(arguments.get("error")).strip()
            self._seat.log.add(f"\n{words}\n".encode(errors="backslashreplace"))
            last = words.splitlines()[-1][:500] if words else "nothing said"
            if arguments.get("step") == "load":
                raise Refused(Reason.AGENT_LOAD_FAILED, f"the agent could not be constructed: {last}")
            raise Refused(Reason.AGENT_FAILED, f"the agent raised {last}")
        return self._break("sent a message of no known kind")

    def _take_usage(self, arguments: object) -> None:
        try:
            self.usage = UsageReport.model_validate(arguments)
        except ValidationError as error:
            raise Refused(Reason.AGENT_CHANNEL_BROKEN, "the agent host reported usage that is no numbers") from error

    def _ended(self) -> NoReturn:
        with engine_call("look at an agent host"):
            state = self._seat.engine.api.inspect_container(self.container_id)["State"]
        cause = "the kernel ended it for its memory" if state.get("OOMKilled") else f"exit code {state.get('ExitCode')}"
        raise Refused(Reason.AGENT_HOST_ENDED, f"the agent host ended before the agent was done ({cause})")

    def _break(self, what: str) -> NoReturn:
        raise Refused(Reason.AGENT_CHANNEL_BROKEN, f"the agent host {what}")

    def _kill(self) -> None:
        """End everything in the host at once; its removal follows."""
        try:
            with engine_call("kill an agent host"):
                self._seat.engine.api.kill(self.container_id)
        except EnvironmentFault as fault:
            # It ended by itself; `close` proves that it is gone.
            if getattr(fault.__cause__, "status_code", None) not in {404, 409}:
                raise
