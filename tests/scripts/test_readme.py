"""The README's command help is what the program says, and its links lead somewhere.

`python -m tests.scripts.test_readme` writes the help anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
README = CHECKOUT / "README.md"
PAGES = [README, CHECKOUT / "CHANGELOG.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"(<!-- help -->\n).*(<!-- /help -->\n)", re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def help_block() -> str:
    run = subprocess.run(
        [sys.executable, "-m", "scripts", "--help"],
        cwd=CHECKOUT,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=True,
    )
    return f"```\n$ evalguest --help\n{run.stdout}```\n"


def with_help(text: str) -> str:
    return _BLOCK.sub(lambda found: found[1] + help_block() + found[2], text)


def test_help_is_what_the_program_says() -> None:
    text = README.read_text()
    assert _BLOCK.search(text)
    assert text == with_help(text), "write it anew: .venv/bin/python -m tests.scripts.test_readme"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(_FENCED.sub("", page.read_text())) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


if __name__ == "__main__":
    README.write_text(with_help(README.read_text()))
