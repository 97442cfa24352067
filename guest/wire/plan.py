"""The evaluation plan: what a run is to do, issued once and never changed. The peer keeps its bytes and their hash.

Two published forms exist. The later one adds `package_tree_sha` and holds the key server's endpoint to a grammar.
"""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256
from typing import Annotated, ClassVar, NoReturn, Self

from pydantic import AfterValidator, Field, model_validator

from guest.reason import Reason
from guest.wire import canonical
from guest.wire.authority import parse_authority
from guest.wire.measurement import Measurement
from guest.wire.policy import ScoringPolicy
from guest.wire.refusal import WireRefused, broken, shown
from guest.wire.scalars import STRING_MAX, Closed, Id, ImageRef, Int, PositiveInt, Register, Sha256, Version1
from guest.wire.score_record import check_ascending

_BARE_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PRINTABLE = re.compile(r"[!-~]+")


class _OfPlan(Closed):
    reason: ClassVar[Reason] = Reason.PLAN_MALFORMED


class SelectedTask(_OfPlan):
    """One task to run: its image by digest and the tree digest its files must have."""

    task_id: Id
    image_ref: ImageRef
    task_config_sha256: Sha256


class PlanMeasurement(_OfPlan):
    """The registers the guest must have, and what it runs on."""

    mrtd: Register
    rtmr0: Register
    rtmr1: Register
    rtmr2: Register
    os_image_hash: Sha256
    key_provider: Id
    vm_shape: Id


class EvalApp(_OfPlan):
    """The guest that is to run: image, compose file, key management, measurement."""

    image_ref: ImageRef
    compose_hash: Sha256
    app_identity: Id
    kms_key_algorithm: Id
    kms_public_key_hex: Sha256
    kms_public_key_sha256: Sha256
    measurement: PlanMeasurement

    @model_validator(mode="after")
    def _key_is_what_its_digest_says(self) -> Self:
        if self.kms_key_algorithm != "x25519":
            raise broken("kms_key_algorithm", "must be 'x25519'", self.kms_key_algorithm)
        if sha256(bytes.fromhex(self.kms_public_key_hex)).hexdigest() != self.kms_public_key_sha256:
            raise broken(
                "kms_public_key_sha256", "must be the SHA-256 of the decoded public key", self.kms_public_key_sha256
            )
        return self


class EvalPlan(_OfPlan):
    """Eval plan v1 in its first published form. Times are Unix milliseconds, `k` is the number of trials per task."""

    schema_version: Version1
    eval_run_id: Id
    submission_id: Id
    submission_version: PositiveInt
    authorizing_review_digest: Sha256
    agent_hash: Sha256
    selected_tasks: Annotated[tuple[SelectedTask, ...], Field(strict=False, fail_fast=True, min_length=1)]
    k: PositiveInt
    scoring_policy: ScoringPolicy
    scoring_policy_digest: Sha256
    eval_app: EvalApp
    key_release_endpoint: Annotated[str, Field(min_length=1, max_length=STRING_MAX)]
    result_endpoint: str
    key_release_nonce: Id
    score_nonce: Id
    run_token_sha256: Sha256
    issued_at_ms: Int
    expires_at_ms: Int

    @model_validator(mode="after")
    def _members_fit_each_other(self) -> Self:
        check_ascending("selected_tasks", self.task_ids)
        if self.scoring_policy_digest != self.scoring_policy.canonical_digest():
            raise broken(
                "scoring_policy_digest", "must be the canonical digest of scoring_policy", self.scoring_policy_digest
            )
        endpoint = f"/evaluation/v1/runs/{self.eval_run_id}/result"
        if self.result_endpoint != endpoint:
            raise broken("result_endpoint", f"must be {endpoint}", self.result_endpoint)
        if self.score_nonce == self.key_release_nonce:
            raise broken("score_nonce", "must differ from key_release_nonce", self.score_nonce)
        if self.expires_at_ms <= self.issued_at_ms:
            raise broken("expires_at_ms", "must be later than issued_at_ms", self.expires_at_ms)
        return self

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The selected tasks' ids, ascending."""
        return tuple(task.task_id for task in self.selected_tasks)

    @property
    def canonical_measurement(self) -> Measurement:
        """What a score binding carries: the plan's five hashes of the machine and its compose hash."""
        return Measurement(
            compose_hash=self.eval_app.compose_hash,
            **self.eval_app.measurement.model_dump(exclude={"key_provider", "vm_shape"}),
        )


def _trimmed(text: str) -> str:
    try:
        parse_authority(text)
    except WireRefused as refusal:
        raise ValueError(refusal.rule) from refusal
    return text.strip()


class LaterEvalPlan(EvalPlan):
    """Eval plan v1 in its later form. Blanks around the endpoint are dropped, as the peer does."""

    package_tree_sha: Sha256
    key_release_endpoint: Annotated[str, Field(min_length=1, max_length=STRING_MAX), AfterValidator(_trimmed)]


def parse_plan(value: object) -> EvalPlan:
    """Read a plan of either form; `package_tree_sha` tells them apart. Raises WireRefused."""
    form = LaterEvalPlan if isinstance(value, dict) and "package_tree_sha" in value else EvalPlan
    return form.parse(value)


def check_plan(plan: EvalPlan) -> None:
    """Hold a plan to what the peer leaves open and a guest must not act on. Raises WireRefused(PLAN_REFUSED).

    The endpoint has the later form's grammar without blanks; image names are printable ASCII; the last part of a task
    id is safe as a directory name, and no two tasks share it.
    """
    endpoint = plan.key_release_endpoint
    _check_printable("/key_release_endpoint", endpoint)
    try:
        parse_authority(endpoint)
    except WireRefused as refusal:
        _refuse(refusal.pointer, refusal.rule, endpoint)
    names = Counter(task_id.rpartition("/")[2] for task_id in plan.task_ids)
    for at, task in enumerate(plan.selected_tasks):
        name = task.task_id.rpartition("/")[2]
        if not _BARE_NAME.fullmatch(name) or name in {".", ".."}:
            _refuse(
                f"/selected_tasks/{at}/task_id", "must end in a name of letters, digits, '.', '_' and '-'", task.task_id
            )
        if names[name] > 1:
            _refuse(f"/selected_tasks/{at}/task_id", "must not share its last part with another task", task.task_id)
        _check_printable(f"/selected_tasks/{at}/image_ref", task.image_ref)
    _check_printable("/eval_app/image_ref", plan.eval_app.image_ref)


def load_plan(data: bytes) -> EvalPlan:
    """Read a plan that a guest is to act on: canonical bytes, either form, checked. Raises WireRefused."""
    plan = parse_plan(canonical.decode_canonical(data))
    check_plan(plan)
    return plan


def _check_printable(pointer: str, text: str) -> None:
    if not _PRINTABLE.fullmatch(text):
        _refuse(pointer, "must be printable ASCII without blanks", text)


def _refuse(pointer: str, rule: str, got: object) -> NoReturn:
    raise WireRefused(Reason.PLAN_REFUSED, pointer, rule, shown(got))
