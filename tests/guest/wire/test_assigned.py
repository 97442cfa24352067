"""The table of unassigned code points against the Unicode data of an interpreter that carries version 14.0.

`python3.11 -m tests.guest.wire.test_assigned` writes the table anew.
"""

from __future__ import annotations

import textwrap
import unicodedata
from pathlib import Path

import pytest

TABLE = Path(__file__).resolve().parents[3] / "guest" / "wire" / "assigned.py"
BEGIN, END = '_RANGES = """\n', '\n"""\n'


def ranges() -> str:
    """Spell what Unicode leaves unassigned, surrogates included, as `first-last` in hex."""
    found: list[list[int]] = []
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in {"Cn", "Cs"}:
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return textwrap.fill(" ".join(f"{first:X}-{last:X}" for first, last in found), 118, break_on_hyphens=False)


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="this interpreter carries another Unicode version")
def test_the_table_is_what_unicode_14_leaves_unassigned() -> None:
    text = TABLE.read_text()
    assert text.partition(BEGIN)[2].partition(END)[0] == ranges()


if __name__ == "__main__":
    assert unicodedata.unidata_version == "14.0.0"
    before, _, after = TABLE.read_text().partition(BEGIN)
    TABLE.write_text(before + BEGIN + ranges() + END + after.partition(END)[2])
