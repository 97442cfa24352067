"""Rewards: what the verifier's files say, in a closed form. Nothing else in the project reads rewards.

`reward.txt` holds one number from 0 to 1; `reward.json`, read only when there is no `reward.txt`, holds one object
whose `reward` is the reward and whose other members are recorded and not scored. A test report in CTRF form (ctrf.io)
beside it must parse, and must not contradict a full reward.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from guest.errors import Refused
from guest.reason import Reason
from guest.trial.tarstream import Entry

TXT_BYTES = 64
JSON_BYTES = 4096
REPORT_BYTES = 1 << 20
MAX_TESTS = 100_000
STATUSES = ("passed", "failed", "skipped", "pending", "other")
_TXT = re.compile(rb"[ \t]*(0(\.[0-9]{1,17})?|1(\.0{1,17})?)\n?")


@dataclass(frozen=True)
class Reward:
    """A reward from 0 to 1, the file it came from as found, other members, and the report's test counts by status."""

    value: float
    source: Literal["txt", "json"]
    raw: str
    others: Mapping[str, float]
    tests: Mapping[str, int] | None


def read_reward(entries: Mapping[str, Entry]) -> Reward:
    """Read the reward from the entries of `/logs/verifier` (relative path to entry).

    Raises Refused with REWARD_MISSING, REWARD_AMBIGUOUS (both files), REWARD_NOT_REGULAR, REWARD_MALFORMED,
    REPORT_MALFORMED or REWARD_CONFLICT (full reward, failed test).
    """
    txt, document = entries.get("reward.txt"), entries.get("reward.json")
    if txt is not None and document is not None:
        raise Refused(Reason.REWARD_AMBIGUOUS, "both reward.txt and reward.json exist; one was expected")
    others: Mapping[str, float] = {}
    source: Literal["txt", "json"]
    if txt is not None:
        raw = _content("reward.txt", txt, TXT_BYTES, Reason.REWARD_MALFORMED)
        source, value = "txt", _from_txt(raw)
    elif document is not None:
        raw = _content("reward.json", document, JSON_BYTES, Reason.REWARD_MALFORMED)
        source = "json"
        value, others = _from_json(raw)
    else:
        raise Refused(Reason.REWARD_MISSING, "neither reward.txt nor reward.json exists")
    tests = None
    if "ctrf.json" in entries:
        tests = _count_tests(_content("ctrf.json", entries["ctrf.json"], REPORT_BYTES, Reason.REPORT_MALFORMED))
        if value == 1 and tests["failed"]:
            raise Refused(
                Reason.REWARD_CONFLICT, f"the reward is 1, yet ctrf.json lists {tests['failed']} failed tests"
            )
    return Reward(value, source, raw.decode(errors="replace"), others, tests)


def _content(name: str, entry: Entry, limit: int, too_large: Reason) -> bytes:
    if entry.kind != "file":
        raise Refused(Reason.REWARD_NOT_REGULAR, f"{name} is a {entry.kind}, expected a regular file")
    if entry.size > limit or entry.truncated:
        raise Refused(too_large, f"{name} has {entry.size} bytes, at most {limit} are accepted")
    return entry.data


def _from_txt(raw: bytes) -> float:
    match = _TXT.fullmatch(raw)
    if match is None:
        raise Refused(Reason.REWARD_MALFORMED, f"reward.txt holds {raw!r}, expected a number from 0 to 1")
    return float(match[1])


def _from_json(raw: bytes) -> tuple[float, Mapping[str, float]]:
    members = _parse("reward.json", raw, Reason.REWARD_MALFORMED)
    for name, member in members.items():
        if isinstance(member, bool) or not isinstance(member, int | float) or not _is_finite(member):
            raise Refused(Reason.REWARD_MALFORMED, f"reward.json: {name[:80]!r} is not a finite number")
    if not members:
        raise Refused(Reason.REWARD_MALFORMED, "reward.json is an empty object")
    if "reward" in members:
        value = float(members.pop("reward"))
    else:
        value = math.fsum(members.values()) / len(members)
    if not 0 <= value <= 1:
        raise Refused(Reason.REWARD_MALFORMED, f"reward.json: the reward is {value:g}, expected 0 to 1")
    return value, {name: float(member) for name, member in members.items()}


def _count_tests(raw: bytes) -> dict[str, int]:
    """Count the report's tests by status (CTRF: `results.tests[].status`)."""
    results = _parse("ctrf.json", raw, Reason.REPORT_MALFORMED).get("results")
    tests = results.get("tests") if isinstance(results, dict) else None
    if not isinstance(tests, list) or len(tests) > MAX_TESTS:
        raise Refused(Reason.REPORT_MALFORMED, "ctrf.json has no list results.tests")
    counts = dict.fromkeys(STATUSES, 0)
    for test in tests:
        status = test.get("status") if isinstance(test, dict) else None
        if not isinstance(status, str) or status not in counts:
            raise Refused(Reason.REPORT_MALFORMED, f"ctrf.json: a test's status is {str(status)[:40]!r}")
        counts[status] += 1
    return counts


def _parse(name: str, raw: bytes, reason: Reason) -> dict[str, Any]:
    """Parse strict JSON: UTF-8 without BOM, one object, no duplicate names, no NaN or Infinity, no huge number."""

    def refuse(what: str) -> NoReturn:
        raise Refused(reason, f"{name} {what}")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            refuse("has a name twice in one object")
        return members

    try:
        document = json.loads(
            raw.decode(), object_pairs_hook=unique, parse_constant=lambda word: refuse(f"holds {word}")
        )
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, too many digits
        refuse(f"is not JSON: {str(error)[:120]}")
    if not isinstance(document, dict):
        refuse(f"holds a {type(document).__name__}, expected an object")
    return document


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond any float
        return False
