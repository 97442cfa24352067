"""Fixtures that tests of several rooms share: the real engine, and the project's own base image."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from guest.job.sweep import sweep_run
from guest.trial.container import ContainerSpec, create, start
from guest.trial.engine import Engine, connect
from guest.trial.holder import HolderImage
from image.base.ensure import ensure_base
from scripts.cache_dir import cache_dir
from tests.registry import FakeRegistry, Registry, fake_registry, running_registry

# A runner that was started in the background ignores Ctrl-C, and so would every program that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKOUT = Path(__file__).resolve().parent.parent
PACKS = CHECKOUT / "tests" / "packs"


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine of this machine; set-up has started it."""
    return connect()


@pytest.fixture(scope="session")
def base_image(engine: Engine) -> str:
    """The name of the base image, loaded."""
    return ensure_base(engine.api, cache_dir(), lambda _: None).ref


@pytest.fixture(scope="session")
def holder_image(base_image: str) -> HolderImage:
    """What holders run."""
    return HolderImage(base_image)


@pytest.fixture
def run_id(engine: Engine) -> Iterator[str]:
    """A run of its own for one test; whatever it left is removed afterwards."""
    name = f"test{secrets.token_hex(4)}"
    yield name
    sweep_run(engine, name)


@pytest.fixture
def stop() -> threading.Event:
    """A stop switch that nobody has set."""
    return threading.Event()


@pytest.fixture
def task_container(engine: Engine, base_image: str, run_id: str) -> str:
    """The id of a started container as a trial would have it, without network."""
    spec = ContainerSpec(
        name=f"evalguest-{run_id}-task", image=base_image, run_id=run_id, role="task", network="none", workdir="/tmp"
    )
    container_id, _ = create(engine, spec)
    start(engine, container_id)
    return container_id


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A real registry on this machine."""
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    """A registry that answers what a test tells it to."""
    with fake_registry() as running:
        yield running
