"""The examples of docs/wire.md hold: each parses, and each digest beside one is that of its canonical bytes."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from guest.reason import Reason, Stage
from guest.wire import canonical
from guest.wire.agent_identity import package_tree_sha
from guest.wire.binding import (
    KeyReleaseBinding,
    ScoreBinding,
    check_key_release_binding,
    check_score_binding,
    key_release_binding_for,
    score_binding_for,
)
from guest.wire.event_log import parse_event_log, replay
from guest.wire.execution_proof import Attestation, ExecutionProof, manifest_sha256
from guest.wire.measurement import os_image_hash
from guest.wire.plan import EvalPlan, load_plan
from guest.wire.policy import ScoringPolicy
from guest.wire.progress import ProgressReceipt, ProgressRequest
from guest.wire.receipt import Receipt, check_receipt
from guest.wire.result_line import PREFIX, UnattestedResult, unattested_line
from guest.wire.result_request import ResultRequest
from guest.wire.score_record import ScoreRecord, check_score_record
from guest.wire.tree_digest import dataset_digest, task_tree_digest
from guest.wire.vm_config import VmConfig
from scripts.conformance.outcome import run_file

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "wire.md").read_text()
BLOCK = re.compile(r"^```(\w+) ([\w -]+)\n(.*?)^```\n(.*?)(?=^```|\Z)", re.MULTILINE | re.DOTALL)
BLOCKS = [(found[2], found[3], found[4]) for found in BLOCK.finditer(PAGE)]
KNOWN = {
    *("canonical", "policy", "score-record", "plan", "score-binding", "key-release-binding", "event-log"),
    *("shape", "receipt", "progress-request", "progress-receipt", "unattested", "fail-closed", "vectors"),
}


def block(name: str) -> str:
    [text] = [text for label, text, _ in BLOCKS if label == name]
    return text


def example(name: str) -> Any:
    return json.loads(block(name))


def plan() -> EvalPlan:
    return load_plan(json.dumps(example("plan"), sort_keys=True, separators=(",", ":")).encode())


def test_every_block_is_checked_here() -> None:
    assert {label.removeprefix("result ") for label, _, _ in BLOCKS} == KNOWN
    assert len(re.findall(r"^```", PAGE, re.MULTILINE)) == 2 * len(BLOCKS)


@pytest.mark.parametrize("name", ["policy", "score-record", "plan", "score-binding", "key-release-binding"])
def test_the_digest_below_an_example_is_its_own(name: str) -> None:
    compact = json.dumps(example(name), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    [after] = [after for label, _, after in BLOCKS if label == name]
    stated = re.match(r"\s*SHA-256 of the canonical bytes(?:, the `scores_digest`)?: `([0-9a-f]{64})`", after)
    assert stated
    assert stated[1] == sha256(compact).hexdigest() == canonical.digest(example(name))


def test_the_canonical_text() -> None:
    text = block("canonical").removesuffix("\n")
    assert canonical.decode_canonical(text.encode()) == {"a": "é/\u0007", "b": [1, True, None]}
    assert canonical.encode({"b": [1, True, None], "a": "e\u0301/\u0007"}) == text.encode()
    assert f"SHA-256 `{sha256(text.encode()).hexdigest()}`" in PAGE


def test_the_score_record_is_the_plan_s() -> None:
    record = ScoreRecord.parse(example("score-record"))
    policy = ScoringPolicy.parse(example("policy"))
    check_score_record(record, eval_run_id="run-1", policy=policy, k=plan().k, task_ids=plan().task_ids)
    assert record.tasks[0].aggregate_score_f64be == "3fe8e38e38e38e39"


def test_the_bindings_are_the_plan_s() -> None:
    score, key = ScoreBinding.parse(example("score-binding")), KeyReleaseBinding.parse(example("key-release-binding"))
    check_score_binding(score)
    check_key_release_binding(key)
    assert score == score_binding_for(plan(), canonical.digest(example("score-record")))
    assert key == key_release_binding_for(plan(), b"spki")
    assert key.ra_tls_spki_digest == sha256(b"spki").hexdigest()


def test_the_log_replays_to_what_is_said() -> None:
    replayed = replay(parse_event_log(example("event-log")))
    assert f"RTMR3 `{replayed.rtmr3}`" in PAGE
    assert f"compose hash `{replayed.compose_hash}`" in PAGE
    assert (replayed.compose_hash, replayed.key_provider_pin) == (plan().eval_app.compose_hash, "phala")
    assert example("result shape")["execution_proof"]["attestation"]["measurement"]["rtmr3"] == replayed.rtmr3


def test_the_result_has_its_members_and_the_other_examples_values() -> None:
    result = example("result shape")
    proof, attestation = result["execution_proof"], result["execution_proof"]["attestation"]
    assert list(result) == list(ResultRequest.model_fields)
    assert list(proof) == list(ExecutionProof.model_fields)
    assert list(attestation) == list(Attestation.model_fields)
    assert result["scores_digest"] == canonical.digest(example("score-record"))
    assert attestation["report_data"] == canonical.digest(example("score-binding")) + "00" * 32
    ids = {"agent_hash": plan().agent_hash, "compose_hash": plan().eval_app.compose_hash, "task_ids": plan().task_ids}
    assert proof["manifest_sha256"] == manifest_sha256(**ids)  # type: ignore[arg-type]
    assert f"of the run above `{proof['manifest_sha256']}`" in PAGE
    measurement = {name: value for name, value in attestation["measurement"].items() if name != "rtmr3"}
    assert plan().canonical_measurement.model_dump() == measurement
    product = os_image_hash(measurement["mrtd"], measurement["rtmr1"], measurement["rtmr2"])
    assert measurement["os_image_hash"] == product == VmConfig.parse(attestation["vm_config"]).os_image_hash
    assert f"`{product}`. It is not the digest" in PAGE.replace("\n", " ").replace("`. It", "`. It")


def test_receipt_and_progress() -> None:
    receipt = Receipt.parse(example("receipt"))
    check_receipt(receipt, eval_run_id="run-1", body_sha256=receipt.body_sha256)
    assert ProgressRequest.parse(example("progress-request")).task_id == plan().task_ids[0]
    assert ProgressReceipt.parse(example("progress-receipt")).sequence == 2


def test_the_lines() -> None:
    lines = [text.removesuffix("\n") for label, text, _ in BLOCKS if label in {"unattested", "fail-closed"}]
    assert len(lines) == 3
    for line in lines:
        members = json.loads(line.removeprefix(PREFIX))
        assert unattested_line(members) == line
        assert UnattestedResult.model_validate(members)
        assert members["reason_code"] is None or {r for r in Reason if r == members["reason_code"]}.pop().stage is (
            Stage.RESULT_LINE
        )


def test_the_digests_of_content() -> None:
    tree = task_tree_digest([("instruction.md", b"Count.\n"), ("run.sh", b"exit 0\n")])
    package = package_tree_sha([("agent.py", b"class Agent: ...\n"), ("lib/a.py", b"")])
    for digest in (tree, dataset_digest({"count-words": tree}), package):
        assert f"`{digest}`" in PAGE


def test_the_vector_file_runs(tmp_path: Path) -> None:
    path = tmp_path / "vectors.json"
    path.write_text(block("vectors"))
    [outcome] = run_file(path)
    assert (outcome.passed, outcome.failures) == (2, ())


def test_every_rule_names_a_function_that_exists() -> None:
    table = PAGE[PAGE.index("## Where we are stricter") :]
    names = [line.rsplit("|", 2)[1] for line in table.splitlines() if line.startswith("| ") and "`" in line]
    sources = "".join(path.read_text() for path in Path(canonical.__file__).parent.glob("*.py"))
    for name in re.findall(r"`([\w.]+)`", " ".join(names)):
        assert re.search(rf"^(?:def|class) {name.rpartition('.')[2]}\b|^{name} = ", sources, re.MULTILINE), name
