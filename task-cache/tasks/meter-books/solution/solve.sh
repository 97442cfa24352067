#!/bin/bash
set -euo pipefail
mkdir -p /app/out
python3 - <<'PY'
import configparser
import csv
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

data, out = Path("/app/data"), Path("/app/out")
register = configparser.ConfigParser()
register.read(data / "meters.ini", encoding="utf-8")
litres_per = {"m3": 1000, "hL": 100, "L": 1}
rejects: list[tuple[str, str, str, str]] = []
raw = []  # source, meter, date text, date format, value text, value pattern, recorded (UTC)

with (data / "readings/north.csv").open(encoding="cp1252", newline="") as f:
    for row in csv.DictReader(f, delimiter=";"):
        recorded = datetime.strptime(row["Erfasst"], "%d.%m.%Y %H:%M").replace(tzinfo=UTC) - timedelta(hours=1)
        raw.append(("north.csv", row["Zähler"], row["Ablesedatum"], "%d.%m.%Y", row["Stand"], r"\d+(,\d+)?", recorded))

with (data / "readings/south.csv").open(encoding="utf-8-sig", newline="") as f:
    for row in csv.DictReader(f):
        recorded = datetime.fromisoformat(row["recorded_at"])
        pattern = r"(\d+|\d{1,3}(,\d{3})+)(\.\d+)?"
        raw.append(("south.csv", row["meter"], row["date"], "%Y-%m-%d", row["reading"], pattern, recorded))

log = []
for line in (data / "readings/harbour.log").read_text().splitlines():
    found = re.fullmatch(r"(\S+) harbourd\[\d+\]: (READ|RETRACT) (.*)", line)
    if not found:
        continue
    fields = dict(re.findall(r'(\w+)="?([^"\s]*)"?', found[3]))
    meter = fields["meter"].strip().upper()
    if found[2] == "RETRACT":
        log = [r for r in log if (r[1], r[2]) != (meter, fields["date"])]
    else:
        recorded = datetime.fromisoformat(found[1])
        log.append(("harbour.log", meter, fields["date"], "%Y-%m-%d", fields["value"], r"\d+(\.\d+)?", recorded))
raw += log


def litres(meter: str, text: str) -> int:
    value = Decimal(text) * litres_per[register[meter]["unit"]]
    return int(value.quantize(Decimal(1), ROUND_HALF_UP))


def whole_range(meter: str) -> int:
    return 10 ** int(register[meter]["digits"]) * litres_per[register[meter]["unit"]]


def check(source, meter, date_text, date_format, text, pattern):
    """Give (date, litres) or the reason for a reject."""
    if meter not in register or meter == "DEFAULT":
        return "unknown-meter"
    if not register[meter].getboolean("active"):
        return "inactive-meter"
    try:
        date = datetime.strptime(date_text, date_format).date()
    except ValueError:
        return "bad-date"
    if not re.fullmatch(pattern, text):
        return "bad-value"
    plain = text.replace(",", "." if source == "north.csv" else "")
    if Decimal(plain) >= 10 ** int(register[meter]["digits"]):
        return "out-of-range"
    return date, litres(meter, plain)


candidates: dict = {}
for source, meter, date_text, date_format, text, pattern, recorded in raw:
    meter, date_text, text = meter.strip().upper(), date_text.strip(), text.strip()
    result = check(source, meter, date_text, date_format, text, pattern)
    if isinstance(result, str):
        rejects.append((source, meter, date_text, result))
    else:
        date, value = result
        candidates.setdefault((meter, date), []).append((recorded, value, source))

standing = {}
for (meter, date), readings in candidates.items():
    readings.sort()
    _, value, source = readings[-1]
    standing[meter, date] = (value, source)
    rejects += [(s, meter, date.isoformat(), "superseded") for _, v, s in readings[:-1] if v != value]

corrections = [
    line.split() for line in (data / "corrections.log").read_text().splitlines() if line.strip() and line[0] != "#"
]
for _, action, meter, date_text, *value in sorted(corrections, key=lambda c: datetime.fromisoformat(c[0])):
    key = meter.strip().upper(), datetime.fromisoformat(date_text).date()
    standing.pop(key, None)
    if action == "SET":
        standing[key] = (litres(key[0], value[0]), "corrections.log")

usage: dict = {}
accepted: dict[str, int] = {}
for (meter, date), (value, source) in sorted(standing.items()):
    if meter in accepted:
        used = value - accepted[meter]
        if used < 0:
            used += whole_range(meter)
            if used * 10 > whole_range(meter):
                rejects.append((source, meter, date.isoformat(), "backwards"))
                continue
        month = date.strftime("%Y-%m")
        usage[meter, month] = usage.get((meter, month), 0) + used
    accepted[meter] = value

lines = [f"{meter},{month},{used}\n" for (meter, month), used in sorted(usage.items())]
(out / "usage.csv").write_text("meter,month,litres\n" + "".join(lines))
lines = sorted((",".join(r) + "\n" for r in rejects), key=lambda s: s.encode())
(out / "rejects.csv").write_text("source,meter,date,reason\n" + "".join(lines))
PY
