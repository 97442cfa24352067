"""Running mmdebstrap in a container, for machines where it does not run by itself."""

from __future__ import annotations

import io
import secrets
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound

from guest.errors import EnvironmentFault
from guest.reason import Reason
from guest.trial.engine import engine_call
from image.base.build import build_environment, mmdebstrap_command
from image.base.lock import BaseLock

BUILDER_IMAGE = "debian:trixie-slim"

_PLACE = "/build"
_TEMPORARY = f"{_PLACE}/temporary"
_LIFE_SEC = 3600


def bootstrap_in_container(
    lock: BaseLock,
    repository: Path,
    raw: Path,
    say: Callable[[str], None],
    *,
    engine: docker.APIClient,
    builder: str,
) -> None:
    """Run mmdebstrap in a container of `builder` (Debian with apt, pulled if absent) and bring the raw tar out.

    Nothing of the machine is mounted: packages go in and the tar comes out through the archive API.
    """
    with engine_call("build the base image in a container"):
        _ensure_builder(engine, builder, say)
        container = _create(engine, builder)
        try:
            engine.start(container)
            say(f"installing mmdebstrap in a container of {builder}")
            _run(engine, container, ["apt-get", "update"])
            _run(engine, container, ["apt-get", "install", "-y", "--no-install-recommends", "mmdebstrap"])
            say(f"building the root filesystem from {len(lock.packages)} packages in the container (about a minute)")
            _put(engine, container, repository)
            environment = build_environment(lock, _TEMPORARY)
            _run(engine, container, mmdebstrap_command(lock, f"{_PLACE}/repository", f"{_PLACE}/raw.tar"), environment)
            _get(engine, container, f"{_PLACE}/raw.tar", raw)
        finally:
            engine.remove_container(container, force=True, v=True)


def _create(engine: docker.APIClient, builder: str) -> str:
    created = engine.create_container(
        builder,
        ["sleep", str(_LIFE_SEC)],
        name=f"evalguest-base-build-{secrets.token_hex(4)}",
        entrypoint=[],
        user="0:0",
        platform="linux/amd64",
        host_config=engine.create_host_config(
            # mmdebstrap mounts /proc and /dev in the tree it makes; nothing of the machine is given to it
            cap_add=["SYS_ADMIN"],
            security_opt=["apparmor=unconfined"],
            # one that its maker left behind goes by itself
            auto_remove=True,
        ),
    )
    return str(created["Id"])


def _ensure_builder(engine: docker.APIClient, builder: str, say: Callable[[str], None]) -> None:
    try:
        engine.inspect_image(builder)
    except ImageNotFound:
        say(f"pulling {builder}")
        try:
            repository, _, tag = builder.partition(":")
            engine.pull(repository, tag or "latest", platform="linux/amd64")
        except APIError as error:
            raise EnvironmentFault(
                Reason.TOOL_MISSING,
                f"the base image is built on an x86-64 Debian or Ubuntu as root, or in a container of {builder}, "
                f"which could not be pulled: {error.explanation or error}",
                "run this as root on Debian or Ubuntu, or let the engine reach its registry",
            ) from error


def _run(
    engine: docker.APIClient, container: str, command: list[str], environment: dict[str, str] | None = None
) -> None:
    env = environment or {"DEBIAN_FRONTEND": "noninteractive"}
    created = engine.exec_create(container, command, environment=env)["Id"]
    output = b""
    for chunk in engine.exec_start(created, stream=True):
        output = (output + chunk)[-4000:]
    status = engine.exec_inspect(created)["ExitCode"]
    if status:
        words = output.decode(errors="replace").strip()[-2000:]
        raise EnvironmentFault(
            Reason.TOOL_FAILED, f"{command[0]} in the container ended with status {status}:\n{words}"
        )


def _put(engine: docker.APIClient, container: str, repository: Path) -> None:
    with tempfile.TemporaryFile() as spool:
        with tarfile.open(fileobj=spool, mode="w") as tar:
            for directory in (_PLACE, _TEMPORARY):
                entry = tarfile.TarInfo(directory.strip("/"))
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(entry)
            tar.add(repository, f"{_PLACE}/repository".strip("/"))
        spool.seek(0, io.SEEK_SET)
        engine.put_archive(container, "/", spool)


def _get(engine: docker.APIClient, container: str, path: str, target: Path) -> None:
    chunks, _ = engine.get_archive(container, path)
    with tempfile.TemporaryFile(dir=target.parent) as spool:
        for chunk in chunks:
            spool.write(chunk)
        spool.seek(0)
        with tarfile.open(fileobj=spool) as tar:
            stream = tar.extractfile(tar.getmembers()[0])
            if stream is None:
                raise EnvironmentFault(Reason.TOOL_FAILED, f"{path} in the container is not a file")
            with target.open("wb") as out:
                while chunk := stream.read(1 << 20):
                    out.write(chunk)
