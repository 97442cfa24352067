"""Where the engine is looked for: DOCKER_HOST, then docker's contexts, then the usual sockets."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.engine_socket import DEFAULT, Address, answers, find_address

# SHA-256 of the names, as `printf colima | sha256sum` gives it
COLIMA = "f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16"
RUNNING = b"HTTP/1.0 200 OK\r\nApi-Version: 1.41\r\n\r\nOK"


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setattr("scripts.engine_socket.DEFAULT", tmp_path / "default.sock")


@contextmanager
def listening(place: Path, answer: bytes = RUNNING) -> Iterator[None]:
    """Something on a Unix socket that gives one answer to whoever asks, and closes."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(1)
                    if connection.recv(1024):
                        connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield
        server.shutdown(socket.SHUT_RDWR)


def write_context(folder: Path, host: str, *, current: str | None = "colima") -> None:
    meta = folder / "contexts" / "meta" / COLIMA
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": "colima", "Endpoints": {"docker": {"Host": host}}}))
    (folder / "config.json").write_text(json.dumps({"currentContext": current} if current else {}))


def test_docker_host_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_context(tmp_path / "home" / ".docker", "unix:///context.sock")
    monkeypatch.setenv("DOCKER_HOST", "tcp://somewhere:2375")
    assert find_address() == Address("tcp://somewhere:2375", "DOCKER_HOST")
    assert find_address().path is None


def test_the_current_context_comes_next(tmp_path: Path) -> None:
    write_context(tmp_path / "home" / ".docker", "unix:///home/me/.colima/default/docker.sock")
    found = find_address()
    assert found == Address("unix:///home/me/.colima/default/docker.sock", "the docker context 'colima'")
    assert found.path == Path("/home/me/.colima/default/docker.sock")


def test_a_context_may_be_chosen_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_context(tmp_path / "elsewhere", "ssh://me@there", current=None)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "elsewhere"))
    assert find_address().named_by == ""
    monkeypatch.setenv("DOCKER_CONTEXT", "colima")
    assert find_address() == Address("ssh://me@there", "the docker context 'colima'")


@pytest.mark.parametrize("current", ["default", "gone", "../../etc", None])
def test_a_context_without_an_address_is_passed_over(tmp_path: Path, current: str | None) -> None:
    write_context(tmp_path / "home" / ".docker", "unix:///context.sock", current=current)
    assert find_address() == Address(f"unix://{tmp_path}/default.sock")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(config=st.binary(max_size=60) | st.sampled_from([b"[]", b"3", b'{"currentContext":3}', b"\xff"]))
def test_no_configuration_crashes_it(tmp_path: Path, config: bytes) -> None:
    folder = tmp_path / "home" / ".docker"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_bytes(config)
    assert find_address().url == f"unix://{tmp_path}/default.sock"


def test_no_depth_crashes_it(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".docker"
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(b"[" * 100_000)
    assert find_address().named_by == ""


@pytest.mark.parametrize(
    "place",
    ["default.sock", "runtime/docker.sock", "home/.docker/run/docker.sock", "home/.colima/default/docker.sock"],
)
def test_the_first_usual_socket_that_listens(tmp_path: Path, place: str) -> None:
    (tmp_path / "default.sock").touch()  # left by an engine that is gone
    if place == "default.sock":
        (tmp_path / place).unlink()
    with listening(tmp_path / place):
        assert find_address() == Address(f"unix://{tmp_path / place}")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 500 oh\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b"\0" * 64])
def test_something_else_on_the_socket_is_no_engine(tmp_path: Path, answer: bytes) -> None:
    with listening(tmp_path / "x.sock", answer):
        assert not answers(tmp_path / "x.sock")


def test_nothing_on_the_socket_is_no_engine(tmp_path: Path) -> None:
    assert not answers(tmp_path / "none.sock")
    (tmp_path / "file.sock").touch()
    assert not answers(tmp_path / "file.sock")
    assert not answers(Path("/" + "x" * 200))


def test_one_that_answers_is_one(tmp_path: Path) -> None:
    with listening(tmp_path / "x.sock"):
        assert answers(tmp_path / "x.sock")


@pytest.mark.engine
def test_the_real_one_answers() -> None:
    assert answers(DEFAULT) or find_address().path != DEFAULT
