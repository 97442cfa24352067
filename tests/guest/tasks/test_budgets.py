"""Budgets: the closed file, and what a task without an entry gets."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused, UsageFault
from guest.reason import Reason
from guest.tasks.budgets import Budget, budget_for, budgets_document, load_budgets
from guest.tasks.definition import TaskDefinition, parse_task_toml
from guest.tasks.json_file import write_json
from tests.guest.tasks.packs import LEGACY_TOML, MODERN_TOML

LEGACY = parse_task_toml(LEGACY_TOML.encode(), directory_name="legacy")
MODERN = parse_task_toml(MODERN_TOML.encode(), directory_name="modern")

ENTRY: dict[str, Any] = {
    "agent_cpu_sec": 10,
    "verifier_cpu_sec": 20.5,
    "agent_wall_sec": 30,
    "verifier_wall_sec": 40,
    "isolation": "isolated",
    "network": "verifier",
}


def test_without_an_entry_the_definition_decides() -> None:
    budget = budget_for(LEGACY, None, attested=False, chosen=False)
    # 60 s and 120 s at 2 CPUs, three times as much wall time.
    assert (budget.agent_cpu_sec, budget.verifier_cpu_sec) == (120.0, 240.0)
    assert (budget.agent_wall_sec, budget.verifier_wall_sec) == (180.0, 360.0)
    assert (budget.isolation, budget.network) == ("shared", "both")
    half = budget_for(MODERN, None, attested=False, chosen=False)
    assert (half.agent_cpu_sec, half.agent_wall_sec, half.network) == (45.0, 270.0, "none")


@pytest.mark.parametrize(
    ("task", "entry", "attested", "chosen", "network"),
    [(LEGACY, None, True, False, "none"),
     (LEGACY, "verifier", True, False, "verifier"),
     (LEGACY, "none", False, False, "both"),
     (MODERN, "both", False, False, "none"),
     (MODERN, "both", False, True, "both"),
     (MODERN, "both", True, False, "both")],
)  # fmt: skip
def test_who_decides_about_the_network(
    task: TaskDefinition, entry: str | None, attested: bool, chosen: bool, network: str
) -> None:
    measured = Budget(**(ENTRY | {"network": entry})) if entry else None
    assert budget_for(task, measured, attested=attested, chosen=chosen).network == network


def test_an_entry_decides_everything_else() -> None:
    budget = budget_for(LEGACY, Budget(**ENTRY), attested=False, chosen=False)
    assert budget.model_dump() == ENTRY | {"network": "both"}


def test_write_and_read(tmp_path: Path) -> None:
    path = tmp_path / "budgets.json"
    write_json(path, budgets_document({"a": Budget(**ENTRY)}))
    assert load_budgets(path) == {"a": Budget(**ENTRY)}
    assert json.loads(path.read_text()) == {"schema": "evalguest-budgets/1", "tasks": {"a": ENTRY}}


@pytest.mark.parametrize(
    "change",
    [{"agent_cpu_sec": 0}, {"agent_cpu_sec": -1}, {"agent_cpu_sec": True}, {"agent_cpu_sec": "1"},
     {"agent_cpu_sec": None}, {"agent_wall_sec": 1e10}, {"isolation": "none"}, {"network": True},
     {"network": "public"}, {"extra": 1}],
)  # fmt: skip
def test_entries_out_of_form(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "budgets.json"
    path.write_text(json.dumps({"schema": "evalguest-budgets/1", "tasks": {"a": ENTRY | change}}))
    with pytest.raises(Refused, match=rf"tasks\.a\.{next(iter(change))}") as refusal:
        load_budgets(path)
    assert refusal.value.reason == Reason.BUDGETS_MALFORMED


@pytest.mark.parametrize("member", list(ENTRY))
def test_every_member_is_required(tmp_path: Path, member: str) -> None:
    path = tmp_path / "budgets.json"
    entry = {key: value for key, value in ENTRY.items() if key != member}
    path.write_text(json.dumps({"schema": "evalguest-budgets/1", "tasks": {"a": entry}}))
    with pytest.raises(Refused, match=rf"tasks\.a\.{member}: Field required"):
        load_budgets(path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": "evalguest-budgets/2", "tasks": {}}', '{"schema": "evalguest-budgets/1"}',
     '{"schema": "evalguest-budgets/1", "tasks": {}, "tracks": {}}',
     '{"schema": "evalguest-budgets/1", "tasks": {}, "tasks": {}}',
     '{"schema": "evalguest-budgets/1", "tasks": {"terminal-bench/a": {}}}',
     '{"schema": "evalguest-budgets/1", "tasks": {"a": NaN}}', "[" * 100_000, "9" * 5000],
)  # fmt: skip
def test_files_out_of_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "budgets.json"
    path.write_text(text)
    with pytest.raises(Refused) as refusal:
        load_budgets(path)
    assert refusal.value.reason == Reason.BUDGETS_MALFORMED
    assert str(path) in refusal.value.message


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="cannot be read"):
        load_budgets(tmp_path / "none.json")


_TEXT = st.text('as"\\\0\ud800é', max_size=5)
_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["schema", "tasks", "x"]), _JSON), st.dictionaries(st.sampled_from([*ENTRY]), _JSON)
)
def test_no_document_crashes_it(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any], change: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "budgets.json"
    for each in (document, {"schema": "evalguest-budgets/1", "tasks": {"a": ENTRY | change}}):
        path.write_text(json.dumps(each))
        with suppress(Refused):
            load_budgets(path)
