"""Valid records from the published vectors, and changes to them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parents[2] / "conformance" / "wire.json"


@cache
def vectors() -> Any:
    return json.loads(VECTORS.read_bytes())


def valid(section: str, at: int = 0, *, revision: str = "baseline") -> dict[str, Any]:
    """A fresh copy of a published valid record."""
    record: dict[str, Any] = copy.deepcopy(vectors()[revision][section]["valid"][at]["input"])
    return record


def plan(at: int = 0) -> dict[str, Any]:
    return valid("eval_plan", at)


def later_plan() -> dict[str, Any]:
    return valid("eval_plan", revision="later_revision")


def request() -> dict[str, Any]:
    return valid("result_request")


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every member and item inside a record, containers included."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*path, name)
        yield from leaves(inner, (*path, name))


def get(record: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        record = record[part]
    return record


def changed(record: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy in which one member has another value."""
    made = copy.deepcopy(record)
    get(made, path[:-1])[path[-1]] = value
    return made


def without(record: Any, path: tuple[str | int, ...]) -> Any:
    made = copy.deepcopy(record)
    del get(made, path[:-1])[path[-1]]
    return made
