"""Caches and packs on disk: layouts, selection, and the preflight against a manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guest.errors import Refused, UsageFault
from guest.reason import Reason
from guest.tasks.budgets import budgets_document, default_budget
from guest.tasks.cache import TaskCache, load_cache
from guest.tasks.images import image_pins_document
from guest.tasks.json_file import write_json
from guest.tasks.manifest import manifest_document
from tests.guest.tasks.packs import LEGACY_TOML, MODERN_TOML, task_files, write_pack, write_tree


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_pack(tmp_path / "pack")


def pin(pack: Path) -> TaskCache:
    write_json(pack / "manifest.json", manifest_document(load_cache(pack).trees, dataset="pack"))
    return load_cache(pack)


def test_task_directories_directly_under_the_root(pack: Path) -> None:
    cache = load_cache(pack)
    assert list(cache.tasks) == ["legacy", "modern"]
    assert cache.refused == {}
    assert cache.manifest is None
    assert (cache.budgets, cache.image_pins) == ({}, {})
    assert [task.task_id for task in cache.select([])] == ["legacy", "modern"]


def test_task_directories_in_their_own_folder(pack: Path, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    root.mkdir()
    pack.rename(root / "tasks")
    cache = load_cache(root)
    assert list(cache.tasks) == ["legacy", "modern"]
    # Here every directory must be a task: one that lost its task.toml is not passed over.
    assert cache.refused.keys() == {"docs"}
    with pytest.raises(Refused, match=r"docs: no task\.toml"):
        cache.select([])
    assert [task.task_id for task in cache.select(["modern"])] == ["modern"]


def test_the_content_hash_layout(tmp_path: Path) -> None:
    write_tree(tmp_path / "one" / "3f2a", task_files(MODERN_TOML))
    write_tree(tmp_path / "two" / "a", task_files(MODERN_TOML))
    write_tree(tmp_path / "two" / "b", task_files(MODERN_TOML))
    cache = load_cache(tmp_path)
    assert list(cache.tasks) == ["one"]
    assert "tests/test.sh" in cache.tasks["one"].files
    assert "several subdirectories hold a task.toml: a, b" in cache.refused["two"].message


def test_selecting(pack: Path) -> None:
    cache = load_cache(pack)
    assert [task.task_id for task in cache.select(["modern", "terminal-bench/legacy"])] == ["legacy", "modern"]
    assert [task.task_id for task in cache.select(["someone/modern"])] == ["modern"]
    for same in (["modern", "terminal-bench/modern"], ["modern", "someone/modern"], ["modern", "modern"]):
        with pytest.raises(Refused, match="are the same task"):
            cache.select(same)
    with pytest.raises(Refused) as refusal:
        cache.select(["modrn"])
    assert refusal.value.reason == Reason.TASK_UNKNOWN
    assert "did you mean modern?" in refusal.value.hint
    with pytest.raises(Refused, match="has no task"):
        cache.select(["other-bench/modern"])


def test_an_unsupported_task_is_refused_by_name_and_hides_no_other(pack: Path) -> None:
    write_tree(pack / "gpu", task_files("[environment]\ngpus = 2"))
    write_tree(pack / "compose", task_files(MODERN_TOML) | {"environment/docker-compose.yaml": b"services: {}\n"})
    cache = load_cache(pack)
    assert list(cache.tasks) == ["legacy", "modern"]
    with pytest.raises(Refused) as refusal:
        cache.select([])
    assert refusal.value.reason == Reason.TASK_UNSUPPORTED
    assert "environment.gpus = 2" in refusal.value.message
    assert "compose/environment/docker-compose.yaml" in refusal.value.message
    assert [task.task_id for task in cache.select(["legacy", "modern"])] == ["legacy", "modern"]
    with pytest.raises(Refused, match="gpus"):
        cache.select(["legacy", "gpu"])


def test_names_that_collapse(tmp_path: Path) -> None:
    for name in ("Same", "same", "first", "second", "fine"):
        written = "org/twin" if name in ("first", "second") else name
        write_tree(tmp_path / name, task_files(f'[task]\nname = "{written}"'))
    cache = load_cache(tmp_path)
    assert list(cache.tasks) == ["fine"]
    assert "differ in case only" in cache.refused["Same"].message
    assert "differ in case only" in cache.refused["same"].message
    assert "first, second: all carry the name 'org/twin'" in cache.refused["first"].message


def test_a_linked_task_is_not_followed(pack: Path) -> None:
    (pack / "linked").symlink_to("modern")
    assert list(load_cache(pack).tasks) == ["legacy", "modern"]


def test_a_bad_name_is_refused_by_name(pack: Path) -> None:
    write_tree(pack / "bad name", task_files(MODERN_TOML))
    assert "'bad name' cannot be a task id" in load_cache(pack).refused["bad name"].message


def test_a_pinned_pack_that_is_as_pinned(pack: Path) -> None:
    cache = pin(pack)
    assert [task.task_id for task in cache.select([])] == ["legacy", "modern"]
    assert cache.manifest is not None
    assert cache.manifest.digests == {name: task.tree_digest for name, task in cache.tasks.items()}


def test_one_byte_changed_one_task_added_one_removed(pack: Path) -> None:
    pin(pack)
    write_tree(pack / "modern", {"tests/test.sh": b"echo 1\n"})
    write_tree(pack / "added", task_files(LEGACY_TOML))
    (pack / "legacy").rename(pack / ".legacy")
    cache = load_cache(pack)
    assert cache.tasks == {}
    said = {task_id: (why.reason, why.message.split(" ")[1]) for task_id, why in cache.refused.items()}
    assert said == {
        "added": (Reason.TASK_DIGEST_MISMATCH, "extra"),
        "legacy": (Reason.TASK_DIGEST_MISMATCH, "missing"),
        "modern": (Reason.TASK_DIGEST_MISMATCH, "changed"),
    }
    with pytest.raises(Refused) as refusal:
        cache.select(["modern"])
    assert refusal.value.reason == Reason.TASK_DIGEST_MISMATCH
    assert "tasks digest --write" in refusal.value.hint


def test_a_link_beside_the_tests_changes_no_digest_and_is_no_file(pack: Path) -> None:
    pin(pack)
    (pack / "modern" / "tests" / "helper.sh").symlink_to("/etc/passwd")
    assert "tests/helper.sh" not in load_cache(pack).tasks["modern"].files


def test_an_unreadable_tree_keeps_its_own_words(pack: Path) -> None:
    pin(pack)
    with (pack / "modern" / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    cache = load_cache(pack)
    assert "huge makes the tree larger" in cache.refused["modern"].message
    assert cache.unreadable.keys() == {"modern"}


def test_budgets_and_image_pins_stand_beside_the_tasks(pack: Path) -> None:
    modern = load_cache(pack).tasks["modern"].definition
    entry = default_budget(modern, isolation="isolated", network="verifier")
    write_json(pack / "budgets.json", budgets_document({"modern": entry}))
    reference = "registry.example.org/modern@sha256:" + "0" * 64
    write_json(pack / "images.json", image_pins_document({"modern": reference}))
    cache = load_cache(pack)
    assert cache.budgets == {"modern": entry}
    assert cache.image_pins == {"modern": reference}
    write_json(pack / "budgets.json", budgets_document({"modernn": entry}))
    with pytest.raises(Refused, match="tasks that the cache lacks: modernn"):
        load_cache(pack)


def test_a_malformed_file_beside_the_tasks(pack: Path) -> None:
    for name, reason in (
        ("manifest.json", Reason.MANIFEST_MALFORMED),
        ("budgets.json", Reason.BUDGETS_MALFORMED),
        ("images.json", Reason.IMAGES_MALFORMED),
    ):
        (pack / name).write_text(json.dumps({"schema": "other"}))
        with pytest.raises(Refused) as refusal:
            load_cache(pack)
        assert refusal.value.reason == reason
        (pack / name).unlink()


def test_no_such_directory_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="is not a directory"):
        load_cache(tmp_path / "none")
    with pytest.raises(Refused, match="holds no tasks"):
        load_cache(tmp_path).select([])
