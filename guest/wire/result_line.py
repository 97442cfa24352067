"""The line that a run leaves on its standard output: attested, or the older five members that prove nothing.

Readers take the last line that begins with the prefix, so nothing else may print one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, model_validator

from guest.reason import Reason
from guest.wire.refusal import WireRefused, broken, from_validation
from guest.wire.result_request import ResultRequest
from guest.wire.scalars import Int

PREFIX = "BASE_BENCHMARK_RESULT="

_DETAIL_MAX = 160
_DETAIL_READ = 2000
_UNPRINTABLE = re.compile(r"[^ -~]+")
_NOT_OF_A_CLASS = re.compile(r"[^A-Za-z0-9_]+")
_SECRET = re.compile(
    r"(?i:(?:\b(?:bearer|authorization|password|passwd|secret|token|api[_-]?key|key)\b[\"']?\s*[=: ]\s*[\"']?)+)"
    r"[^\s\"',;]+"
    r"|[0-9A-Fa-f]{32,}"
    r"|(?=[A-Za-z+/_-]*[0-9])[A-Za-z0-9+/_-]{40,}={0,2}"
)


class FailureStage(StrEnum):
    """Where a run stood when it ended without a result."""

    BINDING = "binding"
    WINDOW = "window"
    AGENT_IDENTITY = "agent_identity"
    PREFLIGHT_TASKS = "preflight_tasks"
    KEY_RELEASE = "key_release"
    GOLDEN_DECRYPT = "golden_decrypt"
    JOB = "job"
    EMIT = "emit"
    CLI = "cli"


@dataclass(frozen=True)
class Failure:
    """What a generic failure adds: stage, kind (letters, digits, underscore), one line of detail without secrets."""

    stage: FailureStage
    kind: str
    detail: str


def _score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return float(value)


class UnattestedResult(BaseModel):
    """The older result: five members, more allowed. It carries no proof and nobody is paid by it."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)

    reason_code: str | None
    resolved: Int
    score: Annotated[float, PlainValidator(_score)]
    status: Literal["completed", "failed"]
    total: Int

    @model_validator(mode="after")
    def _no_score_for_a_failure(self) -> Self:
        if self.status == "failed" and self.score:
            raise broken("score", "must be 0 where status is failed", self.score)
        return self


def attested_line(request: ResultRequest) -> str:
    """Give the line of an attested run, without its newline. What follows the prefix is the body to deliver."""
    return PREFIX + request.canonical().decode()


def unattested_line(members: Mapping[str, object]) -> str:
    """Give the line of a run without a plan, without its newline. Raises WireRefused for members of a wrong kind.

    Members are sorted, a blank follows each comma and colon, non-ASCII is escaped, the score is always a float.
    """
    try:
        result = UnattestedResult.model_validate(dict(members))
        return PREFIX + json.dumps(result.model_dump(), sort_keys=True, allow_nan=False)
    except ValidationError as error:
        raise from_validation(error, Reason.RESULT_LINE_MALFORMED) from error
    except (TypeError, ValueError) as error:
        raise WireRefused(Reason.RESULT_LINE_MALFORMED, "", f"must be writable as JSON: {error}") from error


def fail_closed_line(*, total: int, reason: Reason, failure: Failure) -> str:
    """Give the line of a run that has no score: failed, 0 of `total` tasks, and why; never an execution proof.

    The code is `reason` as the line spells it. Where that is only the generic one, `failure` goes on the line too.
    """
    code = reason.wire
    members: dict[str, object] = {
        "reason_code": str(code),
        "resolved": 0,
        "score": 0.0,
        "status": "failed",
        "total": total,
    }
    if code == Reason.TERMINAL_BENCH_FAILED:
        members["failure_stage"] = str(failure.stage)
        members["failure_class"] = _NOT_OF_A_CLASS.sub("_", failure.kind) or "Unknown"
        members["failure_detail"] = _one_safe_line(failure.detail)
    return unattested_line(members)


def _one_safe_line(text: str) -> str:
    if len(text) > _DETAIL_READ:
        # Looking for secrets takes time that grows faster than the text, and a word cut in two is not recognised.
        text = text[:_DETAIL_READ].rpartition(" ")[0]
    return _SECRET.sub("redacted", _UNPRINTABLE.sub(" ", text))[:_DETAIL_MAX].strip()
