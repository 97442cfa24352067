"""The second layer: what everything passes that a guest acts on or emits, by section of a vector file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from guest.wire.binding import check_key_release_binding, check_score_binding
from guest.wire.plan import load_plan, parse_plan
from guest.wire.policy import ScoringPolicy
from guest.wire.progress import ProgressReceipt, ProgressRequest
from guest.wire.quote_reply import normalise_reply
from guest.wire.quote_reply_check import check_normalised
from guest.wire.receipt import Receipt, check_receipt
from guest.wire.result_check import check_result
from guest.wire.result_request import parse_result_body
from guest.wire.vm_config import check_vm_config, project_vm_config
from scripts.conformance.sections import SECTIONS, compact, key_release_binding, result_body, score_binding
from scripts.conformance.vectors import VectorProblem

Given = Mapping[str, Any]


def pass_strictly(section: str, given: Given) -> None:
    """Hold an entry to the strict rules of its section, where it has none to its plain ones.

    Raises WireRefused, or VectorProblem for an unknown section.
    """
    if section in _STRICT:
        _STRICT[section](given)
    elif section in SECTIONS["later_revision"]:
        SECTIONS["later_revision"][section].compute(given)
    else:
        raise VectorProblem(f"names the section {section!r}, which is not known here")


def _receipt(given: Given) -> None:
    receipt = Receipt.parse(given["input"])
    check_receipt(receipt, eval_run_id=receipt.eval_run_id, body_sha256=receipt.body_sha256)


def _vm_config(given: Given) -> None:
    source = given["input"]
    project_vm_config(source["vm_config"], source["measurement_os_image_hash"])
    check_vm_config(source["vm_config"])


_STRICT: Mapping[str, Callable[[Given], object]] = {
    "eval_plan": lambda given: load_plan(compact(given["input"])),
    "result_request": lambda given: check_result(parse_result_body(result_body(given)), parse_plan(given["plan"])),
    "receipt": _receipt,
    "score_binding": lambda given: check_score_binding(score_binding(given)),
    "key_release_binding": lambda given: check_key_release_binding(key_release_binding(given)),
    "scoring_policy": lambda given: ScoringPolicy.parse(given["input"]),
    "vm_config_projection": _vm_config,
    "quote_normalisation": lambda given: check_normalised(given["input"], normalise_reply(given["input"])),
    "progress_request": lambda given: ProgressRequest.parse(given["input"]),
    "progress_receipt": lambda given: ProgressReceipt.parse(given["input"]),
}
