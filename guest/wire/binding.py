"""What a quote binds: a small record whose SHA-256 fills the first half of the quote's report data.

Each purpose has its own domain inside the hashed bytes, so that a quote made for one never serves another.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from guest.reason import Reason
from guest.wire.measurement import Measurement
from guest.wire.plan import EvalPlan
from guest.wire.refusal import WireRefused
from guest.wire.scalars import Closed, Id, Sha256, Version2
from guest.wire.score_record import check_ascending

SCORE_DOMAIN: Literal["base-agent-challenge-v1"] = "base-agent-challenge-v1"
KEY_RELEASE_DOMAIN: Literal["base-agent-challenge-keyrelease-v1"] = "base-agent-challenge-keyrelease-v1"
NO_KEY_DIGEST = sha256(b"").hexdigest()
"""What the public key's digest would be if none was set."""


class _Binding(Closed):
    reason: ClassVar[Reason] = Reason.BINDING_MALFORMED

    def report_data(self) -> str:
        """Give the 64 bytes to quote, as 128 lowercase hex digits: the digest, then 32 zero bytes."""
        return self.canonical_digest() + "00" * 32


class ScoreBinding(_Binding):
    """Score binding v2: which scores, of which agent, by which machine, for which plan."""

    agent_hash: Sha256
    canonical_measurement: Measurement
    domain: Literal["base-agent-challenge-v1"]
    eval_run_id: Id
    schema_version: Version2
    score_nonce: Id
    scores_digest: Sha256
    task_ids: Annotated[tuple[Id, ...], Field(strict=False, fail_fast=True)]

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        check_ascending("task_ids", self.task_ids, leaf="")
        return self


class KeyReleaseBinding(_Binding):
    """Key-release binding v2: which run asks, and which TLS key the answer is for."""

    domain: Literal["base-agent-challenge-keyrelease-v1"]
    eval_run_id: Id
    key_release_nonce: Id
    ra_tls_spki_digest: Sha256
    schema_version: Version2


def score_binding_for(plan: EvalPlan, scores_digest: str) -> ScoreBinding:
    """Give what the quote over a run's scores binds. `scores_digest` is the score record's, in hex."""
    return ScoreBinding.parse(
        {
            "agent_hash": plan.agent_hash,
            "canonical_measurement": plan.canonical_measurement.model_dump(),
            "domain": SCORE_DOMAIN,
            "eval_run_id": plan.eval_run_id,
            "schema_version": 2,
            "score_nonce": plan.score_nonce,
            "scores_digest": scores_digest,
            "task_ids": plan.task_ids,
        }
    )


def key_release_binding_for(plan: EvalPlan, spki: bytes) -> KeyReleaseBinding:
    """Give what the quote that asks for the key binds.

    `spki` is the DER SubjectPublicKeyInfo (RFC 5280 section 4.1) of the guest's TLS client certificate. Raises
    WireRefused when it is empty.
    """
    binding = KeyReleaseBinding.parse(
        {
            "domain": KEY_RELEASE_DOMAIN,
            "eval_run_id": plan.eval_run_id,
            "key_release_nonce": plan.key_release_nonce,
            "ra_tls_spki_digest": sha256(spki).hexdigest(),
            "schema_version": 2,
        }
    )
    check_key_release_binding(binding)
    return binding


def check_score_binding(binding: ScoreBinding) -> None:
    """Refuse a binding of no task, which the peer lets through."""
    if not binding.task_ids:
        raise WireRefused(Reason.BINDING_MALFORMED, "/task_ids", "must name at least one task")


def check_key_release_binding(binding: KeyReleaseBinding) -> None:
    """Refuse a binding to no key at all, which the peer lets through."""
    if binding.ra_tls_spki_digest == NO_KEY_DIGEST:
        raise WireRefused(
            Reason.BINDING_MALFORMED, "/ra_tls_spki_digest", "must be the digest of a public key, not of no bytes"
        )
