"""One tar that is an OCI image layout and a docker-archive at once, written byte for byte by us.

The engine's load call reads it (Engine 20.10 knows docker-archive only), so do OCI tools, and every digest is known
before anything has seen the bytes. Formats: the OCI image specification 1.0 (image-layout, manifest, config) and
`manifest.json` as `docker save` writes it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
PLAIN_LAYER = "application/vnd.oci.image.layer.v1.tar"
GZIP_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"

_PLATFORM = {"architecture": "amd64", "os": "linux"}


@dataclass(frozen=True)
class Layer:
    """A layer as it is stored: the blob's file, SHA-256 (hex) and size, and the SHA-256 (hex) of its plain tar."""

    path: Path
    sha256: str
    size: int
    diff_sha256: str
    media_type: str = PLAIN_LAYER


@dataclass(frozen=True)
class ImageDigests:
    """The names an image can go by, `sha256:` and 64 hex digits each.

    `config` is the image id of an engine with its own image store (20.10 to 28 by default), `manifest` that of an
    engine on the containerd store, and what a registry calls the image.
    """

    config: str
    manifest: str


def image_config(
    diff_sha256: Sequence[str],
    *,
    epoch: int,
    created_by: str,
    env: Mapping[str, str],
    cmd: Sequence[str] = (),
    entrypoint: Sequence[str] = (),
    working_dir: str = "",
) -> bytes:
    """Give the bytes of an image configuration: one history entry a layer, everything dated `epoch` (Unix seconds)."""
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run: dict[str, object] = {"Env": [f"{name}={value}" for name, value in sorted(env.items())]}
    if cmd:
        run["Cmd"] = list(cmd)
    if entrypoint:
        run["Entrypoint"] = list(entrypoint)
    if working_dir:
        run["WorkingDir"] = working_dir
    return canonical_json(
        {
            **_PLATFORM,
            "config": run,
            "created": created,
            "history": [{"created": created, "created_by": created_by} for _ in diff_sha256],
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in diff_sha256]},
        }
    )


def image_digests(config: bytes, layers: Sequence[Layer]) -> ImageDigests:
    """Give the digests of the image that `config` and `layers` make."""
    return ImageDigests(config=_digest(config), manifest=_digest(_manifest(config, layers)))


def write_layout(out: IO[bytes], *, config: bytes, layers: Sequence[Layer], name: str, epoch: int) -> ImageDigests:
    """Write the archive of one image, tagged `name` (`repository:tag`), to `out`. Layer files are read once.

    The caller vouches for the digests in `layers`; an engine that loads the archive checks them again.
    """
    manifest = _manifest(config, layers)
    digests = image_digests(config, layers)
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": [
            {
                **_descriptor(MANIFEST_TYPE, manifest),
                "platform": _PLATFORM,
                # the first is what the containerd store calls the image, the second what OCI tools look for
                "annotations": {
                    "io.containerd.image.name": f"docker.io/library/{name}",
                    "org.opencontainers.image.ref.name": name.partition(":")[2],
                },
            }
        ],
    }
    docker_archive = [
        {
            "Config": _blob_path(digests.config.removeprefix("sha256:")),
            "RepoTags": [name],
            "Layers": [_blob_path(layer.sha256) for layer in layers],
        }
    ]
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        _add_bytes(tar, "oci-layout", canonical_json({"imageLayoutVersion": "1.0.0"}), epoch)
        _add_bytes(tar, "index.json", canonical_json(index), epoch)
        _add_bytes(tar, "manifest.json", canonical_json(docker_archive), epoch)
        for directory in ("blobs", "blobs/sha256"):
            entry = _entry(directory, 0, epoch)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for blob in (config, manifest):
            _add_bytes(tar, _blob_path(hashlib.sha256(blob).hexdigest()), blob, epoch)
        for digest, layer in {layer.sha256: layer for layer in layers}.items():
            with layer.path.open("rb") as source:
                tar.addfile(_entry(_blob_path(digest), layer.size, epoch), source)
    return digests


def canonical_json(value: object) -> bytes:
    """Give compact JSON with sorted members: one value, one sequence of bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _manifest(config: bytes, layers: Sequence[Layer]) -> bytes:
    return canonical_json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": _descriptor(CONFIG_TYPE, config),
            "layers": [
                {"mediaType": layer.media_type, "digest": f"sha256:{layer.sha256}", "size": layer.size}
                for layer in layers
            ],
        }
    )


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _blob_path(sha256: str) -> str:
    return f"blobs/sha256/{sha256}"


def _entry(name: str, size: int, epoch: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, epoch, 0o644
    return entry


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes, epoch: int) -> None:
    tar.addfile(_entry(name, len(data), epoch), io.BytesIO(data))
