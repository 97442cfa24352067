"""`evalguest tasks list | verify | digest` on packs on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from guest.errors import Refused, UsageFault
from guest.reason import Reason
from scripts.tasks import PACKS, tasks_app
from tests.guest.tasks.packs import MODERN_TOML, task_files, write_pack, write_tree

PINS = PACKS / "terminal-bench-2.1" / "manifest.json"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_pack(tmp_path / "pack")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(tasks_app, [str(argument) for argument in arguments])


def document(*arguments: object, exit_code: int = 0) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == exit_code, result.output
    read: dict[str, Any] = json.loads(result.stdout)
    assert read["schema_version"] == 1
    return read


def test_list(pack: Path) -> None:
    write_tree(pack / "gpu", task_files("[environment]\ngpus = 2"))
    listed = document("list", "--cache", pack)
    assert [task["task_id"] for task in listed["tasks"]] == ["legacy", "modern"]
    assert listed["tasks"][1] | {"tree_digest": ""} == {
        "task_id": "modern", "tree_digest": "", "pinned": False, "cpus": 0.5, "memory_mb": 512,
        "agent_timeout_sec": 90.0, "verifier_timeout_sec": 45.5, "network": "none", "isolation": "shared",
        "docker_image": None,
    }  # fmt: skip
    assert [(each["task_id"], each["reason_code"]) for each in listed["refused"]] == [("gpu", "task_unsupported")]
    text = run("list", "--cache", pack).stdout
    assert text.splitlines()[0].split()[:2] == ["task", "cpus"]
    assert "environment.gpus = 2 is not supported" in text


def test_digest_writes_the_manifest_and_verify_holds(pack: Path) -> None:
    printed = document("digest", "--cache", pack)
    assert not (pack / "manifest.json").exists()
    assert document("digest", "--cache", pack, "--write") == printed
    assert printed["total_tasks"] == 2
    first = (pack / "manifest.json").read_bytes()
    document("digest", "--cache", pack, "--write")
    assert (pack / "manifest.json").read_bytes() == first
    verified = document("verify", "--cache", pack, "--offline")
    assert verified["holds"] is True
    assert verified["differences"] == []
    own = pack / "manifest.json"
    assert run("verify", "--cache", pack).stdout == f"tasks read: 2; compared with {own}: all are as pinned\n"
    assert all(task["pinned"] for task in document("list", "--cache", pack)["tasks"])


def test_a_new_manifest_keeps_what_the_old_one_says_of_its_origin(pack: Path) -> None:
    document("digest", "--cache", pack, "--write")
    path = pack / "manifest.json"
    old = json.loads(path.read_bytes())
    old |= {"dataset": "mine", "frozen_at_utc": "2020-02-02", "public_sources": {"repository": "https://example.org"}}
    path.write_text(json.dumps(old))
    document("digest", "--cache", pack, "--write")
    assert json.loads(path.read_bytes()) == old
    write_tree(pack / "modern", {"tests/test.sh": b"changed\n"})
    document("digest", "--cache", pack, "--write")
    new = json.loads(path.read_bytes())
    assert (new["dataset"], new["public_sources"]) == ("mine", old["public_sources"])
    assert new["frozen_at_utc"] > "2020-02-02"
    assert new["canonical_content_digest_sha256"] != old["canonical_content_digest_sha256"]


def test_verify_names_each_difference_and_ends_with_1(pack: Path) -> None:
    document("digest", "--cache", pack, "--write")
    write_tree(pack / "added", task_files(MODERN_TOML.replace("someone/modern", "added")))
    write_tree(pack / "modern", {"instruction.md": b"Something else.\n"})
    (pack / "legacy").rename(pack / ".legacy")
    verified = document("verify", "--cache", pack, exit_code=1)
    assert verified["holds"] is False
    assert {each["task_id"]: each["kind"] for each in verified["differences"]} == {
        "added": "extra",
        "legacy": "missing",
        "modern": "changed",
    }
    result = run("verify", "--cache", pack)
    assert result.exit_code == 1
    for words in ("added: extra", "legacy: missing", "modern: changed"):
        assert words in result.stdout


def test_verify_with_another_manifest(pack: Path, tmp_path: Path) -> None:
    document("digest", "--cache", pack, "--write")
    (pack / "manifest.json").rename(tmp_path / "pins.json")
    assert document("verify", "--cache", pack, "--manifest", tmp_path / "pins.json")["holds"] is True
    assert len(document("verify", "--cache", pack, "--manifest", PINS, exit_code=1)["differences"]) == 91


def test_verify_an_unreadable_tree(pack: Path) -> None:
    document("digest", "--cache", pack, "--write")
    with (pack / "modern" / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    verified = document("verify", "--cache", pack, exit_code=1)
    assert verified["differences"] == []
    assert [each["task_id"] for each in verified["unreadable"]] == ["modern"]
    with pytest.raises(Refused, match="huge makes the tree larger"):
        run_raising("digest", "--cache", pack, "--write")


def test_verify_a_pool(pack: Path) -> None:
    verified = document("verify", "--cache", pack, "--pool", "terminal-bench-2.1", exit_code=1)
    missing = [each["task_id"] for each in verified["pool"]["differences"]]
    assert len(missing) == 30
    assert (missing[0], missing[-1]) == ("adaptive-rejection-sampler", "fix-git")
    assert missing == sorted(missing)
    # Trees of two pool tasks that are not what was published.
    (pack / "legacy").rename(pack / "build-pmars")
    changed = document("verify", "--cache", pack, "--pool", "terminal-bench-2.1", exit_code=1)
    kinds = {each["task_id"]: each["kind"] for each in changed["pool"]["differences"]}
    assert kinds["build-pmars"] == "changed"
    assert list(kinds.values()).count("missing") == 29


def test_digests_of_a_manifest() -> None:
    read = document("digest", "--manifest", PINS)
    assert read["total_tasks"] == 89
    assert read["dataset_digest"] == "8da006d76bcf59c2af3f36ed4420192d3930bda43683f32d80013a6ee5e7e02d"
    assert run("digest", "--manifest", PINS).stdout.splitlines()[-1].startswith(read["dataset_digest"])


def run_raising(*arguments: object) -> None:
    error = run(*arguments).exception
    assert error is not None
    raise error


def test_what_makes_no_sense(pack: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match=r"there is no .*manifest\.json"):
        run_raising("verify", "--cache", pack)
    with pytest.raises(UsageFault, match=r"pins are here for: terminal-bench-2\.1"):
        run_raising("verify", "--cache", pack, "--pool", "terminal-bench-9")
    with pytest.raises(UsageFault, match="--write"):
        run_raising("digest", "--cache", pack, "--write", "--manifest", PINS)
    with pytest.raises(UsageFault, match="is not a directory"):
        run_raising("list", "--cache", tmp_path / "none")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(Refused) as refusal:
        run_raising("verify", "--cache", pack, "--manifest", tmp_path / "bad.json")
    assert refusal.value.reason == Reason.MANIFEST_MALFORMED
