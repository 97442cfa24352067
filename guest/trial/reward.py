"""From the verifier's directory to a reward: one closed reading, in which anything unusual is refused.

`reward.txt` holds one decimal number in 0..1. `reward.json`, read only when there is no `reward.txt`, is one flat
object of numbers: its `reward` is the reward, or the mean of all members when it has none. `ctrf.json`, when it exists,
must be a test report (ctrf.io, "CTRF schema"), and a reward of 1 beside a failed test is a conflict.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from guest.errors import Refused
from guest.reason import Reason
from guest.trial.tarstream import Entry
from guest.wire.f64 import mean

TEXT, JSON, REPORT = "reward.txt", "reward.json", "ctrf.json"
TEXT_BYTES: Final = 64
JSON_BYTES: Final = 4 << 10
REPORT_BYTES: Final = 1 << 20
STATUSES: Final = ("passed", "failed", "skipped", "pending", "other")

_TEXT = re.compile(rb"[ \t]*(0(\.[0-9]{1,17})?|1(\.0{1,17})?)\n?")
_NUMBER_LETTERS: Final = 32  # the longest a double needs is 24


@dataclass(frozen=True)
class Reward:
    """A verifier's verdict: `value` in 0..1, and what it was read from.

    `raw` is the file's text, `mtime` (Unix seconds) is as claimed and proves nothing. `others` are the numbers of
    `reward.json` that are recorded only. `tests` counts the report's tests by status, None when there is no report.
    """

    value: float
    source: Literal["txt", "json"]
    raw: str
    mtime: int
    others: Mapping[str, float]
    tests: Mapping[str, int] | None


def read_reward(entries: Mapping[str, Entry]) -> Reward:
    """Read the reward from the entries of the verifier's directory (relative path to entry).

    Raises Refused with REWARD_NOT_REGULAR, REWARD_AMBIGUOUS, REWARD_MISSING, REWARD_EMPTY, REWARD_MALFORMED,
    REPORT_MALFORMED or REWARD_CONFLICT.
    """
    for name in (TEXT, JSON, REPORT):
        if name in entries and entries[name].kind != "file":
            raise Refused(Reason.REWARD_NOT_REGULAR, f"{name} is a {entries[name].kind}, expected a regular file")
    if TEXT in entries and JSON in entries:
        raise Refused(Reason.REWARD_AMBIGUOUS, f"there are both {TEXT} and {JSON}, expected one of them")
    if TEXT not in entries and JSON not in entries:
        raise Refused(Reason.REWARD_MISSING, f"there is neither {TEXT} nor {JSON}")
    source: Literal["txt", "json"] = "txt" if TEXT in entries else "json"
    entry = entries[TEXT if source == "txt" else JSON]
    if not entry.size:
        raise Refused(Reason.REWARD_EMPTY, f"reward.{source} has no bytes")
    value, others = (_read_text(entry), {}) if source == "txt" else _read_json(entry)
    tests = _read_report(entries[REPORT]) if REPORT in entries else None
    if value == 1 and tests is not None and tests["failed"]:
        raise Refused(Reason.REWARD_CONFLICT, f"the reward is 1, but {REPORT} has {tests['failed']} failed tests")
    return Reward(value, source, entry.data.decode(), entry.mtime, others, tests)


def _read_text(entry: Entry) -> float:
    _check_size(entry, TEXT, TEXT_BYTES, Reason.REWARD_MALFORMED)
    found = _TEXT.fullmatch(entry.data)
    if found is None:
        _refuse(f"{TEXT} holds {entry.data!r}, expected a decimal number in 0..1 and at most one newline")
    return float(found[1])


def _read_json(entry: Entry) -> tuple[float, Mapping[str, float]]:
    """Give the reward and the members that are only recorded."""
    document = _parse(entry, JSON, JSON_BYTES, Reason.REWARD_MALFORMED)
    if not isinstance(document, dict) or not document:
        _refuse(f"{JSON} is not an object with at least one member")
    for name, value in document.items():
        if not isinstance(value, float):
            _refuse(f"{JSON}: member {name[:60]!r} is not a number")
        if not name.isprintable():  # a lone surrogate too, which no record could carry
            _refuse(f"{JSON}: member {name[:60]!r} has letters that cannot be printed")
    scored = [document["reward"]] if "reward" in document else list(document.values())
    odd = [value for value in scored if not 0 <= value <= 1]
    if odd:
        _refuse(f"{JSON}: {odd[0]} is outside 0..1")
    others = {name: value for name, value in document.items() if name != "reward"}
    return mean(scored) + 0.0, others  # + 0.0: no negative zero


def _read_report(entry: Entry) -> Mapping[str, int]:
    """Count the tests of a CTRF report by status; a failure that only its summary admits counts too."""
    document = _parse(entry, REPORT, REPORT_BYTES, Reason.REPORT_MALFORMED)
    results = document.get("results") if isinstance(document, dict) else None
    summary, tests = (results.get("summary"), results.get("tests")) if isinstance(results, dict) else (None, None)
    if not isinstance(summary, dict) or not isinstance(tests, list):
        raise Refused(Reason.REPORT_MALFORMED, f"{REPORT} has no object results.summary or no array results.tests")
    counts = Counter(dict.fromkeys(STATUSES, 0))
    for at, test in enumerate(tests):
        status = test.get("status") if isinstance(test, dict) else None
        if not isinstance(status, str) or status not in STATUSES:
            raise Refused(Reason.REPORT_MALFORMED, f"{REPORT}: test {at} has no status among {', '.join(STATUSES)}")
        counts[status] += 1
    failed = summary.get("failed")
    if not isinstance(failed, float) or failed < 0 or not failed.is_integer():
        raise Refused(Reason.REPORT_MALFORMED, f"{REPORT}: results.summary.failed is not a count")
    counts["failed"] = max(counts["failed"], int(failed))
    return dict(counts)


def _parse(entry: Entry, name: str, limit: int, reason: Reason) -> Any:  # noqa: ANN401 - any JSON value
    """Parse strict JSON: UTF-8 without a mark, no duplicate keys, no NaN or Infinity, every number a finite float.

    Raises Refused(`reason`).
    """
    _check_size(entry, name, limit, reason)
    try:
        return json.loads(
            entry.data.decode(),
            object_pairs_hook=_object,
            parse_constant=_number,
            parse_float=_number,
            parse_int=_number,
        )
    except (ValueError, RecursionError) as error:
        raise Refused(reason, f"{name} is not strict JSON: {str(error)[:200]}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object names a member twice")
    return made


def _number(literal: str) -> float:
    value = float(literal) if len(literal) <= _NUMBER_LETTERS else math.inf
    if not math.isfinite(value):
        raise ValueError(f"number {literal[:_NUMBER_LETTERS]!r} is not finite or too long")
    return value


def _check_size(entry: Entry, name: str, limit: int, reason: Reason) -> None:
    if entry.size > limit or entry.truncated:
        raise Refused(reason, f"{name} has {entry.size} bytes, at most {limit} are accepted")


def _refuse(message: str) -> NoReturn:
    raise Refused(Reason.REWARD_MALFORMED, message)
