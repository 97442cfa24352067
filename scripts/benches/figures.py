"""A measured figure: several values, their median and range, and what they are compared with."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One row of a bench: values of one quantity, and in words what the median is compared with."""

    name: str
    unit: str
    values: Sequence[float]
    compared_with: str = ""

    def row(self) -> dict[str, object]:
        """Give the row as a JSON object."""
        return {
            "name": self.name,
            "unit": self.unit,
            "n": len(self.values),
            "median": round(statistics.median(self.values), 4),
            "min": round(min(self.values), 4),
            "max": round(max(self.values), 4),
            "compared_with": self.compared_with,
        }


def print_figures(figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print the figures on stdout, as one JSON document or as a table."""
    rows = [figure.row() for figure in figures]
    if as_json:
        sys.stdout.write(json.dumps({"schema_version": 1, "figures": rows}, indent=2) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("figure", "unit", "n", "median", "min", "max", "compared with"):
        table.add_column(name, justify="left" if name in {"figure", "unit", "compared with"} else "right")
    for row in rows:
        table.add_row(*(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row.values()))
    Console(soft_wrap=True).print(table)
