"""`evalguest tasks import`: nothing is put in place before every tree was checked."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from guest.errors import EnvironmentFault, EvalguestError, Refused, UsageFault
from guest.reason import Reason
from guest.tasks.cache import load_cache
from guest.tasks.json_file import write_json
from guest.tasks.manifest import manifest_document
from scripts.git_fetch import GitSource, parse_git_source
from tests.guest.tasks.packs import MODERN_TOML, task_files, write_pack, write_tree
from tests.scripts.test_tasks import document, run_raising


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_pack(tmp_path / "source")


@pytest.fixture
def pins(tmp_path: Path, source: Path) -> Path:
    path = tmp_path / "pins.json"
    write_json(path, manifest_document(load_cache(source).trees, dataset="someones", frozen_at_utc="2026-01-01"))
    return path


@pytest.fixture
def repository(source: Path, pins: Path) -> Path:
    """The source as a git repository of two commits: the first one, tagged v1, is what is pinned."""
    assert pins.exists()
    git(source, "init", "--quiet", "--initial-branch=main")
    commit(source, "one")
    git(source, "tag", "v1")
    write_tree(source / "modern", {"tests/test.sh": b"echo 1 > /logs/verifier/reward.txt # changed\n"})
    commit(source, "two")
    return source


def git(directory: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=directory, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def commit(directory: Path, message: str) -> None:
    git(directory, "add", "--all", "--force")
    git(directory, "commit", "--quiet", "--message", message)


def refuse(*arguments: object) -> EvalguestError:
    with pytest.raises(EvalguestError) as refusal:
        run_raising("import", *arguments)
    return refusal.value


def test_a_directory(tmp_path: Path, source: Path, pins: Path) -> None:
    (source / "modern" / "solution" / "solve.sh").chmod(0o755)
    (source / "modern" / "tests" / "link").symlink_to("/etc/passwd")
    write_tree(source / "unpinned", task_files(MODERN_TOML.replace("someone/modern", "unpinned")))
    target = tmp_path / "caches" / "someones"
    done = document(
        "import", source, "--manifest", pins, "--cache", target, "--shared", "modern", "--network-both", "legacy"
    )
    assert done["tasks"] == ["legacy", "modern"]
    assert done["left_out"] == ["unpinned"]
    assert done["commit"] is None
    assert sorted(path.name for path in target.iterdir()) == ["budgets.json", "manifest.json", "tasks"]
    assert sorted(path.name for path in target.parent.iterdir()) == ["someones"]
    cache = load_cache(target)
    assert [task.task_id for task in cache.select([])] == ["legacy", "modern"]
    assert cache.manifest is not None
    assert (cache.manifest.dataset, cache.manifest.frozen_at_utc) == ("someones", "2026-01-01")
    assert cache.manifest.canonical_content_digest_sha256 == done["dataset_digest"]
    assert cache.tasks["modern"].files["solution/solve.sh"].executable
    assert not (target / "tasks" / "modern" / "tests" / "link").is_symlink()
    assert json.loads((target / "budgets.json").read_bytes())["tasks"] == {
        "legacy": {
            "agent_cpu_sec": 120.0, "verifier_cpu_sec": 240.0, "agent_wall_sec": 180.0, "verifier_wall_sec": 360.0,
            "isolation": "isolated", "network": "both",
        },
        "modern": {
            "agent_cpu_sec": 45.0, "verifier_cpu_sec": 22.75, "agent_wall_sec": 270.0, "verifier_wall_sec": 136.5,
            "isolation": "shared", "network": "none",
        },
    }  # fmt: skip


def test_a_network_is_for_the_verifier_unless_named(tmp_path: Path, source: Path, pins: Path) -> None:
    document("import", source, "--manifest", pins, "--cache", tmp_path / "cache")
    assert load_cache(tmp_path / "cache").budgets["legacy"].network == "verifier"


def test_without_a_task(tmp_path: Path, source: Path, pins: Path) -> None:
    write_tree(source / "modern", {"tests/test.sh": b"changed\n"})
    done = document("import", source, "--manifest", pins, "--cache", tmp_path / "cache", "--without", "modern")
    assert done["tasks"] == ["legacy"]
    assert list(load_cache(tmp_path / "cache").tasks) == ["legacy"]


def test_every_mismatch_is_named_and_nothing_is_put_in_place(tmp_path: Path, source: Path, pins: Path) -> None:
    write_tree(source / "modern", {"tests/test.sh": b"changed\n"})
    (source / "legacy" / "task.toml").unlink()
    before = sorted(tmp_path.iterdir())
    refusal = refuse(source, "--manifest", pins, "--cache", tmp_path / "cache")
    assert refusal.reason == Reason.TASK_DIGEST_MISMATCH
    assert "modern: changed (expected" in refusal.message
    assert "legacy: missing" in refusal.message
    assert sorted(tmp_path.iterdir()) == before


def test_one_byte_too_many_in_the_last_task_puts_nothing_in_place(tmp_path: Path, source: Path, pins: Path) -> None:
    (tmp_path / "cache").mkdir()
    write_tree(source / "modern", {"tests/.hidden": b""})
    refuse(source, "--manifest", pins, "--cache", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_task_that_could_not_run_is_named(tmp_path: Path, source: Path) -> None:
    write_tree(source / "gpu", task_files("[environment]\ngpus = 2"))
    pins = tmp_path / "pins.json"
    write_json(pins, manifest_document(load_cache(source).trees, dataset="someones"))
    refusal = refuse(source, "--manifest", pins, "--cache", tmp_path / "cache")
    assert refusal.reason == Reason.TASK_UNSUPPORTED
    assert "gpu/task.toml: environment.gpus = 2" in refusal.message
    assert not (tmp_path / "cache").exists()


def test_an_unreadable_task_is_named_once(tmp_path: Path, source: Path, pins: Path) -> None:
    with (source / "modern" / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    refusal = refuse(source, "--manifest", pins, "--cache", tmp_path / "cache")
    assert refusal.reason == Reason.TASK_MALFORMED
    assert "huge makes the tree larger" in refusal.message


def test_a_place_that_is_taken(tmp_path: Path, source: Path, pins: Path) -> None:
    taken = write_tree(tmp_path / "taken", {"file": b"mine"})
    assert "exists already" in refuse(source, "--manifest", pins, "--cache", taken).message
    assert (taken / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("option", ["--shared", "--network-both", "--without"])
def test_choices_about_tasks_that_there_are_not(tmp_path: Path, source: Path, pins: Path, option: str) -> None:
    refusal = refuse(source, "--manifest", pins, "--cache", tmp_path / "cache", option, "modrn")
    assert isinstance(refusal, UsageFault)
    assert f"{option} names tasks that the manifest lacks: modrn" in refusal.message


def test_a_repository_at_a_tag_a_commit_and_a_shortened_commit(tmp_path: Path, repository: Path, pins: Path) -> None:
    first = git(repository, "rev-parse", "v1")
    for number, revision in enumerate(["v1", first, first[:9]]):
        done = document("import", f"{repository}@{revision}", "--manifest", pins, "--cache", tmp_path / str(number))
        assert done["commit"] == first
        assert list(load_cache(tmp_path / str(number)).tasks) == ["legacy", "modern"]
    assert not list(tmp_path.glob(".import-*"))


def test_a_repository_by_url(tmp_path: Path, repository: Path, pins: Path) -> None:
    url = f"file://{repository}"
    document("import", f"{url}@v1", "--manifest", pins, "--cache", tmp_path / "cache", "--offline")
    refusal = refuse(url, "--manifest", pins, "--cache", tmp_path / "other")
    assert isinstance(refusal, Refused)
    assert "modern: changed" in refusal.message  # its HEAD is not what is pinned
    assert not (tmp_path / "other").exists()
    assert not list(tmp_path.glob(".import-*"))


def test_nothing_of_a_repository_is_run(tmp_path: Path, repository: Path, pins: Path) -> None:
    """Hooks of the user's template and settings, and a filter and line ends that the repository asks for."""
    first = git(repository, "rev-parse", "v1")
    home = tmp_path / "home"
    hook = write_tree(home, {"template/hooks/post-checkout": b'#!/bin/sh\ntouch "$HOME/ran"\n'})
    (hook / "template" / "hooks" / "post-checkout").chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[init]\ntemplateDir = {home}/template\n[core]\nautocrlf = true\nhooksPath = {home}/template/hooks\n"
        '[filter "loud"]\nsmudge = touch $HOME/ran; cat\n'
    )
    git(repository, "checkout", "--quiet", "-b", "asking", first)
    write_tree(repository, {".gitattributes": b"*.sh filter=loud\n*.md text eol=crlf\n"})
    commit(repository, "asks for a filter")
    environment = os.environ | {"HOME": str(home)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        document("import", f"{repository}@asking", "--manifest", pins, "--cache", tmp_path / "cache")
    assert not (home / "ran").exists()


def test_a_revision_there_is_not(tmp_path: Path, repository: Path, pins: Path) -> None:
    refusal = refuse(f"{repository}@v9", "--manifest", pins, "--cache", tmp_path / "cache")
    assert isinstance(refusal, UsageFault)
    assert "has no revision 'v9'" in refusal.message


def test_a_repository_there_is_not(tmp_path: Path, pins: Path) -> None:
    refusal = refuse(f"file://{tmp_path}/none", "--manifest", pins, "--cache", tmp_path / "cache")
    assert isinstance(refusal, EnvironmentFault)
    assert refusal.exit_code == 3


@pytest.mark.parametrize("url", ["https://example.org/pack.git", "git@example.org:pack.git@v1"])
def test_offline_refuses_an_address(tmp_path: Path, pins: Path, url: str) -> None:
    refusal = refuse(url, "--manifest", pins, "--cache", tmp_path / "cache", "--offline")
    assert isinstance(refusal, UsageFault)
    assert "--offline was given" in refusal.message


@pytest.mark.parametrize("text", ["nothing", "ext::sh -c true", "--upload-pack=x", "nothing@v1", "/none@v1", ""])
def test_what_is_neither_a_directory_nor_an_address(tmp_path: Path, pins: Path, text: str) -> None:
    if text == "":
        text = " "
    refusal = refuse("--manifest", pins, "--cache", tmp_path / "cache", "--", text)
    assert isinstance(refusal, UsageFault)
    assert "neither a directory nor a git URL" in refusal.message


@pytest.mark.parametrize(
    ("text", "repository", "revision"),
    [("https://example.org/a/b.git", "https://example.org/a/b.git", None),
     ("https://example.org/a/b.git@v1.2", "https://example.org/a/b.git", "v1.2"),
     ("https://user@example.org/a/b", "https://user@example.org/a/b", None),
     ("git@example.org:a/b.git", "git@example.org:a/b.git", None),
     ("git@example.org:a/b.git@0a1b2c", "git@example.org:a/b.git", "0a1b2c"),
     ("ssh://git@example.org:22/a@main", "ssh://git@example.org:22/a", "main")],
)  # fmt: skip
def test_sources(text: str, repository: str, revision: str | None) -> None:
    assert parse_git_source(text) == GitSource(repository, revision)
