"""Checks both files against a second working-out of the rules, and that one against figures worked out by hand."""

import csv
import hashlib
import io
import re
from functools import cache
from pathlib import Path

import pytest

DATA, OUT = Path("/app/data"), Path("/app/out")
ORIGINALS = {
    "corrections.log": "ffae073f222bdd871168889ed833b87dee98245a90d6f4fc3616fc667d06a5a4",
    "meters.ini": "ed5bef6ad2858e0fddcb9af6d8ed06bedfbd7d83a6c248d381f2ab46b35270b3",
    "readings/harbour.log": "60dd9c5b82f6f6686f785ff50dcd09cbb770b100b2cecc739a75086651e7f852",
    "readings/north.csv": "f727488cfaf247fa0444fd9ada7f1947ab63fcfbaa584ce9927e425d1e46dac0",
    "readings/south.csv": "4b4e73e5e14c017a35e7ef91d246b006f8d3bcf803a439d60c01eb62870c1416",
}
DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]  # no leap year among the readings
SCALE = {"m3": 1000, "hL": 100, "L": 1}


def original(name: str) -> bytes:
    data = (DATA / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == ORIGINALS[name], f"{name} was changed"
    return data


def register() -> dict[str, dict[str, str]]:
    sections: dict[str, dict[str, str]] = {}
    for line in original("meters.ini").decode().splitlines():
        line = line.strip()
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), {})
        elif line and line[0] not in "#;":
            key, _, value = line.partition("=")
            current[key.strip().lower()] = value.strip()
    default = sections.pop("DEFAULT")
    return {meter: {**default, **own} for meter, own in sections.items()}


def millis(text: str) -> int:
    """A plain decimal with a point, in millionths."""
    whole, _, part = text.partition(".")
    return int(whole) * 10**6 + int((part + "000000")[:6])


def minute_of(day: str, clock: str, hours_ahead: int) -> int:
    """Minutes (fractions dropped) since the start of 2025, UTC, for yyyy-mm-dd and hh:mm."""
    y, m, d = map(int, day.split("-"))
    h, minute = int(clock[:2]), int(clock[3:5])
    days = (y - 2025) * 365 + sum(DAYS[: m - 1]) + d - 1
    return (days * 24 + h - hours_ahead) * 60 + minute


def iso(text: str, source: str) -> str | None:
    """The date as yyyy-mm-dd, or None where there is no such day."""
    parts = text.split(".")[::-1] if source == "north.csv" else text.split("-")
    y, m, d = (int(part) for part in parts)
    return f"{y}-{m:02d}-{d:02d}" if 1 <= m <= 12 and 1 <= d <= DAYS[m - 1] else None


def gather() -> list[tuple[str, str, str, str | None, int]]:
    """(source, meter, date text, plain value or None, recorded) in the order of the sources."""
    found = []
    for line in original("readings/north.csv").decode("cp1252").splitlines()[1:]:
        meter, day, value, recorded = line.split(";")
        at = iso(recorded[:10], "north.csv")
        plain = value.replace(",", ".") if re.fullmatch("[0-9]+(,[0-9]+)?", value) else None
        found.append(("north.csv", meter.strip().upper(), day, plain, minute_of(at, recorded[11:], 1)))
    rows = csv.reader(io.StringIO(original("readings/south.csv").decode("utf-8").removeprefix("\ufeff")))
    assert next(rows) == ["meter", "reading", "date", "recorded_at", "note"]
    for meter, value, day, recorded, _ in rows:
        plain = None
        if re.fullmatch(r"([0-9]+|[0-9]{1,3}(,[0-9]{3})*)(\.[0-9]+)?", value):
            plain = value.replace(",", "")
        found.append(("south.csv", meter.strip().upper(), day, plain, minute_of(recorded[:10], recorded[11:], 0)))
    harbour: list = []
    for line in original("readings/harbour.log").decode().splitlines():
        recorded, program, *words = line.split()
        if not program.startswith("harbourd[") or words[0] not in ("READ", "RETRACT"):
            continue
        pair = dict(word.replace('"', "").split("=") for word in words[1:])
        meter = pair["meter"].upper()
        if words[0] == "RETRACT":
            harbour = [one for one in harbour if one[1:3] != (meter, pair["date"])]
            continue
        plain = pair["value"] if re.fullmatch(r"[0-9]+(\.[0-9]+)?", pair["value"]) else None
        harbour.append(("harbour.log", meter, pair["date"], plain, minute_of(recorded[:10], recorded[11:], 0)))
    return found + harbour


@cache
def expected() -> tuple[list[str], list[str]]:
    """The lines of usage.csv and rejects.csv, headers left out."""
    meters = register()
    scale = {meter: SCALE[entry["unit"]] for meter, entry in meters.items()}
    size = {meter: 10 ** int(entry["digits"]) for meter, entry in meters.items()}

    def litres(meter: str, plain: str) -> int:
        return (millis(plain) * scale[meter] * 2 + 10**6) // (2 * 10**6)

    rejects: list[str] = []
    same: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
    for source, meter, day, plain, recorded in gather():
        date = iso(day, source)
        if meter not in meters:
            reason = "unknown-meter"
        elif meters[meter]["active"] == "no":
            reason = "inactive-meter"
        elif date is None:
            reason = "bad-date"
        elif plain is None:
            reason = "bad-value"
        elif millis(plain) >= size[meter] * 10**6:
            reason = "out-of-range"
        else:
            same.setdefault((meter, date), []).append((recorded, litres(meter, plain), source))
            continue
        rejects.append(f"{source},{meter},{day},{reason}")
    standing: dict[tuple[str, str], tuple[int, str]] = {}
    for (meter, date), group in same.items():
        last = max(group)
        assert sum(one[0] == last[0] for one in group) == 1, "the data must not leave open which came last"
        standing[meter, date] = last[1:]
        rejects += [f"{one[2]},{meter},{date},superseded" for one in group if one[1] != last[1]]
    lines = original("corrections.log").decode().splitlines()
    for words in sorted(line.split() for line in lines if line and not line.startswith("#")):
        if words[1] == "VOID":
            standing.pop((words[2], words[3]), None)
        else:
            standing[words[2], words[3]] = (litres(words[2], words[4]), "corrections.log")
    usage: dict[tuple[str, str], int] = {}
    for meter in meters:
        before = None
        for date in sorted(date for one, date in standing if one == meter):
            value, source = standing[meter, date]
            if before is not None and value < before:
                turned = size[meter] * scale[meter]
                if (value + turned - before) * 10 > turned:
                    rejects.append(f"{source},{meter},{date},backwards")
                    continue
                before -= turned
            if before is not None:
                usage[meter, date[:7]] = usage.get((meter, date[:7]), 0) + value - before
            before = value
    return [f"{m},{month},{used}" for (m, month), used in sorted(usage.items())], sorted(rejects, key=str.encode)


def lines_of(name: str, header: str) -> list[str]:
    path = OUT / name
    assert path.is_file() and not path.is_symlink(), f"{name} is missing"
    text = path.read_bytes().decode("utf-8")
    assert "\r" not in text and text.endswith("\n"), f"{name} must have LF line ends"
    first, *rest = text[:-1].split("\n")
    assert first == header
    return rest


@pytest.mark.parametrize("name", ORIGINALS)
def test_data_is_untouched(name):
    original(name)


def test_no_file_was_added_to_the_data():
    assert {p.relative_to(DATA).as_posix() for p in DATA.rglob("*") if not p.is_dir()} == set(ORIGINALS)


@pytest.mark.parametrize(
    "line",
    [
        "W-205,2025-02,1975",  # 70157.625 hL is 7015762.5 L, rounded up; less 7013788
        "W-102,2025-04,50690",  # a four-digit register over 10000 m3: 10002.46 - 9951.77
        "W-103,2025-08,92100",  # the southern reading came later: 17:45 UTC against 17:30 UTC
        "W-101,2025-04,10092",  # the second correction: 1259.500 - 1249.408
        "W-302,2025-10,147500",  # 45990.0 of the 15th - 45842.5; the reading of the 31st is void
        "W-301,2025-10,60552",  # September is void, so October has both months
    ],
)
def test_second_working_out_against_figures_by_hand(line):
    assert line in expected()[0]


def test_usage():
    assert lines_of("usage.csv", "meter,month,litres") == expected()[0]


def test_rejects():
    assert lines_of("rejects.csv", "source,meter,date,reason") == expected()[1]
