"""`.dockerignore`: what docker's own client (20.10, BuildKit) left out of this tree, rule by rule."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from image.dockerignore import MAX_RULES, is_ignored, parse_ignore_file

TREE = [
    ".hidden",
    "Dockerfile",
    "README-secret.md",
    "README.md",
    "a/.hidden",
    "a/axb",
    "a/b/c.txt",
    "a/b/node_modules/x/i.js",
    "a/x.log",
    "axb",
    "docs/README.md",
    "docs/api/x.md",
    "keep/other",
    "keep/sub/file",
    "logs/a.log",
    "logs/b.txt",
    "star*.txt",
    "starx.txt",
    "top.log",
    "we[ird/f",
]


def left_out(data: bytes) -> set[str]:
    rules = parse_ignore_file(data)
    return {path for path in TREE if is_ignored(path, rules)}


@pytest.mark.parametrize(
    ("ignore_file", "expected"),
    [
        (b"", set()),
        (b"*.log\n", {"top.log"}),
        (b"**/*.log\n", {"top.log", "a/x.log", "logs/a.log"}),
        (b"*\n!keep/sub/file\n", set(TREE) - {"keep/sub/file"}),
        (b"**/node_modules\n", {"a/b/node_modules/x/i.js"}),
        (b"a/*/node_modules\n", {"a/b/node_modules/x/i.js"}),
        (b"a/**\n!a/b/c.txt\n", {"a/.hidden", "a/axb", "a/b/node_modules/x/i.js", "a/x.log"}),
        (b"/keep/\n", {"keep/other", "keep/sub/file"}),
        (b"logs/../keep\n", {"keep/other", "keep/sub/file"}),
        (b"./logs\n", {"logs/a.log", "logs/b.txt"}),
        (b"docs\n!docs/README.md\n", {"docs/api/x.md"}),
        (b"*.md\n!README*.md\nREADME-secret.md\n", {"README-secret.md"}),
        (b"we\\[ird\n", {"we[ird/f"}),
        (b"star\\*.txt\n", {"star*.txt"}),
        (b"star[^x].txt\n", {"star*.txt"}),
        (b"[!a]xb\n", {"axb"}),  # not a negation there
        (b"a?b\n", {"axb"}),
        (b"**/.hidden\n", {".hidden", "a/.hidden"}),
        (b"#*.log\n #top.log\n", set()),
        (b"  top.log  \n", {"top.log"}),
        (b"\xef\xbb\xbftop.log\n", {"top.log"}),
        (b"..\n.\n", set()),
        (b"**/b/**\n", {"a/b/c.txt", "a/b/node_modules/x/i.js"}),
    ],
)
def test_as_docker_does(ignore_file: bytes, expected: set[str]) -> None:
    assert left_out(ignore_file) == expected


def test_too_many_lines_are_refused() -> None:
    assert len(parse_ignore_file(b"x\n" * MAX_RULES)) == MAX_RULES
    with pytest.raises(Refused) as caught:
        parse_ignore_file(b"x\n" * (MAX_RULES + 1))
    assert caught.value.reason == Reason.TASK_UNSUPPORTED


def test_no_rule_takes_long() -> None:
    began = time.monotonic()
    for rule in (b"**/" * 30 + b"b", b"*a" * 60 + b"b", b"**/*a*a*a*a/" * 20 + b"b"):
        assert not is_ignored("/".join(["a" * 100] * 30), parse_ignore_file(rule))
    assert time.monotonic() - began < 5


@given(st.binary(max_size=200), st.sampled_from(TREE))
def test_any_bytes_are_rules(data: bytes, path: str) -> None:
    assert is_ignored(path, parse_ignore_file(data)) in (True, False)


@given(st.text(alphabet="ab*?[]^!\\/.# -\n", max_size=60), st.sampled_from(TREE))
def test_any_pattern_is_a_rule(text: str, path: str) -> None:
    assert is_ignored(path, parse_ignore_file(text.encode())) in (True, False)
