"""`evalguest doctor`: what this machine can do, and how to mend what it cannot."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from guest.trial.engine import Engine

CHECKOUT = Path(__file__).resolve().parent.parent
_CANNOT_DRY_RUN = 3
_LITTLE_ROOM_BYTES = 5_000_000_000
_MAKE = "./scripts/dry-run"
_BASE_BUILD = "base build"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. A *note* narrows what can be done here, a *missing* thing forbids a dry run."""

    name: str
    state: Literal["ok", "note", "missing"]
    found: str
    mend: str = ""


def doctor(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False
) -> None:
    """Say what this machine can do, and how to mend what it cannot. Ends with 0 when it can dry-run, else with 3.

    Example: evalguest doctor --json
    """
    checks = examine()
    able = {
        "dry_run": all(check.state != "missing" for check in checks),
        "build_base_image": any(check.name == _BASE_BUILD and check.state == "ok" for check in checks),
    }
    if as_json:
        document = {"schema_version": 1, "can": able, "checks": [asdict(check) for check in checks]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            sys.stdout.write(f"{check.state:<7}  {check.name:<{width}}  {check.found}\n")
            if check.mend:
                sys.stdout.write(f"{'':<7}  {'':<{width}}  -> {check.mend}\n")
        words = {name: "yes" if able[name] else "no" for name in able}
        sys.stdout.write(f"\ndry run: {words['dry_run']}; build the base image: {words['build_base_image']}\n")
    if not able["dry_run"]:
        raise typer.Exit(_CANNOT_DRY_RUN)


def examine() -> list[Check]:
    """Look at everything. What is missing is what a check says, and raises nothing."""
    from scripts.cache_dir import cache_dir

    checks = [
        Check("checkout", "ok", str(CHECKOUT)),
        Check("python", "ok", f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"),
        _packages(),
    ]
    engine = _connect()
    build = _base_build(engine)
    if isinstance(engine, Check):
        checks.append(engine)
    else:
        checks += [_engine(engine), _resources(engine), _disk(engine), _cpu_time(engine), _base_image(engine, build)]
    return [*checks, _process_list(), build, _buildkit(), _cache(cache_dir())]


def _process_list() -> Check:
    there = shutil.which("ps")  # an engine lists a container's processes with it
    if there:
        return Check("process list", "ok", there)
    return Check("process list", "missing", "ps is not installed", "install it: sudo apt-get install procps")


def _packages() -> Check:
    from scripts.setup_venv import is_current

    if is_current(CHECKOUT):
        return Check("packages", "ok", "as requirements.lock names them")
    return Check("packages", "note", "not known to be those of requirements.lock", f"{_MAKE} installs them")


def _connect() -> Engine | Check:
    from guest.errors import EvalguestError
    from guest.trial.engine import connect
    from scripts.setup_machine import Step, gather, plan_engine

    try:
        step = plan_engine(gather())
        if step is not Step.USE:
            return Check("engine", "missing", "none answers", f"{_MAKE} does this: {step.value}")
        return connect()
    except EvalguestError as error:
        return Check("engine", "missing", error.message, error.hint)


def _engine(engine: Engine) -> Check:
    from guest.trial.engine import engine_address

    info = engine.info
    words = f"{info.version}, API {engine.api.api_version}, storage {info.storage_driver}, at {engine_address()}"
    return Check("engine", "ok", words)


def _resources(engine: Engine) -> Check:
    return Check("machine", "ok", f"{engine.info.cpus} CPUs, {engine.info.memory_bytes / 2**30:.1f} GiB of memory")


def _disk(engine: Engine) -> Check:
    root = engine.info.root_dir
    try:
        free = shutil.disk_usage(root).free
    except OSError:
        return Check("disk", "note", f"{root} cannot be read from here, so its free space is not known")
    words = f"{free / 1e9:.1f} GB free at {root}"
    if free < _LITTLE_ROOM_BYTES:
        return Check("disk", "note", words, "make room: task images are built there")
    return Check("disk", "ok", words)


def _cpu_time(engine: Engine) -> Check:
    from guest.trial.cgroup import SlotCgroup

    info = engine.info
    kind = f"cgroup v{info.cgroup_version}, driver {info.cgroup_driver}"
    source = SlotCgroup(engine, "evalguest_doctor").source
    if source == "stats":
        words = f"{kind}; its files cannot be read from here, so the engine's statistics are used: slow and coarse"
        return Check("CPU time", "note", words, "run on the machine that the engine runs on")
    return Check("CPU time", "ok", f"{kind}, read from the kernel's files")


def _base_image(engine: Engine, build: Check) -> Check:
    from image.base.ensure import find_base
    from image.base.lock import read_lock

    lock = read_lock()
    if find_base(engine.api, lock):
        return Check("base image", "ok", lock.ref)
    words = f"{lock.ref} is not in the engine"
    if build.state == "ok":
        return Check("base image", "note", words, f"{_MAKE} builds and loads it")
    return Check("base image", "missing", f"{words} and cannot be built here", build.found)


def _base_build(engine: Engine | Check) -> Check:
    from image.base.build import host_can_bootstrap

    if host_can_bootstrap():
        there = shutil.which("mmdebstrap")
        return Check(
            _BASE_BUILD, "ok", f"on this machine, {'mmdebstrap is installed' if there else 'installs mmdebstrap'}"
        )
    if not isinstance(engine, Check):
        return Check(_BASE_BUILD, "ok", "in a container, which needs a Debian image from a registry")
    return Check(_BASE_BUILD, "note", "needs root on an x86-64 Debian or Ubuntu, or an engine")


def _buildkit() -> Check:
    from image.buildkit import find_buildkit

    found = find_buildkit()
    if found:
        return Check("image builder", "ok", f"BuildKit, by {' '.join(found.command)}")
    words = "the classic builder only: Dockerfiles with RUN --mount, here-documents or # syntax= cannot be built"
    return Check("image builder", "note", words, "install the docker-buildx plugin, if a pack needs them")


def _cache(place: Path) -> Check:
    size = sum(file.lstat().st_size for file in place.rglob("*") if not file.is_dir())
    return Check("cache", "ok", f"{place}, {size / 1e6:.0f} MB")
