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
    lines = [[name.replace("_", " ") for name in rows[0]]]
    lines += [[f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, unit, *numbers, compared_with in lines:
        cells = [name.ljust(widths[0]), unit.ljust(widths[1])]
        cells += [number.rjust(width) for number, width in zip(numbers, widths[2:], strict=False)]
        print("  ".join([*cells, compared_with]).rstrip())
