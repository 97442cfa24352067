"""The manifest form, the shipped pins, and the comparison with trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.json_file import write_json
from guest.tasks.manifest import TreeSummary, load_manifest, manifest_document, verify
from tests.conformance.vectors import baseline

CHECKOUT = Path(__file__).resolve().parents[3]
SHIPPED = CHECKOUT / "task-cache" / "packs" / "terminal-bench-2.1" / "manifest.json"

VECTOR = baseline("dataset_digest")[0]
TREES = {name: TreeSummary(digest, 3) for name, digest in VECTOR["input"].items()}
DATASET = VECTOR["expected"]["canonical_content_digest_sha256"]


def document(**changes: Any) -> dict[str, Any]:
    return manifest_document(TREES, dataset="three") | changes


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(content))
    return path


def test_the_shipped_pins_are_the_published_89() -> None:
    manifest = load_manifest(SHIPPED)
    assert len(manifest.digests) == 89
    assert manifest.dataset == "terminal-bench-2.1"
    assert (
        manifest.canonical_content_digest_sha256 == "8da006d76bcf59c2af3f36ed4420192d3930bda43683f32d80013a6ee5e7e02d"
    )
    assert manifest.digests["adaptive-rejection-sampler"] == (
        "bcaa2399985cd57666018025846289ab25e193ae0dd8fb7f0ffab2410c24d4de"
    )
    assert sum(task.file_count or 0 for task in manifest.tasks.values()) == 946


def test_the_writer_gives_every_member_of_the_form(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    write_json(path, manifest_document(dict(reversed(TREES.items())), dataset="three", frozen_at_utc="2026-01-01"))
    first = path.read_bytes()
    write_json(path, manifest_document(TREES, dataset="three", frozen_at_utc="2026-01-01"))
    assert path.read_bytes() == first
    content = json.loads(first)
    assert content.keys() == {
        "schema", "frozen_at_utc", "gate", "dataset", "harbor_version", "ground_truth", "task_count", "tasks",
        "canonical_content_digest_sha256", "hashing_method", "public_sources",
    }  # fmt: skip
    assert content["schema"] == "harbor-independence/dataset-digest@1"
    assert content["canonical_content_digest_sha256"] == DATASET
    assert content["tasks"]["plain"] == {
        "content_digest_sha256": TREES["plain"].digest,
        "file_count": 3,
        "harbor_registry_ref": "sha256:" + TREES["plain"].digest,
    }
    assert load_manifest(path).digests == VECTOR["input"]


def test_the_reader_looks_only_at_what_is_used(tmp_path: Path) -> None:
    content = document(gate={"any": ["thing"]}, harbor_version="0.1", more=1)
    del content["task_count"], content["hashing_method"], content["ground_truth"], content["dataset"]
    content["tasks"] = {
        f"terminal-bench/{name}": {"content_digest_sha256": tree.digest, "else": 1} for name, tree in TREES.items()
    }
    assert load_manifest(written(tmp_path, content)).digests == VECTOR["input"]


@pytest.mark.parametrize(
    ("change", "said"),
    [({"schema": "harbor-independence/dataset-digest@2"}, "schema"),
     ({"canonical_content_digest_sha256": "0" * 64}, f"the tasks give {DATASET}"),
     ({"canonical_content_digest_sha256": DATASET.upper()}, "canonical_content_digest_sha256"),
     ({"canonical_content_digest_sha256": DATASET + "\n"}, "canonical_content_digest_sha256"),
     ({"task_count": 4}, "task_count is 4, there are 3"),
     ({"task_count": True}, "task_count"),
     ({"tasks": []}, "tasks"),
     ({"tasks": {"../up": {"content_digest_sha256": "0" * 64}}}, "'../up' is not a task name"),
     ({"tasks": {"a": {"content_digest_sha256": "0" * 63}}}, "tasks.a.content_digest_sha256"),
     ({"tasks": {"a": {}}}, "tasks.a.content_digest_sha256"),
     ({"tasks": {"a": {"content_digest_sha256": "0" * 64, "harbor_registry_ref": "sha256:" + "1" * 64}}},
      "carry different digests"),
     ({"tasks": {name: {"content_digest_sha256": "0" * 64} for name in ("a", "terminal-bench/a")}},
      "one without the terminal-bench/ prefix")],
)  # fmt: skip
def test_manifests_out_of_form(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refusal:
        load_manifest(written(tmp_path, document(**{"task_count": None} | change)))
    assert refusal.value.reason == Reason.MANIFEST_MALFORMED
    assert said in refusal.value.message


def test_two_members_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(document()).replace('"task_count"', '"schema": "x", "task_count"'))
    with pytest.raises(Refused, match="'schema' occurs twice"):
        load_manifest(path)


def test_each_kind_of_difference_is_named() -> None:
    differences = verify({"b": "1" * 64, "c": "2" * 64, "d": "3" * 64}, {"a": "0" * 64, "b": "1" * 64, "c": "f" * 64})
    assert [(each.task_id, each.kind) for each in differences] == [("a", "missing"), ("c", "changed"), ("d", "extra")]
    assert str(differences[1]) == f"c: changed (expected {'f' * 64}, got {'2' * 64})"


@given(st.binary(max_size=100))
def test_no_bytes_crash_it(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "manifest.json"
    path.write_bytes(data)
    with pytest.raises(Refused):
        load_manifest(path)
