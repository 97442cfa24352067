"""The lock of Python packages: whole, by hash, from nowhere in particular, and what these tests run with."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
ROOMS = ("guest", "image", "compose", "validator", "scripts", "tests")
LOCK = (CHECKOUT / "requirements.lock").read_text()
ENTRY = re.compile(
    r"^(?P<name>[a-z0-9-]+)==(?P<version>[0-9][0-9a-z.]*)(?: ; (?P<marker>[^\\\n]+))? "
    r"\\\n(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)
ENTRIES = {found["name"]: found for found in ENTRY.finditer(LOCK)}


def test_every_line_is_a_version_a_hash_or_a_remark() -> None:
    rest = re.sub(r"^ *#.*\n", "", ENTRY.sub("", LOCK), flags=re.MULTILINE)
    assert rest == ""
    assert "://" not in LOCK


def test_every_requirement_is_locked() -> None:
    wanted = {line for line in (CHECKOUT / "requirements.in").read_text().splitlines() if line and line[0] != "#"}
    assert wanted
    assert wanted <= set(ENTRIES)


@pytest.mark.parametrize("name", sorted(name for name, entry in ENTRIES.items() if "win32" not in str(entry["marker"])))
def test_what_runs_is_what_is_locked(name: str) -> None:
    assert importlib.metadata.version(name) == ENTRIES[name]["version"]
    needs = [need for need in importlib.metadata.requires(name) or [] if "extra ==" not in need]
    missing = {re.split(r"[^A-Za-z0-9._-]", need)[0].lower().replace("_", "-") for need in needs} - set(ENTRIES)
    assert {need for need in missing if _installed(need)} == set()


def test_every_import_is_a_requirement_or_comes_with_one() -> None:
    provided = importlib.metadata.packages_distributions()
    imported: set[str] = set()
    for room in ROOMS:
        for file in (CHECKOUT / room).rglob("*.py"):
            if "packs" in file.parts or (room == "tests" and "tasks" in file.relative_to(CHECKOUT / room).parts[:1]):
                continue
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    imported.add(node.module.partition(".")[0])
    foreign = imported - set(sys.stdlib_module_names) - set(ROOMS)
    locked = {name.lower().replace("_", "-") for module in foreign for name in provided.get(module, [f"({module})"])}
    assert locked - set(ENTRIES) == set()


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
