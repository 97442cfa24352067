"""Checks the repository by object hashes that the agent cannot choose, and the repaired program on fresh prices."""

import ast
import json
import pathlib
import random
import subprocess

REPOSITORY = "/app/shop"
MAIN = "40a18c7b1c7dbf8973d85420baa929e5cfc15ff5"
TAG = "fe40ea049a4835d9dc2b3a84e18f9e7c84ead267"
CULPRIT = "fb6ea6dc9836ca04c6037adda2a9818b047542db"
BULK = "e77799475830dcbbda7a8cee6d120b332d683c06"


def git(*arguments: str) -> str:
    # Nothing the repository's own configuration says may run a program or bend what is read.
    command = ["git", "--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    command += ["-c", "safe.directory=*", "-c", "core.pager=cat", "-C", REPOSITORY, *arguments]
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_GRAFT_FILE": "/dev/null",
    }
    return subprocess.run(command, check=True, env=env, capture_output=True, text=True, timeout=60).stdout


def table(source: str, name: str) -> dict[str, int]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"no {name}")


def half_up(number: int, scale: int) -> int:
    quotient, rest = divmod(number, scale)
    return quotient + (2 * rest >= scale)


def expected(line: list, coupons: dict[str, int], taxes: dict[str, int]) -> int:
    unit, amount, coupon, land = line
    net = unit * amount
    if coupon is not None:
        net -= half_up(net * coupons[coupon], 100)
    if land is not None:
        net += half_up(net * taxes[land], 1000)
    return net


def test_main_and_the_tag_are_untouched() -> None:
    assert git("rev-parse", "refs/heads/main").strip() == MAIN
    assert git("rev-parse", "refs/tags/v1.0").strip() == TAG
    assert git("tag").split() == ["v1.0"]
    assert git("symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert git("status", "--porcelain", "--untracked-files=all", "--ignored") == ""
    git("fsck", "--full")


def test_the_culprit_is_named() -> None:
    assert pathlib.Path("/app/culprit.txt").read_text().strip() == CULPRIT


def test_repair_is_one_commit_on_main() -> None:
    assert git("rev-list", "--parents", "-n", "1", "refs/heads/repair").split()[1:] == [MAIN]
    assert git("diff-tree", "-r", "--name-status", MAIN, "refs/heads/repair").split() == ["M", "pricing.py"]
    message = git("log", "-1", "--format=%B", "refs/heads/repair").splitlines()
    assert f"Fixes: {CULPRIT}" in [line.strip() for line in message]


def test_repair_computes_every_total(tmp_path: pathlib.Path) -> None:
    before = git("cat-file", "blob", f"{MAIN}:pricing.py")
    coupons, taxes = table(before, "COUPONS"), table(before, "TAXES")
    draw = random.SystemRandom()
    lines: list[list] = [[5, 1, "WELCOME", None], [-5, 1, "WELCOME", None], [25, 1, None, "CH"], [-500, 1, None, "CH"]]
    for size in (100, 10_000, 10**9, 10**15):
        for _ in range(400):
            coupon = draw.choice([None, *coupons])
            land = draw.choice([None, *taxes])
            lines.append([draw.randint(-size, size), draw.randint(1, 1000), coupon, land])
    # Totals that fall on a half exactly, where ways of rounding differ.
    lines += [[10 * draw.randint(-(10**16), 10**16) + 5, 1, "WELCOME", None] for _ in range(300)]
    lines += [[1000 * draw.randint(-(10**5), 10**5) + 500, 1, None, "CH"] for _ in range(300)]
    program = pathlib.Path("/tmp/repaired") / "pricing.py"
    program.parent.mkdir(mode=0o755)
    program.write_text(git("cat-file", "blob", "refs/heads/repair:pricing.py"))
    program.chmod(0o644)
    said = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "python3", "-I", str(program)],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
    )
    assert said.returncode == 0, said.stderr[-2000:]
    totals = [int(word) for word in said.stdout.split()]
    assert len(totals) == len(lines)
    wrong = [
        (line, total, expected(line, coupons, taxes))
        for line, total in zip(lines, totals, strict=True)
        if total != expected(line, coupons, taxes)
    ]
    assert wrong == [], f"{len(wrong)} of {len(lines)}, such as {wrong[:3]}"


def test_the_deleted_branch_is_back() -> None:
    assert git("rev-parse", "refs/heads/bulk").strip() == BULK
    assert sorted(git("for-each-ref", "--format=%(refname)").split()) == [
        "refs/heads/bulk",
        "refs/heads/main",
        "refs/heads/repair",
        "refs/tags/v1.0",
    ]
