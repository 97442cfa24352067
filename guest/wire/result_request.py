"""The result request: the one body that a run delivers, byte for byte canonical."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import model_validator

from guest.reason import Reason
from guest.wire import canonical
from guest.wire.execution_proof import ExecutionProof
from guest.wire.refusal import broken
from guest.wire.scalars import Closed, Id, Sha256, Version1
from guest.wire.score_record import ScoreRecord


class ResultRequest(Closed):
    """Eval result request v1."""

    reason: ClassVar[Reason] = Reason.RESULT_MALFORMED

    schema_version: Version1
    eval_run_id: Id
    submission_id: Id
    agent_hash: Sha256
    score_record: ScoreRecord
    scores_digest: Sha256
    execution_proof: ExecutionProof

    @model_validator(mode="after")
    def _speaks_of_one_record(self) -> Self:
        if self.score_record.eval_run_id != self.eval_run_id:
            raise broken("score_record/eval_run_id", "must be the request's own", self.score_record.eval_run_id)
        if self.score_record.canonical_digest() != self.scores_digest:
            raise broken("scores_digest", "must be the canonical digest of score_record", self.scores_digest)
        return self


def parse_result_body(body: bytes) -> ResultRequest:
    """Read a delivered body, at most 16 MiB. Raises WireRefused, NOT_CANONICAL where only the spelling is wrong."""
    return ResultRequest.parse(canonical.decode_canonical(body))
