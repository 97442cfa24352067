"""Runs the cases of vector files and says of each section what passed and what failed, expected and got."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guest.errors import Refused
from guest.wire.refusal import shown
from scripts.conformance.sections import SECTIONS, Section
from scripts.conformance.strict import pass_strictly
from scripts.conformance.vectors import Case, VectorProblem, cases_of, informs, read_vectors


@dataclass(frozen=True)
class Failure:
    """One case that failed: its name, and in words what was expected and what came."""

    name: str
    expected: str
    got: str


@dataclass(frozen=True)
class SectionOutcome:
    """What became of one section of one revision; both are empty where the file itself is at fault."""

    revision: str
    section: str
    passed: int
    failures: tuple[Failure, ...]


def run_file(path: Path) -> list[SectionOutcome]:
    """Run every section of a vector file. A file that cannot be read is one failure."""
    try:
        sections = read_vectors(path)
    except VectorProblem as problem:
        return [SectionOutcome("", "", 0, (Failure("the file", "vectors in a known format", f"it {problem}"),))]
    outcomes: list[SectionOutcome] = []
    for (revision, name), entries in sections.items():
        peers = {section: found for (of, section), found in sections.items() if of == revision}
        outcomes.append(_run_section(revision, name, entries, peers))
    return outcomes


def _run_section(revision: str, name: str, entries: object, peers: Mapping[str, object]) -> SectionOutcome:
    section = SECTIONS[revision].get(name)
    if section is None and name != "stricter_than_peer":
        return SectionOutcome(revision, name, 0, (Failure("the section", "one that is known here", name),))
    passed = 0
    failures: list[Failure] = []
    try:
        for case in cases_of(name, entries, section.keys if section else frozenset(), peers):
            failure = _run_case(case, section)
            passed += failure is None
            failures += [failure] if failure else []
    except VectorProblem as problem:
        failures.append(Failure("the section", "entries in a known form", f"it {problem}"))
    return SectionOutcome(revision, name, passed, tuple(failures))


def _run_case(case: Case, section: Section | None) -> Failure | None:
    if case.problem:
        return Failure(case.name, "an entry in a known form", f"it {case.problem}")
    try:
        if case.base is not None or section is None:
            return _run_strict(case)
        got = section.compute(case.given)
    except Refused as refusal:
        return None if case.rejects else Failure(case.name, "acceptance", f"refused: {refusal.message}")
    except VectorProblem as problem:
        return Failure(case.name, "an entry in a known form", f"it {problem}")
    except Exception as error:  # noqa: BLE001 - whatever an implementation raises, it is this case that failed
        return Failure(case.name, "a value or an orderly refusal", f"{type(error).__name__}: {error}")
    return Failure(case.name, "a refusal", "acceptance") if case.rejects else _compare(case.name, case.expected, got)


def _run_strict(case: Case) -> Failure | None:
    """A mutation must be what is refused: where the base already is, the refusal must be another one."""
    refusals: list[Refused | None] = []
    for given in (case.given, case.base or {}):
        try:
            pass_strictly(case.section, given)
        except Refused as refusal:
            refusals.append(refusal)
        else:
            refusals.append(None)
    mutated, plain = refusals
    if mutated is None:
        return Failure(case.name, "a refusal", "acceptance")
    if plain is not None and plain.message == mutated.message:
        return Failure(case.name, "a refusal of the mutation", f"the base is refused alike: {plain.message}")
    return None


def _compare(name: str, expected: Mapping[str, Any], got: Mapping[str, Any]) -> Failure | None:
    for key, value in expected.items():
        if key not in got:
            return Failure(name, f"{key}, which is not known here", "nothing")
        # Where records are expected by member, a file may leave some out and add some that only inform.
        pairs = {"": (value, got[key])}
        if isinstance(value, dict) and isinstance(got[key], dict):
            wanted = {member: item for member, item in value.items() if not informs(member)}
            unknown = sorted(wanted.keys() - got[key].keys())
            if unknown or not wanted:
                return Failure(name, f"{key} with {unknown or 'any member'}, which is not known here", "nothing")
            pairs = {f".{member}": (item, got[key][member]) for member, item in wanted.items()}
        for member, (one, other) in pairs.items():
            if not (_same_number(one, other) if key == "expected_repr" else _same(one, other)):
                return Failure(name, f"{key}{member} {_told(one)}", _told(other))
    return None


def _same(one: object, other: object) -> bool:
    """Say whether two JSON values are one, true and 1 and 1.0 being three."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    return one == other


def _same_number(one: object, other: object) -> bool:
    """Say whether two texts spell one number, however they do."""
    try:
        return _same(float(str(one)), float(str(other)))
    except ValueError:
        return False


def _told(value: object) -> str:
    return shown(value) if isinstance(value, str | int | float | None) else ascii(value)[:2000]
