"""The documents name things that exist: files, tests, and the targets of their links."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
DOCUMENTS = [CHECKOUT / "README.md", CHECKOUT / "CHANGELOG.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
TEST = re.compile(r"`(tests/[\w/]+\.py|…)::(\w+)`")
PLACE = re.compile(r"`((?:guest|image|scripts|tests|task-cache|docs)/[\w./-]+)`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_places_exist(document: Path) -> None:
    text = document.read_text()
    for target in LINK.findall(text):
        assert (document.parent / target).exists(), target
    for place in PLACE.findall(text):
        # Written by a command when images are pinned, so not there from the start.
        if place != "task-cache/images.json":
            assert (CHECKOUT / place.split("::")[0]).exists(), place


def test_each_promise_names_a_test_that_exists() -> None:
    text = (CHECKOUT / "docs" / "specification.md").read_text()
    named = TEST.findall(text)
    assert len(named) >= 9
    for line in text.splitlines():
        last = ""
        for where, name in TEST.findall(line):
            # A row that goes on with "…" means the file the section named last.
            last = where if where != "…" else last or "tests/guest/trial/test_lifecycle.py"
            assert f"def {name}(" in (CHECKOUT / last).read_text(), (last, name)


def test_each_decision_is_listed() -> None:
    folder = CHECKOUT / "docs" / "adr"
    listed = (folder / "README.md").read_text()
    for page in folder.glob("0*.md"):
        title = page.read_text().splitlines()[0]
        assert title.startswith(f"# {page.name[:4]} · ")
        assert f"[{page.name[:4]}]({page.name})" in listed
