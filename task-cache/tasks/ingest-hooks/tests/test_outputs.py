"""Runs the pipeline on fresh records, as nobody, and compares with a second working-out of the contract."""

import hashlib
import os
import random
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

APP = Path("/app")
KEPT = {
    "conf/ingest.conf": "27de0d97393a64e74f082f3b89af2c7e0a8348223a23e664418e7c471a6110ca",
    "conf/local.d/10-site.conf": "badc5fcf2a3c0413b11fc14a458a56a2ab50f7bc41b261f2264ce8c599880e9e",
    "conf/local.d/20-night.conf": "8c9e4c30f887e7fb0c52965578a22e1174e1084d37496777510d845a7ff25921",
    "docs/contract.md": "2cb1b5a1b4180fc13c4190a1e8b5ab3f5019bdc34929988e25b9eb8ae6728f96",
    "hooks.d/40-purge": "80cc1dacab373f7314f5a7ed997b4374d6521a69f95026d96d9a0b0f333369d5",
    "samples/inbox/first.rec": "ebf33329421d9c80d74cf09bdeb3ac64588dd6e4cb2dc41e918ec54ccadd6ca8",
    "samples/inbox/notes.txt": "dca5a83501fd736845f63f8d5efff93c6541b8a5bd52d84572c4f5a4fad82af5",
    "samples/inbox/round 2/again.rec": "4db001c861553810f1af36621e6aa9f7c7e9a154d0ae3ecce09db6fe3e8711d8",
    "samples/inbox/round 2/second.rec": "a89b1804f2788807cdb8f2e69032ab526fde1923aea9c7a54db7b9aa0d2fbd43",
}
LIMIT = 20000  # what conf/ says, the last file winning
OLD = {b"old.txt": b"from last time\n", b"deep/er.rec": b"x"}

Tree = dict[bytes, bytes]


def normalise(data: bytes) -> bytes:
    text = b"".join(line.rstrip(b" \t") + b"\n" for line in data.replace(b"\r\n", b"\n").split(b"\n"))
    text = text.rstrip(b"\n")
    return text + b"\n" if text else b""


def redact(data: bytes) -> bytes:
    return b"\n".join(b"Token: [redacted]" if s.startswith(b"Token:") else s for s in data.split(b"\n"))


def published(inbox: Tree) -> Tree:
    """What OUTBOX must hold for what INBOX holds."""
    kept: Tree = {}
    for path in sorted(inbox):
        if path.endswith(b".rec") and (data := normalise(inbox[path])) not in kept.values():
            kept[path] = data
    out = {path: redact(data) for path, data in kept.items()}
    index = b""
    for path in sorted(out):
        shown = path.replace(b"\\", rb"\\").replace(b"\t", rb"\t").replace(b"\n", rb"\n")
        digest = hashlib.sha256(out[path]).hexdigest().encode()
        index += b"\t".join([digest, str(len(out[path])).encode(), shown]) + b"\n"
    return {**out, b"INDEX.tsv": index}


def plant(root: bytes, tree: Tree) -> None:
    for path, data in tree.items():
        target = os.path.join(root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Path(os.fsdecode(target)).write_bytes(data)


def harvest(root: bytes) -> Tree:
    tree: Tree = {}
    for folder, folders, names in os.walk(root):
        assert folder == root or folders or names, f"{folder!r} is an empty directory"
        for name in names:
            path = os.path.join(folder, name)
            assert stat.S_ISREG(os.lstat(path).st_mode), f"{path!r} is no regular file"
            tree[os.path.relpath(path, root)] = Path(os.fsdecode(path)).read_bytes()
    return tree


class Place:
    """A scratch directory of user nobody: `in`, `out` and its own directory for temporary files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inbox, self.outbox = os.fsencode(root / "in"), os.fsencode(root / "out")
        (root / "in").mkdir()
        (root / "tmp").mkdir()

    def ingest(self, *args: bytes | str, app: Path = APP, cwd: Path | None = None, umask: int = 0o022):
        for folder, folders, names in os.walk(os.fsencode(self.root)):
            for name in [b".", *folders, *names]:
                os.lchown(os.path.join(folder, name), 65534, 65534)
        return subprocess.run(
            [app / "bin/ingest", *args],
            cwd=cwd or self.root,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": str(self.root / "tmp"), "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            user="nobody",
            group="nogroup",
            extra_groups=[],
            umask=umask,
        )

    def check(self, tree: Tree, **options) -> None:
        """Plant `tree`, ingest it over an older OUTBOX, compare."""
        plant(self.inbox, tree)
        plant(self.outbox, OLD)
        result = self.ingest(self.inbox, self.outbox, **options)
        assert result.returncode == 0, result.stderr[-2000:]
        assert harvest(self.outbox) == published(tree)
        assert harvest(self.inbox) == tree
        self.assert_nothing_left(b"in", b"out")

    def assert_nothing_left(self, *names: bytes) -> None:
        assert sorted(os.listdir(os.fsencode(self.root))) == sorted([*names, b"tmp"])
        assert os.listdir(self.root / "tmp") == []
        assert not [entry.name for entry in os.scandir("/tmp") if entry.stat(follow_symlinks=False).st_uid == 65534]


@pytest.fixture
def place():
    root = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        yield Place(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def copy():
    """A copy of the pipeline somewhere else, under a name with a blank."""
    root = Path(tempfile.mkdtemp(dir="/var/tmp"))
    root.chmod(0o755)
    try:
        yield Path(shutil.copytree(APP, root / "moved here", symlinks=True))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def add_hook(app: Path, name: str, script: str, mode: int = 0o755) -> None:
    path = app / "hooks.d" / name
    path.write_text("#!/bin/bash\n" + script)
    path.chmod(mode)


def some_records(rng: random.Random) -> Tree:
    pieces = [b"Title: a", b"Token: 1234", b"Token:", b" Token: no", b"", b"  ", b"Body:\t", b"caf\xe9 \xff", b"a\rb", b"*"]
    names = [b"plain", b"two words", b"-n", b"new\nline", b"tab\there", b"*", b"back\\slash", b"caf\xc3\xa9", b"\xff\xfe", b".dot", b""]
    folders = [b"", b"sub/", b"a b/c/", b"-rf/", b"sub/deep\ner/", b"x.rec/"]
    tree: Tree = {}
    for _ in range(18):
        ends = rng.choice([b"\n", b"\r\n"])
        data = ends.join(rng.choice(pieces) for _ in range(rng.randrange(5))) + rng.choice([b"", ends, ends * 3])
        suffix = rng.choice([b".rec", b".rec", b".rec", b".rec", b".txt", b".REC", b".rec~"])
        tree[rng.choice(folders) + rng.choice(names) + suffix] = data
    return tree


@pytest.mark.parametrize("path", KEPT)
def test_what_must_stay_has_stayed(path):
    assert hashlib.sha256((APP / path).read_bytes()).hexdigest() == KEPT[path]


def test_purge_is_still_disabled_and_the_others_are_not():
    modes = {p.name: bool(p.stat().st_mode & 0o111) for p in (APP / "hooks.d").iterdir() if p.is_file() and p.suffix == ""}
    wanted = ["10-normalise", "20-dedupe", "25-redact", "30-index", "50-check"]
    assert modes.get("40-purge") is False
    assert sorted(name for name, enabled in modes.items() if enabled and "~" not in name) == wanted


def test_samples(place):
    place.check(harvest(os.fsencode(APP / "samples/inbox")))


@pytest.mark.parametrize("_", range(3))
def test_fresh_records(place, _):
    seed = random.SystemRandom().getrandbits(64)
    print("seed", seed)
    place.check(some_records(random.Random(seed)))


def test_equal_records_in_every_order(place):
    names = [b"b.rec", b"a.rec", b"B/z.rec", b"a/z.rec", b"a-1.rec", b"9.rec", b"10.rec"]
    place.check({name: b"same" for name in names} | {b"a0.rec": b"other"})


def test_records_that_are_equal_only_once_redacted_both_stay(place):
    place.check({b"a.rec": b"Token: 1\n", b"b.rec": b"Token: 2\n"})


def test_links_are_neither_taken_nor_followed(place):
    plant(place.inbox, {b"a.rec": b"a\n", b"else.txt": b"b\n"})
    os.symlink("else.txt", place.inbox + b"/link.rec")
    os.symlink("/app/samples/inbox", place.inbox + b"/inbox.rec")
    result = place.ingest(place.inbox, place.outbox)
    assert result.returncode == 0, result.stderr
    assert harvest(place.outbox) == published({b"a.rec": b"a\n"})


def test_empty_inbox_and_no_outbox_yet(place):
    assert place.ingest(place.inbox, place.outbox).returncode == 0
    assert harvest(place.outbox) == {b"INDEX.tsv": b""}
    place.assert_nothing_left(b"in", b"out")


def test_relative_paths_with_slashes_and_blanks(place):
    plant(place.inbox, {b"x y.rec": b"1\n"})
    os.rename(place.inbox, place.inbox + b" box")
    result = place.ingest("./in box/", "my out/")
    assert result.returncode == 0, result.stderr
    assert harvest(os.fsencode(place.root / "my out")) == published({b"x y.rec": b"1\n"})
    place.assert_nothing_left(b"in box", b"my out")


def test_modes_do_not_follow_the_umask(place):
    place.check({b"a/b/c.rec": b"1\n"}, umask=0o077)
    for path in [place.root / "out", *(place.root / "out").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


@pytest.mark.parametrize("arguments", [(), ("in",), ("in", "out", "more"), ("in/a.rec", "out"), ("nowhere", "out")])
def test_wrong_calls(place, arguments):
    plant(place.inbox, {b"a.rec": b"1\n"})
    plant(place.outbox, OLD)
    result = place.ingest(*arguments)
    assert result.returncode == 2
    assert result.stderr.strip()
    assert harvest(place.outbox) == OLD
    place.assert_nothing_left(b"in", b"out")


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
def test_limit(place, size):
    tree = {b"the large one.rec": b"x" * (size - 1) + b"\n", b"small.rec": b"1\n"}
    if size == LIMIT:
        return place.check(tree)
    plant(place.inbox, tree)
    plant(place.outbox, OLD)
    result = place.ingest(place.inbox, place.outbox)
    assert result.returncode == 3
    assert b"ingest: 50-check failed" in result.stderr.split(b"\n")
    assert harvest(place.outbox) == OLD
    place.assert_nothing_left(b"in", b"out")


@pytest.mark.parametrize(
    ("delivered", "local", "limit"),
    [
        ("MAX_BYTES=9\n", {}, 9),
        ("MAX_BYTES=9\n", {"b.conf": " MAX_BYTES =  100 # more\n", "a.conf": "MAX_BYTES=7", "c.off": "MAX_BYTES=1\n"}, 100),
        ("MAX_BYTES=9\n# MAX_BYTES=5\nXMAX_BYTES=6\nMAX_BYTES_X=7\n", {"a.conf": "OTHER=3\n"}, 9),
    ],
)
def test_other_settings(place, copy, delivered, local, limit):
    shutil.rmtree(copy / "conf/local.d")
    (copy / "conf/local.d").mkdir()
    (copy / "conf/ingest.conf").write_text(delivered)
    for name, text in local.items():
        (copy / "conf/local.d" / name).write_text(text)
    plant(place.inbox, {b"a.rec": b"x" * (limit - 1) + b"\n"})
    assert place.ingest(place.inbox, place.outbox, app=copy).returncode == 0
    plant(place.inbox, {b"a.rec": b"x" * limit + b"\n"})
    assert place.ingest(place.inbox, place.outbox, app=copy).returncode == 3


def test_which_hooks_run_and_in_what_order(place, copy):
    count = 'cd "$1" && find . -name "*.rec" | wc -l >> ORDER\n'
    add_hook(copy, "100-early", "echo 100 >> \"$1/ORDER\"\n" + count)  # before 20-dedupe in byte order
    add_hook(copy, "99-late", "echo 99 >> \"$1/ORDER\"\n" + count)
    add_hook(copy, "9 a", "echo 9a >> \"$1/ORDER\"\n")
    for name, mode in [("60-off", 0o644), ("60-dot.sh", 0o755), ("60-tilde~", 0o755)]:
        add_hook(copy, name, "exit 1\n", mode)
    (copy / "hooks.d/70-folder").mkdir()
    tree = {b"a.rec": b"1\n", b"b.rec": b"1\n"}
    plant(place.inbox, tree)
    result = place.ingest(place.inbox, place.outbox, app=copy, cwd=Path("/"))
    assert result.returncode == 0, result.stderr
    assert harvest(place.outbox) == published(tree) | {b"ORDER": b"100\n2\n9a\n99\n1\n"}


@pytest.mark.parametrize("there_before", [True, False])
def test_a_failing_hook_changes_nothing(place, copy, there_before):
    add_hook(copy, "45 odd", 'echo made > "$1/made"; echo words; echo more >&2; exit 7\n')
    add_hook(copy, "60-later", f"touch {place.root}/ran\n")
    plant(place.inbox, {b"a.rec": b"1\n"})
    if there_before:
        plant(place.outbox, OLD)
    result = place.ingest(place.inbox, place.outbox, app=copy)
    assert result.returncode == 3
    assert b"ingest: 45 odd failed" in result.stderr.split(b"\n")
    if there_before:
        assert harvest(place.outbox) == OLD
    place.assert_nothing_left(b"in", *[b"out"] * there_before)


def test_the_copy_does_not_use_the_original(place, copy):
    add_hook(copy, "20-dedupe", ":\n")
    plant(place.inbox, {b"a.rec": b"1\n", b"b.rec": b"1\n"})
    assert place.ingest(place.inbox, place.outbox, app=copy).returncode == 0
    assert {b"a.rec", b"b.rec"} < set(harvest(place.outbox))
