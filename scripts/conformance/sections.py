"""What each section of a vector file checks: from what an entry gives to what must come out of it."""

from __future__ import annotations

import ast
import base64
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from guest.tasks.tree import digest_of, read_tree
from guest.wire import canonical
from guest.wire.agent_identity import package_tree_sha
from guest.wire.authority import parse_authority
from guest.wire.binding import KEY_RELEASE_DOMAIN, SCORE_DOMAIN, KeyReleaseBinding, ScoreBinding
from guest.wire.event_log import parse_event_log, replay, runtime_event_digest
from guest.wire.execution_proof import manifest_sha256
from guest.wire.f64 import decode_f64, encode_f64
from guest.wire.golden import open_envelope, parse_key_text
from guest.wire.measurement import os_image_hash
from guest.wire.plan import EvalPlan, LaterEvalPlan, parse_plan
from guest.wire.policy import ScoringPolicy
from guest.wire.progress import ProgressReceipt, ProgressRequest
from guest.wire.quote_reply import normalise_reply
from guest.wire.receipt import Receipt
from guest.wire.result_check import check_result
from guest.wire.result_line import attested_line, unattested_line
from guest.wire.result_request import parse_result_body
from guest.wire.scalars import Closed
from guest.wire.score_record import build_score_record
from guest.wire.tree_digest import dataset_digest, tree_line
from guest.wire.vm_config import project_vm_config
from scripts.conformance.vectors import VectorProblem

Given = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """The keys an entry of a section gives, and what computes the values it expects, by the same keys."""

    compute: Callable[[Given], Mapping[str, Any]]
    keys: frozenset[str] = frozenset({"input"})


def compact(value: object) -> bytes:
    """Write a JSON value compactly, members sorted, as a sender might that does not normalise."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def score_binding(given: Given) -> ScoreBinding:
    """Give the binding of an entry, version and domain filled in."""
    return ScoreBinding.parse({**given["input"], "domain": SCORE_DOMAIN, "schema_version": 2})


def key_release_binding(given: Given) -> KeyReleaseBinding:
    """Give the binding of an entry, version and domain filled in."""
    return KeyReleaseBinding.parse({**given["input"], "domain": KEY_RELEASE_DOMAIN, "schema_version": 2})


def result_body(given: Given) -> bytes:
    """Give an entry's request as the bytes that were delivered."""
    request = given["input"]
    if given.get("recompute"):
        request = {**request, "scores_digest": sha256(compact(request["score_record"])).hexdigest()}
    return compact(request)


def _canonical_json(given: Given) -> Mapping[str, Any]:
    data = _unhex(given["input_json_hex"])
    text = given.get("input_json_text")
    if text is not None and text.encode() != data:
        raise VectorProblem("has an input_json_text that is not what input_json_hex spells")
    if given.get("root") not in {"object", "value"}:
        raise VectorProblem(f"has the unknown root {given.get('root')!r}")
    value = canonical.decode(data) if given["root"] == "object" else canonical.decode_value(data)
    return {"expected_hex": canonical.encode(value).hex(), "expected_sha256": canonical.digest(value)}


def _f64be(given: Given) -> Mapping[str, Any]:
    if len(given) != 1:
        raise VectorProblem("must give one of encode_repr and decode_hex")
    if "decode_hex" in given:
        return {"expected_repr": repr(decode_f64(given["decode_hex"]))}
    literal = given["encode_repr"]
    special = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "-nan": float("nan")}
    try:
        value = special[literal] if literal in special else ast.literal_eval(literal)
    except (ValueError, SyntaxError) as error:
        raise VectorProblem(f"has no Python literal in encode_repr: {literal!r}") from error
    return {"expected_hex": encode_f64(value)}


def _binding(binding: ScoreBinding | KeyReleaseBinding) -> Mapping[str, Any]:
    expected = {
        "canonical_json_hex": binding.canonical().hex(),
        "digest_sha256": binding.canonical_digest(),
        "report_data_hex": binding.report_data(),
    }
    return {"expected": expected}


def _policy(given: Given) -> Mapping[str, Any]:
    policy = ScoringPolicy.parse(given["input"])
    return {"expected": {"canonical_json_hex": policy.canonical().hex(), "digest": policy.canonical_digest()}}


def _score_record(given: Given) -> Mapping[str, Any]:
    source = _members(given["input"], {"eval_run_id", "policy", "trial_scores_f64be_by_task"})
    policy = ScoringPolicy.parse(source["policy"])
    trials = {
        task_id: [decode_f64(score) for score in scores]
        for task_id, scores in source["trial_scores_f64be_by_task"].items()
    }
    record = build_score_record(eval_run_id=source["eval_run_id"], policy=policy, trials=trials)
    expected = {
        "policy_digest": policy.canonical_digest(),
        "record": _plain(record),
        "canonical_json_hex": record.canonical().hex(),
        "score_record_digest": record.canonical_digest(),
    }
    return {"expected": expected}


def _plan(form: type[EvalPlan]) -> Section:
    def compute(given: Given) -> Mapping[str, Any]:
        plan = form.parse(given["input"])
        expected = {
            "normalised": _plain(plan),
            "canonical_json_hex": plan.canonical().hex(),
            "sha256": plan.canonical_digest(),
        }
        return {"expected": expected}

    return Section(compute)


def _result_request(given: Given) -> Mapping[str, Any]:
    body = result_body(given)
    request = parse_result_body(body)
    check_result(request, parse_plan(given["plan"]))
    line = attested_line(request)
    expected = {
        "canonical_body_ascii": request.canonical().decode(),
        "body_sha256": sha256(request.canonical()).hexdigest(),
        "body_bytes": len(request.canonical()),
        "stdout_line_prefix": line.removesuffix(request.canonical().decode()),
    }
    return {"expected": expected}


def _record(kind: type[Closed]) -> Section:
    return Section(lambda given: {"expected": {"normalised": _plain(kind.parse(given["input"]))}})


def _task_tree(given: Given) -> Mapping[str, Any]:
    source = _members(given["input"], {"files_base64", "symlinks", "empty_dirs", "modes"})
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "task"
        root.mkdir()
        for path, text in source["files_base64"].items():
            _inside(root, path).write_bytes(base64.b64decode(text, validate=True))
        for path, target in source["symlinks"].items():
            _inside(root, path).symlink_to(target)
        for path in source["empty_dirs"]:
            _inside(root, path).mkdir()
        for path, mode in source["modes"].items():
            _inside(root, path).chmod(int(mode, 8))
        files = read_tree(root)
    lines = [tree_line(path, file.data).decode() for path, file in files.items()]
    expected = {
        "content_digest_sha256": digest_of(files),
        "file_count": len(files),
        "lines": [line.replace("\0", "\\0").replace("\n", "\\n") for line in lines],
    }
    return {"expected": expected}


def _rtmr3_replay(given: Given) -> Mapping[str, Any]:
    return {"expected": dict(vars(replay(parse_event_log(given["input"]))))}


def _os_image_hash(given: Given) -> Mapping[str, Any]:
    source = _members(given["input"], {"mrtd", "rtmr1", "rtmr2"})
    return {"expected": os_image_hash(**source)}


def _quote_normalisation(given: Given) -> Mapping[str, Any]:
    reply = normalise_reply(_members(given["input"], {"quote", "event_log", "vm_config"}))
    expected = {
        "tdx_quote": reply.tdx_quote,
        "event_log": list(reply.event_log),
        "vm_config": _plain(reply.vm_config) if reply.vm_config else {},
    }
    return {"expected": expected}


def _vm_config(given: Given) -> Mapping[str, Any]:
    source = _members(given["input"], {"vm_config", "measurement_os_image_hash"})
    return {"expected": _plain(project_vm_config(source["vm_config"], source["measurement_os_image_hash"]))}


def _golden_envelope(given: Given) -> Mapping[str, Any]:
    source = _members(given["input"], {"blob_hex", "key_hex", "associated_data_ascii"})
    blob, key = _unhex(source["blob_hex"]), _unhex(source["key_hex"])
    plaintext = open_envelope(blob, key=key, name=source["associated_data_ascii"])
    return {"expected": {"plaintext_hex": plaintext.hex()}}


def _runtime_event(given: Given) -> Mapping[str, Any]:
    source = _members(given["input"], {"event", "event_payload"})
    return {"expected": {"digest": runtime_event_digest(source["event"], _unhex(source["event_payload"]))}}


def _package_tree(given: Given) -> Mapping[str, Any]:
    files = _members(given["input"], {"files_base64"})["files_base64"]
    decoded = [(path, base64.b64decode(text, validate=True)) for path, text in files.items()]
    return {"expected": {"package_tree_sha": package_tree_sha(decoded)}}


def _members(value: object, names: set[str]) -> dict[str, Any]:
    """Give an input's members, informing ones left out; an input with others is a problem of the vector."""
    members = {name: item for name, item in value.items() if "_repr" not in name} if isinstance(value, dict) else {}
    if members.keys() != names:
        raise VectorProblem(f"has an input of {sorted(members)}, expected {sorted(names)}")
    return members


def _plain(record: Closed) -> Any:  # noqa: ANN401 - a JSON value
    return json.loads(json.dumps(record.model_dump()))


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError) as error:
        raise VectorProblem(f"has no hex where hex belongs: {text!r}") from error


def _inside(root: Path, path: str) -> Path:
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise VectorProblem(f"has a path that leaves its tree: {path!r}")
    full = root / path
    full.parent.mkdir(parents=True, exist_ok=True)
    return full


def _value(compute: Callable[[Any], object]) -> Section:
    return Section(lambda given: {"expected": compute(given["input"])})


_BASELINE = {
    "canonical_json": Section(_canonical_json, frozenset({"input_json_hex", "input_json_text", "root"})),
    "f64be": Section(_f64be, frozenset({"encode_repr", "decode_hex"})),
    "score_binding": Section(lambda given: _binding(score_binding(given))),
    "key_release_binding": Section(lambda given: _binding(key_release_binding(given))),
    "scoring_policy": Section(_policy),
    "score_record": Section(_score_record),
    "eval_plan": _plan(EvalPlan),
    "result_request": Section(_result_request, frozenset({"input", "plan"})),
    "receipt": _record(Receipt),
    "task_tree": Section(_task_tree),
    "dataset_digest": _value(lambda tasks: {"canonical_content_digest_sha256": dataset_digest(tasks)}),
    "runtime_event_digest": Section(_runtime_event),
    "rtmr3_replay": Section(_rtmr3_replay),
    "os_image_hash": Section(_os_image_hash),
    "quote_normalisation": Section(_quote_normalisation),
    "vm_config_projection": Section(_vm_config),
    "golden_envelope": Section(_golden_envelope),
    "golden_key_material": Section(
        lambda given: {"expected_key_hex": parse_key_text(_unhex(given["input_hex"])).hex()}, frozenset({"input_hex"})
    ),
    "legacy_result_line": Section(lambda given: {"expected_line": unattested_line(given["input"])}),
    "manifest_sha256": _value(
        lambda source: manifest_sha256(**_members(source, {"agent_hash", "compose_hash", "task_ids"}))
    ),
}
_LATER = _BASELINE | {
    "eval_plan": _plan(LaterEvalPlan),
    "progress_request": _record(ProgressRequest),
    "progress_receipt": _record(ProgressReceipt),
    "package_tree_sha": Section(_package_tree),
    "key_release_authority": _value(lambda text: dict(vars(parse_authority(text)))),
}
SECTIONS: Mapping[str, Mapping[str, Section]] = {"baseline": _BASELINE, "later_revision": _LATER}
"""The sections of each revision. A later file may repeat any baseline section in its own revision."""
