"""Small images for tests, made in the engine from nothing."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import tarfile

import docker


def import_image(api: docker.APIClient, name: str = "", *, workdir: str = "/srv") -> str:
    """Put an image of one random file into the engine, under `name` or none, and give its id."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        data = secrets.token_bytes(16)
        entry = tarfile.TarInfo("srv/content")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    repository, _, tag = name.rpartition(":")
    answer = api.import_image_from_data(
        tar.getvalue(),
        repository=repository or None,
        tag=tag or None,
        changes=[f"WORKDIR {workdir}"] if workdir else [],
    )
    return str(json.loads(answer.splitlines()[-1])["status"])


def forget(api: docker.APIClient, *refs: str) -> None:
    """Remove images by id or name, so that only a pull can bring them back; one that is not there is passed over."""
    for ref in refs:
        with contextlib.suppress(docker.errors.ImageNotFound):
            api.remove_image(ref, force=True)


def file_in(api: docker.APIClient, image: str, path: str) -> bytes:
    """The content of one file of an image."""
    container = api.create_container(image, command=["none"], network_disabled=True)["Id"]
    try:
        stream, _ = api.get_archive(container, path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            found = archive.extractfile(archive.getmembers()[0])
            assert found is not None
            return found.read()
    finally:
        api.remove_container(container)


def files_of(api: docker.APIClient, image: str) -> dict[str, tarfile.TarInfo]:
    """The entries of an image's file system, without what the engine adds to every container's root."""
    container = api.create_container(image, command=["none"], network_disabled=True)["Id"]
    try:
        stream = io.BytesIO(b"".join(api.export(container)))
    finally:
        api.remove_container(container)
    added = ("dev", "etc", "proc", "sys", ".dockerenv")
    with tarfile.open(fileobj=stream) as archive:
        return {each.name.rstrip("/"): each for each in archive if not each.name.startswith(added)}
