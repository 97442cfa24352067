"""The floor of a trial: the engine calls it cannot do without, issued by the client library and nothing of ours around.

What remains between this and a real trial is our own doing: checks, parsing, records.
"""

from __future__ import annotations

import io
import secrets
import tarfile
import time
from collections.abc import Sequence

import docker

from guest.trial.container import ContainerSpec
from guest.trial.holder import Holder, HolderImage


def measure_floor(api: docker.APIClient, holder: Holder, image: HolderImage, trials: int) -> list[float]:
    """Give the seconds of each of `trials` bare trials in the holder's namespace, one after the other.

    The agent's and the verifier's commands run as well and their time is taken off, as it is for a real trial.
    """
    return [_bare_trial(api, holder, image) for _ in range(trials)]


def _bare_trial(api: docker.APIClient, holder: Holder, image: HolderImage) -> float:
    began = time.monotonic()
    spec = ContainerSpec(
        name=f"evalguest-floor-{secrets.token_hex(6)}",
        image=image.ref,
        run_id="bench",
        role="task",
        network=holder.network_mode,
        workdir="/srv",
        memory_bytes=256 << 20,
    )
    made = api.create_container_from_config(spec.create_body(), name=spec.name)["Id"]
    api.inspect_container(made)
    api.start(made)
    agent = time.monotonic()
    api.put_archive(made, "/", _tar("solution/solve.sh"))
    _exec(api, made, ["bash", "/solution/solve.sh"])
    agent = time.monotonic() - agent
    _exec(api, made, ["/bin/sh", "-c", "kill -9 -1"])
    api.top(made, "-eo pid,stat,args")
    api.put_archive(made, "/", _tar("tests/test.sh"))
    b"".join(api.get_archive(made, "/tests")[0])
    verifier = time.monotonic()
    _exec(api, made, ["bash", "-c", "bash /tests/test.sh"])
    verifier = time.monotonic() - verifier
    api.pause(made)
    b"".join(api.get_archive(made, "/tests")[0])
    api.remove_container(made, v=True, force=True)
    return time.monotonic() - began - agent - verifier


def _exec(api: docker.APIClient, container_id: str, argv: Sequence[str]) -> None:
    made = api.exec_create(container_id, list(argv))["Id"]
    api.exec_start(made)
    api.exec_inspect(made)


def _tar(path: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(path)
        info.size = 5
        archive.addfile(info, io.BytesIO(b"true\n"))
    return buffer.getvalue()
