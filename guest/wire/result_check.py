"""Holds a result against its plan: everything a peer compares, apart from signature, TCB status and allowlist.

The guest does this to its own result before it sends it, an auditor to anybody's.
"""

from __future__ import annotations

from typing import NoReturn

from guest.reason import Reason
from guest.wire.binding import score_binding_for
from guest.wire.event_log import replay
from guest.wire.execution_proof import Attestation
from guest.wire.measurement import os_image_hash
from guest.wire.plan import EvalPlan
from guest.wire.quote_fields import read_quote
from guest.wire.refusal import WireRefused, shown
from guest.wire.result_request import ResultRequest
from guest.wire.score_record import check_score_record

MAX_TASKS = 512

_ATTESTATION = "/execution_proof/attestation"


def check_result(request: ResultRequest, plan: EvalPlan) -> None:
    """Raise WireRefused at the first member of a result that its plan, its quote or its event log contradicts."""
    if len(request.score_record.tasks) > MAX_TASKS:
        _refuse("/score_record/tasks", f"must have at most {MAX_TASKS} tasks", len(request.score_record.tasks))
    _equal("/eval_run_id", request.eval_run_id, plan.eval_run_id, "the plan's")
    _equal("/submission_id", request.submission_id, plan.submission_id, "the plan's")
    _equal("/agent_hash", request.agent_hash, plan.agent_hash, "the plan's")
    check_score_record(
        request.score_record,
        eval_run_id=plan.eval_run_id,
        policy=plan.scoring_policy,
        k=plan.k,
        task_ids=plan.task_ids,
    )
    proof = request.execution_proof
    _equal("/execution_proof/image_digest", proof.image_digest, plan.eval_app.image_ref, "the plan's")
    attestation = proof.attestation
    for name, planned in plan.canonical_measurement.model_dump().items():
        _equal(f"{_ATTESTATION}/measurement/{name}", getattr(attestation.measurement, name), planned, "the plan's")
    _equal(
        f"{_ATTESTATION}/report_data",
        attestation.report_data,
        score_binding_for(plan, request.scores_digest).report_data(),
        "the score binding's",
    )
    check_attestation(attestation)
    replayed = replay(attestation.event_log)
    _equal("the compose-hash event", replayed.compose_hash, plan.eval_app.compose_hash, "the plan's")
    provider = plan.eval_app.measurement.key_provider
    _equal("the key-provider event", replayed.key_provider_pin, provider, "the plan's")


def check_attestation(attestation: Attestation) -> None:
    """Raise WireRefused unless quote, event log, measurement and report data say the same.

    The register of boot events must be one value in the quote, in the claim, and as replayed.
    """
    quote = read_quote(bytes.fromhex(attestation.tdx_quote))
    claimed = attestation.measurement
    for name in ("mrtd", "rtmr0", "rtmr1", "rtmr2", "rtmr3"):
        _equal(f"{_ATTESTATION}/measurement/{name}", getattr(claimed, name), getattr(quote, name), "the quote's")
    _equal(f"{_ATTESTATION}/report_data", attestation.report_data, quote.report_data, "the quote's")
    _equal(f"{_ATTESTATION}/event_log", replay(attestation.event_log).rtmr3, quote.rtmr3, "the quote's RTMR3")
    product = os_image_hash(quote.mrtd, quote.rtmr1, quote.rtmr2)
    _equal(f"{_ATTESTATION}/measurement/os_image_hash", claimed.os_image_hash, product, "that of the registers")
    if attestation.vm_config.os_image_hash is not None:
        image_hash = attestation.vm_config.os_image_hash
        _equal(f"{_ATTESTATION}/vm_config/os_image_hash", image_hash, product, "that of the registers")


def _equal(pointer: str, got: str, expected: str, whose: str) -> None:
    if got != expected:
        _refuse(pointer, f"must be {whose}, {shown(expected)}", got)


def _refuse(pointer: str, rule: str, got: object) -> NoReturn:
    raise WireRefused(Reason.RESULT_MISMATCH, pointer, rule, shown(got))
