"""The conformance command: it passes what is published, and nothing it does not know passes it."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from scripts.conformance.outcome import SectionOutcome, run_file

CHECKOUT = Path(__file__).resolve().parents[2]
WIRE = CHECKOUT / "tests" / "conformance" / "wire.json"
VECTORS: dict[str, Any] = json.loads(WIRE.read_bytes())
SECTIONS = [(revision, section) for revision in ("baseline", "later_revision") for section in VECTORS[revision]]


def evalguest(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts", *map(str, arguments)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


def outcomes_of(document: object, tmp_path: Path) -> list[SectionOutcome]:
    path = tmp_path / "vectors.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return run_file(path)


def failures_of(document: object, tmp_path: Path) -> list[tuple[str, str, str]]:
    """Every failure as (section, entry, what was expected and got)."""
    return [
        (outcome.section, failure.name, f"{failure.expected} / {failure.got}")
        for outcome in outcomes_of(document, tmp_path)
        for failure in outcome.failures
    ]


def one_section(section: str, entries: object, revision: str = "baseline") -> dict[str, Any]:
    return {"format": "wire-vectors@1", revision: {section: entries}}


def test_every_published_vector_passes() -> None:
    ended = evalguest("conformance", WIRE)
    assert ended.returncode == 0, ended.stdout
    lines = ended.stdout.splitlines()
    assert len(lines) == len(SECTIONS) + 1 == 27
    for line, (revision, section) in zip(lines, SECTIONS, strict=False):
        entries = VECTORS[revision][section]
        count = len(entries) if isinstance(entries, list) else len(entries["valid"]) + len(entries["invalid"])
        assert line == f"{WIRE} {revision} {section}: {count} passed, 0 failed"


def test_json_is_one_document(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(one_section("os_image_hash", [{"input": {}, "expected": "00"}])))
    ended = evalguest("conformance", "--json", WIRE, broken)
    assert ended.returncode == 1
    document = json.loads(ended.stdout)
    assert document["failed"] == 1
    assert [len(file["sections"]) for file in document["files"]] == [26, 1]
    failure = document["files"][1]["sections"][0]["failures"][0]
    assert failure["name"] == "#0"
    assert set(failure) == {"name", "expected", "got"}


def test_a_file_that_is_not_there_is_a_wrong_command_line() -> None:
    assert evalguest("conformance", "no-such-file.json").returncode == 2


def slightly_other(value: Any) -> Any:
    """The same JSON with the last letter of the first text inside changed, or the first number."""
    if isinstance(value, dict):
        first = next(name for name in value if "repr" not in name and name != "input_already_canonical")
        return {**value, first: slightly_other(value[first])}
    if isinstance(value, list):
        return [slightly_other(value[0]), *value[1:]]
    return value + 1 if isinstance(value, int) else value[:-1] + ("1" if value.endswith("0") else "0")


@pytest.mark.parametrize(("revision", "section"), SECTIONS)
def test_a_changed_digit_or_letter_fails_exactly_its_section(revision: str, section: str, tmp_path: Path) -> None:
    document = copy.deepcopy(VECTORS)
    entries = document[revision][section]
    valid = entries if isinstance(entries, list) else entries["valid"]
    expecting = [entry for entry in valid if any(key.startswith("expected") for key in entry)]
    if section == "stricter_than_peer":
        valid[0]["mutation"]["value"] = 1
    elif expecting:
        key = next(key for key in expecting[0] if key.startswith("expected"))
        expecting[0][key] = slightly_other(expecting[0][key])
    else:
        valid[0]["input"]["terminal"] = 0
    failed = [outcome for outcome in outcomes_of(document, tmp_path) if outcome.failures]
    # A valid entry is also the base of strict ones, which stay refused.
    assert [(outcome.revision, outcome.section) for outcome in failed] == [(revision, section)]
    assert len(failed[0].failures) == 1


@pytest.mark.parametrize(("revision", "section"), [of for of in SECTIONS if of[1] != "stricter_than_peer"])
def test_what_is_accepted_where_a_refusal_is_due_fails(revision: str, section: str, tmp_path: Path) -> None:
    document = copy.deepcopy(VECTORS)
    entries = document[revision][section]
    if isinstance(entries, dict):
        entry = entries["invalid"][0]
        base = next(valid for valid in entries["valid"] if valid["name"] == entry["base"])
        name = next(iter(base["input"]))
        entry.pop("mutations", None)
        entry["mutation"] = {"op": "set", "path": [name], "value": base["input"][name]}
    else:
        good = next(e for e in entries if any(k.startswith("expected") and e[k] is not None for k in e))
        entries.append({k: v for k, v in good.items() if not k.startswith("expected")} | {"reject": True})
    outcomes = outcomes_of(document, tmp_path)
    failed = [(outcome.section, failure) for outcome in outcomes for failure in outcome.failures]
    assert [(name, failure.expected, failure.got) for name, failure in failed] == [(section, "a refusal", "acceptance")]


PLAN = VECTORS["baseline"]["eval_plan"]["valid"][0]
POLICY = VECTORS["baseline"]["scoring_policy"][0]


def with_invalid(**entry: object) -> dict[str, Any]:
    whole = {"name": "x", "base": PLAN["name"], "reject": True, **entry}
    return one_section("eval_plan", {"valid": [PLAN], "invalid": [whole]})


SET_K = {"op": "set", "path": ["k"], "value": 0}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "has the format None"),
        ('{"format": "wire-vectors@1", "baseline": {}, "baseline": {}}', "names a member twice"),
        ('{"format": "wire-vectors@1", "baseline": {"f64be": [NaN]}}', "NaN is not JSON"),
        ({"format": "wire-vectors@2", "baseline": VECTORS["baseline"]}, "'wire-vectors@2'"),
        ({"format": "scoring-vectors@1", "baseline": VECTORS["baseline"]}, "'scoring-vectors@1'"),
        ({"format": "wire-vectors@1"}, "none of the revisions"),
        ({"format": "wire-vectors@1", "baseline": {}}, "no sections in baseline"),
        ({"format": "wire-vectors@1", "newest": {}}, "no known revision"),
        (one_section("new_section", [POLICY]), "one that is known here / new_section"),
        (one_section("progress_request", VECTORS["later_revision"]["progress_request"]), "one that is known here"),
        (one_section("scoring_policy", []), "has no entries"),
        (one_section("scoring_policy", None), "has no entries"),
        (one_section("scoring_policy", {"valid": [POLICY], "invalid": []}), "has no entries"),
        (one_section("scoring_policy", {"valid": [POLICY], "odd": [POLICY]}), "'odd' beside valid and invalid"),
        (one_section("scoring_policy", [7]), "is not an object"),
        (one_section("scoring_policy", [{**POLICY, "kind": "x"}]), "unknown key 'kind'"),
        (one_section("scoring_policy", [{"input": POLICY["input"]}]), "expect something or reject"),
        (one_section("scoring_policy", [{**POLICY, "reject": True}]), "expect something or reject"),
        (one_section("scoring_policy", [{**POLICY, "reject": 2}]), "expect something or reject"),
        (one_section("scoring_policy", [{"expected": {}}]), "has none of input"),
        (one_section("scoring_policy", [{**POLICY, "expected": {"sha512": "00"}}]), "['sha512'], which is not known"),
        (one_section("scoring_policy", [{**POLICY, "expected": {}}]), "which is not known"),
        (
            one_section("scoring_policy", [{"input": POLICY["input"], "expected_x": 1}]),
            "expected_x, which is not known",
        ),
        (with_invalid(), "one of mutation and mutations"),
        (with_invalid(mutation=SET_K, mutations=[SET_K]), "one of mutation and mutations"),
        (with_invalid(mutations=[]), "one of mutation and mutations"),
        (with_invalid(mutation=SET_K, base="nobody"), "base 'nobody'"),
        (with_invalid(mutation=SET_K, reject=False), "does not reject"),
        (with_invalid(mutation=SET_K, kind="x"), "unknown key 'kind'"),
        (with_invalid(mutation={"op": "swap", "path": ["k"], "value": 0}), "unknown mutation: 'swap'"),
        (with_invalid(mutation={**SET_K, "unit": "a"}), "unknown mutation: 'set'"),
        (with_invalid(mutation={"op": "delete", "path": ["nothing"]}), "cannot be made"),
        (with_invalid(mutation={"op": "set", "path": ["k", "deeper"], "value": 0}), "cannot be made"),
        (with_invalid(mutation={"op": "set", "path": ["selected_tasks", 9], "value": 0}), "cannot be made"),
        (with_invalid(mutation={"op": "reverse", "path": ["k"]}), "cannot be made"),
        (with_invalid(mutation={"op": "delete", "path": []}), "without a path"),
        (with_invalid(mutation=SET_K, recompute_scores_digest_after="yes"), "neither true nor false"),
        (one_section("f64be", [{"encode_repr": "1", "decode_hex": "00", "reject": True}]), "give one of"),
        (one_section("f64be", [{"encode_repr": "one", "reject": True}]), "no Python literal"),
        (one_section("canonical_json", [{"input_json_hex": "7", "root": "value", "reject": True}]), "no hex"),
        (one_section("canonical_json", [{"input_json_hex": "7b", "root": "tree", "reject": True}]), "unknown root"),
        (
            one_section(
                "canonical_json", [{"input_json_hex": "7b", "input_json_text": "}", "root": "object", "reject": True}]
            ),
            "not what input_json_hex spells",
        ),
        (
            one_section(
                "task_tree",
                [
                    {
                        "input": {"files_base64": {"../x": ""}, "symlinks": {}, "empty_dirs": [], "modes": {}},
                        "reject": True,
                    }
                ],
            ),
            "leaves its tree",
        ),
        (one_section("os_image_hash", [{"input": {"mrtd": "00"}, "reject": True}]), "has an input of ['mrtd']"),
        (
            one_section(
                "stricter_than_peer",
                [{"name": "x", "object": "eval_plan nobody", "mutation": SET_K, "strict_reject": True}],
            ),
            "has no entries",
        ),
        (
            one_section("stricter_than_peer", [{"name": "x", "object": "?", "mutation": SET_K, "strict_reject": True}]),
            "name a section and a base",
        ),
    ],
)
def test_what_is_not_known_fails(document: object, words: str, tmp_path: Path) -> None:
    failures = failures_of(document, tmp_path)
    assert len(failures) == 1
    assert words in failures[0][2], failures


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(k=3.0),
        lambda record: record.update(schema_version=True),
        lambda record: record["tasks"].reverse(),
    ],
    ids=["a float", "a boolean", "another order"],
)
def test_values_of_another_kind_or_order_fail(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    vector = copy.deepcopy(VECTORS["baseline"]["score_record"][0])
    change(vector["expected"]["record"])
    [(_, name, told)] = failures_of(one_section("score_record", [vector]), tmp_path)
    assert name == vector["name"]
    assert told.startswith("expected.record")


def test_a_strict_case_must_be_refused_for_its_mutation(tmp_path: Path) -> None:
    unsafe = copy.deepcopy(PLAN)
    unsafe["input"]["key_release_endpoint"] = "http://x/"
    case = {"name": "x", "object": f"eval_plan {PLAN['name']}", "strict_reject": True}
    case["mutation"] = {"op": "set", "path": ["k"], "value": 4}
    document = {
        "format": "wire-vectors@1",
        "baseline": {
            "eval_plan": {
                "valid": [unsafe],
                "invalid": [with_invalid(mutation=SET_K)["baseline"]["eval_plan"]["invalid"][0]],
            },
            "stricter_than_peer": [case],
        },
    }
    told = {section: words for section, _, words in failures_of(document, tmp_path)}
    assert "the base is refused alike" in told["stricter_than_peer"]


def test_strict_cases_of_any_section_run(tmp_path: Path) -> None:
    replay = VECTORS["baseline"]["rtmr3_replay"][0]
    case = {"name": "x", "object": f"rtmr3_replay {replay['name']}", "strict_reject": True}
    case["mutation"] = {"op": "set", "path": [1, "imr"], "value": 2}
    odd = {**case, "name": "y", "object": "no_such_section five_events"}
    document = {"format": "wire-vectors@1", "baseline": {"rtmr3_replay": [replay], "stricter_than_peer": [case, odd]}}
    assert [name for _, name, _ in failures_of(document, tmp_path)] == ["y"]


def test_a_number_may_be_spelt_in_another_way(tmp_path: Path) -> None:
    entries = [{"decode_hex": "3fe0000000000000", "expected_repr": text} for text in ("0.5", "5e-1", "0.50", "0.6")]
    assert [name for _, name, _ in failures_of(one_section("f64be", entries), tmp_path)] == ["#3"]


def test_vectors_nobody_has_seen_run_alike(tmp_path: Path) -> None:
    register = "ab" * 48
    text = '{"b":[1,-0],"a":"\\u00e9"}'
    canonical = '{"a":"é","b":[1,0]}'.encode()
    document = {
        "format": "wire-vectors@1.2",
        "about": {"whatever": 1},
        "baseline": {
            "os_image_hash": [
                {
                    "name": "repeated",
                    "basis": "by hand",
                    "input": {"mrtd": register, "rtmr1": register, "rtmr2": register},
                    "expected": sha256(b"\xab" * 144).hexdigest(),
                }
            ],
            "canonical_json": [
                {
                    "name": "all at once",
                    "root": "object",
                    "input_json_hex": text.encode().hex(),
                    "expected_hex": canonical.hex(),
                    "expected_sha256": sha256(canonical).hexdigest(),
                }
            ],
        },
        "later_revision": {"key_release_authority": [{"input": "h:7", "expected": {"host": "h", "port": 7}}]},
    }
    assert [(o.section, o.passed, o.failures) for o in outcomes_of(document, tmp_path)] == [
        ("os_image_hash", 1, ()),
        ("canonical_json", 1, ()),
        ("key_release_authority", 1, ()),
    ]
