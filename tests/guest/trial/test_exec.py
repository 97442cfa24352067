import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from guest.errors import EnvironmentFault, Refused
from guest.reason import Reason
from guest.trial import exec as exec_module
from guest.trial.container import live_processes
from guest.trial.engine import Engine
from guest.trial.exec import run_exec

pytestmark = pytest.mark.engine


def test_output_and_exit_code(engine: Engine, task_container: str, stop: threading.Event) -> None:
    result = run_exec(
        engine,
        task_container,
        ["sh", "-c", 'echo out; echo err >&2; echo "$WORD $PWD"; exit 7'],
        seconds=20,
        stop=stop,
        env={"WORD": "a b"},
        workdir="/usr",
    )
    assert result.exit_code == 7
    assert sorted(result.output.decode().splitlines()) == ["a b /usr", "err", "out"]
    assert not result.truncated


def test_output_is_cut_at_the_cap(engine: Engine, task_container: str, stop: threading.Event) -> None:
    result = run_exec(
        engine, task_container, ["sh", "-c", "head -c 5000000 /dev/zero"], seconds=30, stop=stop, keep=1000
    )
    assert (result.exit_code, len(result.output), result.truncated) == (0, 1000, True)


def test_time_limit_kills_the_process_group(engine: Engine, task_container: str, stop: threading.Event) -> None:
    script = "trap '' TERM INT HUP; sleep 1000 & echo started; sleep 1000"
    result = run_exec(engine, task_container, ["sh", "-c", script], seconds=1, stop=stop, killable=True)
    assert result.exit_code is None
    assert result.output == b"started\n"
    assert live_processes(engine, task_container) == []


def test_without_killable_the_command_runs_on(engine: Engine, task_container: str, stop: threading.Event) -> None:
    assert run_exec(engine, task_container, ["sleep", "1000"], seconds=0.5, stop=stop).exit_code is None
    assert live_processes(engine, task_container) == ["sleep 1000"]


def test_the_pid_line_is_not_part_of_the_output(engine: Engine, task_container: str, stop: threading.Event) -> None:
    result = run_exec(engine, task_container, ["sh", "-c", "echo err >&2"], seconds=20, stop=stop, killable=True)
    assert result.output == b"err\n"


def test_a_child_that_holds_the_stream_open_is_not_waited_for(
    engine: Engine, task_container: str, stop: threading.Event
) -> None:
    began = time.monotonic()
    result = run_exec(
        engine, task_container, ["sh", "-c", "(while :; do echo x; sleep 0.1; done) & exit 3"], seconds=60, stop=stop
    )
    assert result.exit_code == 3
    assert time.monotonic() - began < 30


def test_stop_ends_the_wait(engine: Engine, task_container: str) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Refused) as caught:
        run_exec(engine, task_container, ["sleep", "1000"], seconds=60, stop=stop)
    assert caught.value.reason is Reason.INTERRUPTED


def test_unknown_user_and_missing_program_are_not_a_success(
    engine: Engine, task_container: str, stop: threading.Event
) -> None:
    missing = run_exec(engine, task_container, ["/no/such/program"], seconds=20, stop=stop)
    assert missing.exit_code in (126, 127)
    try:
        unknown = run_exec(engine, task_container, ["true"], user="nobody-here", seconds=20, stop=stop)
    except EnvironmentFault as fault:
        assert "nobody-here" in fault.message  # noqa: PT017 - engines differ in how they refuse
    else:
        assert unknown.exit_code != 0


def test_a_stopped_container_is_an_engine_fault(engine: Engine, task_container: str, stop: threading.Event) -> None:
    engine.api.kill(task_container)
    with pytest.raises(EnvironmentFault) as caught:
        run_exec(engine, task_container, ["true"], seconds=5, stop=stop)
    assert caught.value.reason is Reason.ENGINE_FAULT
    assert "not running" in caught.value.message


def test_last_words_are_not_lost_when_the_end_is_seen_first(
    engine: Engine, task_container: str, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking a hundred times as often as usual makes it likely that some end between the last read and the look."""
    monkeypatch.setattr(exec_module, "TICK_SEC", 0.001)

    def run(at: int) -> bytes:
        command = ["sh", "-c", f"sleep {0.3 + at / 500}; echo said"]
        return run_exec(engine, task_container, command, seconds=30, stop=stop).output

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(80))) == [b"said\n"] * 80
