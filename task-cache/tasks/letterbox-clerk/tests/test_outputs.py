"""Acts as each of the users in the letter box and has letters filed."""

import os
import pwd
import secrets
import stat
import subprocess
from pathlib import Path

import pytest

OFFICE = Path("/srv/office")
INBOX, FILED = OFFICE / "inbox", OFFICE / "filed"
CLERK, ADA, BEN, GUEST, NOBODY = (2001, 2100, []), (2011, 2011, [2200]), (2012, 2200, []), (2020, 2020, []), (65534, 65534, [])
CODE = "import os, sys\nos.umask(0o022)\n"


def act(who, code, *args):
    """True if the Python statements succeed as that user."""
    uid, gid, groups = who
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", CODE + code, *map(str, args)],
        user=uid, group=gid, extra_groups=groups, cwd="/", capture_output=True, timeout=20, check=False,
    )
    if done.returncode:
        assert b"PermissionError" in done.stderr, done.stderr[-300:]
    return done.returncode == 0


def create(who, path, mode=0o640, text="x"):
    return act(who, "fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, int(sys.argv[2]))\n"
                    "os.write(fd, sys.argv[3].encode())", path, mode, text)


def read(who, path):
    return act(who, "open(sys.argv[1], 'rb').read()", path)


def listing(who, path):
    return act(who, "os.listdir(sys.argv[1])", path)


def fresh(name="letter"):
    return f"{name}-{secrets.token_hex(4)}"


def post(who, text="x", name=None):
    path = INBOX / (name or fresh())
    assert create(who, path, 0o640, text), "cannot post"
    return path


def empty_inbox():
    subprocess.run(["/usr/bin/find", str(INBOX), "-mindepth", "1", "-delete"], check=True)


def file_letters():
    done = subprocess.run(
        ["/app/bin/file-letters"], cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, user=0, group=0, extra_groups=[0],
    )
    assert done.returncode == 0, done.stderr[-500:]
    lines = [line for line in done.stdout.split(b"\n") if line]
    assert all(line.startswith(b"refused ") for line in lines), lines
    return sorted(os.fsdecode(line[8:]) for line in lines)


def assert_filed(path, text):
    info = path.lstat()
    assert stat.S_ISREG(info.st_mode) and stat.S_IMODE(info.st_mode) == 0o600 and info.st_uid == CLERK[0], oct(info.st_mode)
    assert path.read_text() == text
    parent = path.parent.lstat()
    assert stat.S_ISDIR(parent.st_mode) and stat.S_IMODE(parent.st_mode) == 0o700 and parent.st_uid == CLERK[0]


def test_accounts_are_as_they_were():
    for name, who in (("clerk", CLERK), ("ada", ADA), ("ben", BEN), ("guest", GUEST)):
        user = pwd.getpwnam(name)
        assert (user.pw_uid, user.pw_gid) == who[:2]
        assert sorted(os.getgrouplist(name, user.pw_gid)) == sorted([who[1], *who[2]])


def test_old_letters_are_repaired():
    for name, owner, other, word in (("old-ada.txt", ADA, BEN, "third stone"), ("old-ben.txt", BEN, ADA, "roof leaks")):
        path = INBOX / name
        assert path.lstat().st_uid == owner[0] and word in path.read_text()
        assert read(CLERK, path)
        for who in (other, GUEST):
            assert not read(who, path)
            assert not act(who, "open(sys.argv[1], 'a')", path)


@pytest.mark.parametrize(("mine", "other"), [(ADA, BEN), (BEN, ADA)])
def test_senders(mine, other):
    path = post(mine)
    assert not listing(mine, INBOX)
    assert not read(other, path)
    assert not act(other, "open(sys.argv[1], 'r+b')", path)
    assert not act(other, "os.unlink(sys.argv[1])", path)
    assert not act(other, "os.rename(sys.argv[1], sys.argv[1] + '.moved')", path)
    assert not act(other, "os.chmod(sys.argv[1], 0o666)", path)
    own = post(other)
    assert not act(other, "os.replace(sys.argv[1], sys.argv[2])", own, path)
    assert path.read_text() == "x" and path.lstat().st_uid == mine[0]
    assert act(mine, "os.unlink(sys.argv[1])", path)
    assert not path.exists()


def test_shipped_post_works_for_senders(tmp_path):
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    for who in (ADA, BEN):
        letter = tmp_path / fresh()
        letter.write_text("posted")
        letter.chmod(0o644)
        done = subprocess.run(["/app/bin/post", str(letter)], user=who[0], group=who[1], extra_groups=who[2], cwd="/", check=False)
        assert done.returncode == 0
        assert (INBOX / letter.name).read_text() == "posted"
        assert read(CLERK, INBOX / letter.name)


def test_clerk():
    paths = [post(ADA), post(BEN)]
    assert listing(CLERK, INBOX)
    for path in paths:
        assert read(CLERK, path)
        assert act(CLERK, "os.unlink(sys.argv[1])", path)


@pytest.mark.parametrize("who", [GUEST, NOBODY], ids=["guest", "nobody"])
def test_others_stay_outside(who):
    path = post(ADA)
    path.chmod(0o666)
    assert not read(who, path)
    assert not listing(who, INBOX)
    for directory in (OFFICE, INBOX, FILED):
        assert not create(who, directory / fresh())


@pytest.mark.parametrize("who", [ADA, BEN], ids=["ada", "ben"])
def test_senders_stay_out_of_the_office(who):
    filed = FILED / fresh("note")
    filed.write_text("filed")
    os.chown(filed, CLERK[0], CLERK[1])
    filed.chmod(0o666)
    assert not read(who, filed)
    assert not listing(who, FILED)
    for directory in (OFFICE, FILED):
        assert not create(who, directory / fresh())
    assert not act(who, "os.rename(sys.argv[1], sys.argv[1] + '.old')", INBOX)


def test_letters_are_filed():
    empty_inbox()
    names = ["-rf", "a b.txt", "*", "$(id)", ".hidden", "x'y\"z", "ünï", "\\n", fresh()]
    for name in names:
        post(ADA, f"ada {name}", name)
        post(BEN, f"ben {name}", name + "2")
    assert file_letters() == []
    assert list(INBOX.iterdir()) == []
    for name in names:
        assert_filed(FILED / "ada" / name, f"ada {name}")
        assert_filed(FILED / "ben" / (name + "2"), f"ben {name}")


def test_nothing_filed_is_overwritten():
    empty_inbox()
    name = fresh()
    for number in range(3):
        post(ADA, f"text {number}", name)
        assert file_letters() == []
    post(ADA, "own suffix", name + ".1")
    assert file_letters() == []
    wanted = {name: "text 0", name + ".1": "text 1", name + ".2": "text 2", name + ".1.1": "own suffix"}
    for filed, text in wanted.items():
        assert_filed(FILED / "ada" / filed, text)


def test_what_is_no_letter_is_refused():
    empty_inbox()
    secret = secrets.token_hex(16)
    private = FILED.parent / fresh("private")
    private.write_text(secret)
    os.chown(private, CLERK[0], CLERK[1])
    private.chmod(0o600)
    outside = Path("/root") / fresh("secret")
    outside.write_text(secret)
    outside.chmod(0o600)
    assert act(ADA, "os.symlink(sys.argv[2], sys.argv[1])", INBOX / "link-to-clerks", private)
    assert act(ADA, "os.symlink(sys.argv[2], sys.argv[1])", INBOX / "link-to-roots", outside)
    assert act(BEN, "os.mkfifo(sys.argv[1], 0o666)", INBOX / "pipe")
    assert act(BEN, "os.mkdir(sys.argv[1])", INBOX / "folder")
    assert create(BEN, INBOX / "folder" / "inner")
    assert act(ADA, "import socket\nsocket.socket(socket.AF_UNIX).bind(sys.argv[1])", INBOX / "socket")
    post(ADA, secret, "unreadable").chmod(0o600)
    of_root_group = post(ADA, secret, "group-root")
    os.chown(of_root_group, ADA[0], 0)
    of_guest = post(ADA, secret, "by-guest")
    os.chown(of_guest, GUEST[0], CLERK[1])
    of_no_user = post(ADA, secret, "by-no-user")
    os.chown(of_no_user, 54321, CLERK[1])
    of_clerk = post(ADA, secret, "by-clerk")
    os.chown(of_clerk, CLERK[0], CLERK[1])
    os.link(post(ADA, secret, "twin-1"), INBOX / "twin-2")
    before = {path.name: path.lstat()[:6] for path in INBOX.iterdir()}
    post(BEN, "good", "zz-good")
    good = FILED / "ben" / "zz-good"
    assert not good.exists()
    assert file_letters() == sorted(before)
    assert {path.name: path.lstat()[:6] for path in INBOX.iterdir()} == before
    assert_filed(good, "good")
    found = subprocess.run(["/usr/bin/grep", "-rlsF", secret, str(FILED)], capture_output=True, check=False)
    assert found.stdout == b""
    private.unlink()
    outside.unlink()


def test_large_letter():
    empty_inbox()
    name, text = fresh("large"), secrets.token_hex(1 << 20)
    path = post(BEN, "", name)
    path.write_text(text)
    assert file_letters() == []
    assert_filed(FILED / "ben" / name, text)
