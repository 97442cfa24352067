"""Progress of a run: what may be told while it goes on, and what the peer answers. Only the later form has it.

Ordinary JSON, at most 16 KiB. A score has no place in it, by name.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, PlainValidator

from guest.reason import Reason
from guest.wire.refusal import WireRefused, json_pointer
from guest.wire.scalars import STRING_MAX, Closed, Id, PositiveInt, Version1

FORBIDDEN = frozenset(
    {
        "score",
        "score_record",
        "scores_digest",
        "execution_proof",
        "agent_hash",
        "canonical_score_record",
        "passed_tasks",
        "total_tasks",
    }
)
"""What would let progress be taken for a result; each is refused with a code of its own."""


def _share(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("must be null or a number from 0 to 1")
    return value


def _short(text: str) -> str:
    if len(text.encode()) > STRING_MAX:
        raise ValueError(f"must have at most {STRING_MAX} bytes of UTF-8")
    return text


class ProgressRequest(Closed):
    """Progress v1 of one task; `sequence` rises with each request of a task, `progress` is a share from 0 to 1."""

    reason: ClassVar[Reason] = Reason.PROGRESS_MALFORMED

    schema_version: Version1
    eval_run_id: Id
    submission_id: Id
    task_id: Id
    sequence: PositiveInt
    status: Literal["assigned", "starting", "waiting", "running", "completed", "failed"]
    event_type: Literal["task.status", "task.progress"] = "task.status"
    progress: Annotated[float | None, PlainValidator(_share)] = None
    message: Annotated[str, AfterValidator(_short)] | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Give the record that a decoded JSON value holds. Raises WireRefused, for a score with its own code."""
        forbidden = sorted(FORBIDDEN & value.keys()) if isinstance(value, dict) else []
        if forbidden:
            raise WireRefused(Reason.PROGRESS_SCORE_FORBIDDEN, json_pointer(forbidden[:1]), "has no place in progress")
        return super().parse(value)


class ProgressReceipt(Closed):
    """Progress receipt v1: `created` is false when the request was a repetition."""

    reason: ClassVar[Reason] = Reason.PROGRESS_MALFORMED

    schema_version: Version1
    eval_run_id: Id
    task_id: Id
    sequence: PositiveInt
    event_id: PositiveInt
    created: bool
