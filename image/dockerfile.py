"""What a Dockerfile needs of its builder: the engine's classic builder lacks what came with BuildKit.

Grammar: https://docs.docker.com/reference/dockerfile/ (parser directives, escape, flags, here-documents).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_DIRECTIVE = re.compile(r"\s*#\s*([A-Za-z]+)\s*=\s*(\S+)\s*", re.ASCII)
_CLASSIC_FLAGS = {"RUN": frozenset[str](), "COPY": frozenset({"from", "chown"}), "ADD": frozenset({"chown"})}
_INSTRUCTION = re.compile(r"(?:ONBUILD\s+)?([A-Za-z]+)\s+", re.ASCII | re.IGNORECASE)
_FLAG = re.compile(r"--([a-z-]+)(?:=\S*)?\s*", re.ASCII | re.IGNORECASE)
# Every quote ends, at the latest with the line, so no text makes the search go back.
_WORD = re.compile(r"""(?:\\.|"(?:\\.|[^"\\]|\\$)*(?:"|$)|'[^']*(?:'|$)|[^\s"'])+""")
_HERE_DOCUMENT = re.compile(r"\d*<<-?[^<]+")


def needs_of_buildkit(dockerfile: bytes) -> list[str]:
    """Name what the classic builder lacks, each with its line: `line 3: RUN --mount`. Empty when it can build the file.

    Any bytes are taken. What follows a here-document is not looked at.
    """
    text = dockerfile.decode("utf-8-sig", errors="replace")
    directives, start = _directives(text.splitlines())
    needs = [f"line {line}: # syntax={value}" for name, value, line in directives if name == "syntax"]
    escape = next((value for name, value, _ in directives if name == "escape" and value == "`"), "\\")
    for line, instruction in _instructions(text.splitlines(), start, escape):
        start_of = _INSTRUCTION.match(instruction)
        known = _CLASSIC_FLAGS.get(start_of[1].upper()) if start_of else None
        if start_of is None or known is None:
            continue
        word, at = start_of[1].upper(), start_of.end()
        while flag := _FLAG.match(instruction, at):
            if flag[1].lower() not in known:
                needs.append(f"line {line}: {word} --{flag[1].lower()}")
            at = flag.end()
        if has_here_document(instruction[at:]):
            needs.append(f"line {line}: {word} with a here-document")
            break
    return needs


def has_here_document(arguments: str) -> bool:
    """Say whether a word of the arguments starts a here-document, as BuildKit's parser has it."""
    return any(_HERE_DOCUMENT.fullmatch(word) for word in _WORD.findall(arguments))


def _directives(lines: list[str]) -> tuple[list[tuple[str, str, int]], int]:
    """Give the parser directives (name, value, line from 1) and the index of the first other line, which ends them."""
    found: list[tuple[str, str, int]] = []
    for index, line in enumerate(lines):
        directive = _DIRECTIVE.fullmatch(line)
        if directive is None:
            return found, index
        found.append((directive[1].lower(), directive[2], index + 1))
    return found, len(lines)


def _instructions(lines: list[str], start: int, escape: str) -> Iterator[tuple[int, str]]:
    """Join continued lines; comments and blank lines between them do not end an instruction."""
    parts: list[str] = []
    first = 0
    for index, line in enumerate(lines[start:], start + 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        first = first if parts else index
        stripped = line.rstrip()
        parts.append(stripped.removesuffix(escape).strip())
        if not stripped.endswith(escape):
            yield first, " ".join(parts)
            parts = []
    if parts:
        yield first, " ".join(parts)
