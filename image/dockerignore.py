"""Which files `.dockerignore` leaves out of a build context.

Rules: https://docs.docker.com/build/concepts/context/#dockerignore-files. `**` is taken as any number of directories
where it is a whole part of a path. Matching takes time in proportion to the path, whatever the rules are: they may
come from a stranger.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from guest.errors import Refused
from guest.reason import Reason

MAX_RULES = 1000


@dataclass(frozen=True)
class IgnoreRule:
    """One line: the parts of its pattern as shell globs; a negative one brings back what it matches."""

    parts: tuple[str, ...]
    negative: bool

    def matches(self, path: str) -> bool:
        """Say whether the pattern matches the path or a directory above it."""
        names = path.split("/")
        reached = {0}  # how many names the parts so far can stand for
        for part in self.parts:
            if part == "**":
                reached = set(range(min(reached), len(names) + 1)) if reached else set()
            else:
                reached = {at + 1 for at in reached if at < len(names) and fnmatchcase(names[at], part)}
        return any(reached)


def parse_ignore_file(data: bytes) -> list[IgnoreRule]:
    """Read a `.dockerignore`, whatever its bytes. Raises Refused(TASK_UNSUPPORTED) for more than 1,000 lines."""
    lines = data.decode("utf-8-sig", errors="replace").splitlines()
    if len(lines) > MAX_RULES:
        raise Refused(Reason.TASK_UNSUPPORTED, f".dockerignore has {len(lines)} lines; at most {MAX_RULES} are read")
    rules = []
    for line in lines:
        text = line.strip()
        if line.startswith("#") or not text:
            continue
        pattern = posixpath.normpath(text.removeprefix("!").strip().lstrip("/") or ".")
        if pattern != ".":  # matches nothing, as in docker
            rules.append(IgnoreRule(tuple(_glob(part) for part in pattern.split("/")), text.startswith("!")))
    return rules


def is_ignored(path: str, rules: Sequence[IgnoreRule]) -> bool:
    """Say whether a file is left out: the last rule that matches it decides."""
    return next((not rule.negative for rule in reversed(rules) if rule.matches(path)), False)


def _glob(part: str) -> str:
    r"""Spell one part as the standard library's globs: `\*` is a literal star, `[^a]` is everything but a."""

    def literal(escaped: re.Match[str]) -> str:
        return f"[{escaped[1]}]" if escaped[1] in ("*", "?", "[") else escaped[1]

    def letters(found: re.Match[str]) -> str:
        return f"[!{found[2]}]" if found[1] == "^" else f"[{found[2]}!]"

    return re.sub(r"\[([\^!])([^]]+)\]", letters, re.sub(r"\\(.?)", literal, part))
