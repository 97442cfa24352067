from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from guest.trial.engine import Engine
from image.layout import GZIP_LAYER, PLAIN_LAYER, Layer, image_config, image_digests, write_layout

EPOCH = 1_700_000_000
NAME = "evalguest-test-layout:made"

# Written by hand after the image specification, for one layer whose plain tar has the digest of 64 times "a".
CONFIG_BY_HAND = (
    '{"architecture":"amd64","config":{"Cmd":["/bin/true"],"Env":["A=1","PATH=/bin"],"WorkingDir":"/w"},'
    '"created":"2023-11-14T22:13:20Z","history":[{"created":"2023-11-14T22:13:20Z","created_by":"a test"}],'
    '"os":"linux","rootfs":{"diff_ids":["sha256:' + "a" * 64 + '"],"type":"layers"}}'
)


def layer_tar(text: bytes = b"hello\n") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo("greeting")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    return out.getvalue()


def plain(directory: Path, data: bytes) -> Layer:
    path = directory / "layer.tar"
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return Layer(path, sha256=digest, size=len(data), diff_sha256=digest)


def archive(layers: list[Layer], name: str = NAME) -> bytes:
    config = image_config([x.diff_sha256 for x in layers], epoch=EPOCH, created_by="a test", env={"PATH": "/bin"})
    out = io.BytesIO()
    digests = write_layout(out, config=config, layers=layers, name=name, epoch=EPOCH)
    assert digests == image_digests(config, layers)
    return out.getvalue()


def contents(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {}
        for member in tar:
            assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", EPOCH)
            stream = tar.extractfile(member)
            if stream is not None:
                files[member.name] = stream.read()
        return files


def blob(files: dict[str, bytes], descriptor: Any) -> bytes:
    algorithm, _, digest = descriptor["digest"].partition(":")
    data = files[f"blobs/{algorithm}/{digest}"]
    assert (algorithm, hashlib.sha256(data).hexdigest(), len(data)) == ("sha256", digest, descriptor["size"])
    return data


def test_the_configuration_is_the_one_written_by_hand() -> None:
    config = image_config(
        ["a" * 64],
        epoch=EPOCH,
        created_by="a test",
        env={"PATH": "/bin", "A": "1"},
        cmd=["/bin/true"],
        working_dir="/w",
    )
    assert config.decode() == CONFIG_BY_HAND


def test_members_not_given_are_left_out() -> None:
    config = json.loads(image_config([], epoch=EPOCH, created_by="", env={}, entrypoint=["/e"]))
    assert config["config"] == {"Env": [], "Entrypoint": ["/e"]}
    assert (config["history"], config["rootfs"]) == ([], {"type": "layers", "diff_ids": []})


def test_every_descriptor_names_its_blob(tmp_path: Path) -> None:
    data = layer_tar()
    files = contents(archive([plain(tmp_path, data)]))
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(files["index.json"])
    assert (index["schemaVersion"], index["mediaType"]) == (2, "application/vnd.oci.image.index.v1+json")
    (entry,) = index["manifests"]
    assert entry["platform"] == {"architecture": "amd64", "os": "linux"}
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == "made"
    assert entry["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    manifest = json.loads(blob(files, entry))
    assert (manifest["schemaVersion"], manifest["mediaType"]) == (2, entry["mediaType"])
    config = json.loads(blob(files, manifest["config"]))
    assert manifest["config"]["mediaType"] == "application/vnd.oci.image.config.v1+json"
    (layer,) = manifest["layers"]
    assert layer["mediaType"] == PLAIN_LAYER == "application/vnd.oci.image.layer.v1.tar"
    assert blob(files, layer) == data
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    assert len(config["history"]) == 1
    assert set(files) == {"oci-layout", "index.json", "manifest.json"} | {
        f"blobs/sha256/{x['digest'][7:]}" for x in (entry, manifest["config"], layer)
    }


def test_the_docker_archive_points_at_the_same_blobs(tmp_path: Path) -> None:
    files = contents(archive([plain(tmp_path, layer_tar())]))
    (image,) = json.loads(files["manifest.json"])
    assert image["RepoTags"] == [NAME]
    config = json.loads(files[image["Config"]])
    assert [f"sha256:{hashlib.sha256(files[x]).hexdigest()}" for x in image["Layers"]] == config["rootfs"]["diff_ids"]


def test_a_compressed_layer_keeps_the_digest_of_its_plain_tar(tmp_path: Path) -> None:
    tar = layer_tar()
    packed = gzip.compress(tar, mtime=0)
    path = tmp_path / "layer"
    path.write_bytes(packed)
    layer = Layer(
        path,
        sha256=hashlib.sha256(packed).hexdigest(),
        size=len(packed),
        diff_sha256=hashlib.sha256(tar).hexdigest(),
        media_type=GZIP_LAYER,
    )
    files = contents(archive([layer]))
    manifest = json.loads(blob(files, json.loads(files["index.json"])["manifests"][0]))
    assert manifest["layers"][0]["mediaType"].endswith("tar+gzip")
    assert gzip.decompress(blob(files, manifest["layers"][0])) == tar
    assert json.loads(blob(files, manifest["config"]))["rootfs"]["diff_ids"] == [f"sha256:{layer.diff_sha256}"]


def test_two_writings_are_equal_byte_for_byte_and_another_layer_is_not(tmp_path: Path) -> None:
    first = archive([plain(tmp_path, layer_tar())])
    assert archive([plain(tmp_path, layer_tar())]) == first
    assert archive([plain(tmp_path, layer_tar(b"other\n"))]) != first


@pytest.mark.skipif(shutil.which("skopeo") is None, reason="skopeo is not installed")
@pytest.mark.parametrize("transport", ["oci-archive", "docker-archive"])
def test_skopeo_reads_it(tmp_path: Path, transport: str) -> None:
    data = layer_tar()
    path = tmp_path / "image.tar"
    path.write_bytes(archive([plain(tmp_path, data)]))
    source = f"{transport}:{path}"
    run = subprocess.run(["skopeo", "inspect", source], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert (seen["Architecture"], seen["Os"], seen["Env"]) == ("amd64", "linux", ["PATH=/bin"])
    assert seen["Layers"] == [f"sha256:{hashlib.sha256(data).hexdigest()}"]


@pytest.mark.engine
def test_the_engine_gives_it_the_id_that_was_computed(engine: Engine, tmp_path: Path) -> None:
    layers = [plain(tmp_path, layer_tar())]
    data = archive(layers)
    config = image_config([layers[0].diff_sha256], epoch=EPOCH, created_by="a test", env={"PATH": "/bin"})
    digests = image_digests(config, layers)
    try:
        for item in engine.api.load_image(data):
            assert "error" not in item
        seen = engine.api.inspect_image(NAME)
        assert seen["Id"] in (digests.config, digests.manifest)
        assert seen["RootFS"]["Layers"] == [f"sha256:{layers[0].sha256}"]
    finally:
        engine.api.remove_image(NAME, force=True)


@pytest.mark.engine
def test_the_engine_refuses_an_altered_layer(engine: Engine, tmp_path: Path) -> None:
    name = "evalguest-test-layout:altered"
    data = archive([plain(tmp_path, layer_tar(b"hello\n"))], name).replace(b"hello\n", b"jello\n")
    errors = [item for item in engine.api.load_image(data) if "error" in item]
    assert errors
    with pytest.raises(ImageNotFound):
        engine.api.inspect_image(name)
