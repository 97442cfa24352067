"""Reads vector files of the format `wire-vectors@1` into cases, mutations applied.

A section is a list of entries, or `valid` entries with `invalid` ones made from them by mutation. What this reader
does not know (a key, a kind, an operation, a base) is a problem of the case, never skipped.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT = re.compile(r"wire-vectors@1(?:\.[0-9]+)*")
REVISIONS = ("baseline", "later_revision")

_INFORMING = re.compile(
    r"name|note|basis|layer|.*_repr.*|plain_addition_would_differ|greedy_first_match_would_give"
    r"|many_to_one_would_give|input_already_canonical|peer_validator_accepts"
)
_MUTATED = frozenset({"base", "mutation", "mutations", "recompute_scores_digest_after", "reject"})
_OBJECT = re.compile(r"(?P<section>\w+) (?:of )?(?P<base>\S+)(?: \(.*\))?")


class VectorProblem(Exception):  # noqa: N818 - it is the vector's, not ours
    """The vector file, or one case in it, is not in the format."""


@dataclass(frozen=True)
class Case:
    """One check: what is given, what must come out (by key), or that it must be refused.

    `problem` says why it cannot be run. `base` is the unmutated entry of a case that needs the strict rules, `section`
    then names whose rules.
    """

    name: str
    section: str
    given: Mapping[str, Any]
    expected: Mapping[str, Any]
    rejects: bool
    base: Mapping[str, Any] | None = None
    problem: str = ""


def informs(key: str) -> bool:
    """Say whether a key of an entry only informs its reader."""
    return _INFORMING.fullmatch(key) is not None


def read_vectors(path: Path) -> dict[tuple[str, str], object]:
    """Give a file's sections by revision and name. Raises VectorProblem for anything but the known format."""
    try:
        document = json.loads(path.read_bytes(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (OSError, ValueError, RecursionError) as error:
        raise VectorProblem(f"cannot be read as JSON: {error}") from error
    if not isinstance(document, dict) or not FORMAT.fullmatch(str(document.get("format"))):
        found = document.get("format") if isinstance(document, dict) else None
        raise VectorProblem(f"has the format {found!r}, expected wire-vectors@1")
    unknown = sorted(document.keys() - {"format", "about", *REVISIONS})
    if unknown:
        raise VectorProblem(f"has the member {unknown[0]!r}, which is no known revision")
    sections: dict[tuple[str, str], object] = {}
    for revision in (name for name in REVISIONS if name in document):
        if not isinstance(document[revision], dict) or not document[revision]:
            raise VectorProblem(f"has no sections in {revision}")
        sections |= {(revision, name): entries for name, entries in document[revision].items()}
    if not sections:
        raise VectorProblem(f"has none of the revisions {', '.join(REVISIONS)}")
    return sections


def cases_of(name: str, entries: object, known: frozenset[str], peers: Mapping[str, object]) -> Iterator[Case]:
    """Give a section's cases. `known` are the keys its entries have besides the informing ones and `expected…`.

    `peers` are the sections of the same revision, from which the strict cases take their bases.
    """
    if name == "stricter_than_peer":
        for at, entry in enumerate(_filled(entries)):
            yield _guarded(entry, at, lambda entry, label: _strict_case(entry, label, peers))
    elif isinstance(entries, dict):
        unknown = sorted(entries.keys() - {"valid", "invalid"})
        if unknown:
            raise VectorProblem(f"has {unknown[0]!r} beside valid and invalid")
        for at, entry in enumerate(_filled(entries.get("valid"))):
            yield _guarded(entry, at, lambda entry, label: _case(name, entry, label, known, implied=True))
        for at, entry in enumerate(_filled(entries.get("invalid"))):
            yield _guarded(entry, at, lambda entry, label: _mutated_case(name, entry, label, entries["valid"]))
    else:
        for at, entry in enumerate(_filled(entries)):
            yield _guarded(entry, at, lambda entry, label: _case(name, entry, label, known, implied=False))


def mutate(value: Any, mutation: object) -> Any:  # noqa: ANN401 - any JSON value
    """Give a copy of a JSON value in which one mutation was made. Raises VectorProblem for one that cannot be."""
    if not isinstance(mutation, dict):
        raise VectorProblem("has a mutation that is no object")
    op, path = mutation.get("op"), mutation.get("path")
    wanted = {"set": {"value"}, "append": {"value"}, "delete": set(), "reverse": set(), "repeat": {"unit", "count"}}
    if op not in wanted or mutation.keys() != {"op", "path", *wanted[op]}:
        raise VectorProblem(f"has an unknown mutation: {op!r} with {sorted(mutation)}")
    if not isinstance(path, list) or (not path and op == "delete"):
        raise VectorProblem(f"has a mutation without a path: {path!r}")
    made = {"": copy.deepcopy(value)}
    parent: Any = made
    steps = ["", *path]
    try:
        for step in steps[:-1]:
            parent = parent[step]
        last = steps[-1]
        if op == "delete":
            del parent[last]
        elif op == "reverse":
            parent[last].reverse()
        elif op == "append":
            parent[last].append(copy.deepcopy(mutation["value"]))
        else:
            new = mutation["unit"] * mutation["count"] if op == "repeat" else copy.deepcopy(mutation["value"])
            parent[last] = new
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise VectorProblem(f"has a mutation that cannot be made: {op} at {path}: {error!r}") from error
    return made.get("")


def _guarded(entry: object, at: int, make: Any) -> Case:  # noqa: ANN401 - one of the three below
    label = str(entry["name"]) if isinstance(entry, dict) and "name" in entry else f"#{at}"
    try:
        if not isinstance(entry, dict):
            raise VectorProblem("is not an object")  # noqa: TRY301 - told like any other problem
        case: Case = make(entry, label)
    except VectorProblem as problem:
        return Case(label, "", {}, {}, rejects=False, problem=str(problem))
    return case


def _case(section: str, entry: dict[str, Any], label: str, known: frozenset[str], *, implied: bool) -> Case:
    expected = {key: value for key, value in entry.items() if key.startswith("expected")}
    given = {key: value for key, value in entry.items() if key in known}
    unknown = sorted(
        key for key in entry.keys() - expected.keys() - given.keys() - {"reject"} if not informs(key) or key == "layer"
    )
    if unknown:
        raise VectorProblem(f"has the unknown key {unknown[0]!r}")
    if not given:
        raise VectorProblem(f"has none of {', '.join(sorted(known))}")
    rejects = entry.get("reject", False)
    if rejects not in {True, False} or (rejects and (expected or implied)):
        raise VectorProblem("must either expect something or reject")
    if section == "key_release_authority" and expected == {"expected": None}:
        rejects, expected = True, {}
    if not (rejects or expected or implied):
        raise VectorProblem("must either expect something or reject")
    return Case(label, section, given, expected, rejects)


def _mutated_case(section: str, entry: dict[str, Any], label: str, valid: list[dict[str, Any]]) -> Case:
    unknown = sorted(key for key in entry.keys() - _MUTATED if not informs(key))
    if unknown:
        raise VectorProblem(f"has the unknown key {unknown[0]!r}")
    if entry.get("reject") is not True:
        raise VectorProblem("is among the invalid but does not reject")
    base = _base(entry.get("base"), valid)
    mutations = entry.get("mutations", [entry.get("mutation")])
    if ("mutation" in entry) == ("mutations" in entry) or not isinstance(mutations, list) or not mutations:
        raise VectorProblem("must have one of mutation and mutations")
    given = dict(base)
    for mutation in mutations:
        given["input"] = mutate(given.get("input"), mutation)
    again = entry.get("recompute_scores_digest_after", False)
    if again not in {True, False}:
        raise VectorProblem("has a recompute_scores_digest_after that is neither true nor false")
    return Case(label, section, {**given, "recompute": again}, {}, rejects=True)


def _strict_case(entry: dict[str, Any], label: str, peers: Mapping[str, object]) -> Case:
    unknown = sorted(key for key in entry.keys() - {"object", "mutation", "strict_reject"} if not informs(key))
    if unknown:
        raise VectorProblem(f"has the unknown key {unknown[0]!r}")
    found = _OBJECT.fullmatch(str(entry.get("object")))
    if not found or entry.get("strict_reject") is not True:
        raise VectorProblem("must name a section and a base, and reject strictly")
    section = "result_request" if found["section"] == "score_record" else found["section"]
    entries = peers.get(section)
    base = _base(found["base"], entries["valid"] if isinstance(entries, dict) else entries)
    given = {**base, "input": mutate(base.get("input"), entry.get("mutation"))}
    return Case(label, section, given, {}, rejects=True, base=base)


def _base(name: object, entries: object) -> dict[str, Any]:
    found = [entry for entry in _filled(entries) if isinstance(entry, dict) and entry.get("name") == name]
    if len(found) != 1:
        raise VectorProblem(f"has the base {name!r}, which {len(found)} entries are called")
    return found[0]


def _filled(entries: object) -> list[Any]:
    if not isinstance(entries, list) or not entries:
        raise VectorProblem("has no entries")
    return entries


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object names a member twice")
    return members


def _no_constant(literal: str) -> None:
    raise ValueError(f"{literal} is not JSON")
