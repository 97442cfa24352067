"""The published vectors of the wire, as copied from the specification."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((Path(__file__).parent / "wire.json").read_bytes())
    return document


def baseline(section: str) -> list[Any]:
    """The vectors of one section, in the wire's first published form."""
    vectors: list[Any] = _document()["baseline"][section]
    assert vectors, section
    return vectors
