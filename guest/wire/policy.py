"""The scoring policy: how trial scores become a task's score, and which tasks a job's score keeps."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from guest.reason import Reason
from guest.wire.refusal import broken
from guest.wire.scalars import F64, INT_MAX, Closed, Version1


class ScoringPolicy(Closed):
    """Scoring policy v1."""

    reason: ClassVar[Reason] = Reason.POLICY_MALFORMED

    schema_version: Version1
    per_task_aggregation: Literal["mean", "best_of_k"]
    keep_policy: Literal["off", "drop_lowest_n", "threshold_band"]
    drop_lowest_n: Annotated[int, Field(ge=0, le=INT_MAX)]
    threshold_f64be: F64 | None

    @model_validator(mode="after")
    def _only_what_is_kept_by(self) -> Self:
        if self.drop_lowest_n and self.keep_policy != "drop_lowest_n":
            raise broken("drop_lowest_n", f"must be 0 where keep_policy is {self.keep_policy}", self.drop_lowest_n)
        if (self.threshold_f64be is None) == (self.keep_policy == "threshold_band"):
            rule = "must be null" if self.threshold_f64be else "must be set"
            raise broken("threshold_f64be", f"{rule} where keep_policy is {self.keep_policy}", self.threshold_f64be)
        return self


MEAN_OFF = ScoringPolicy(
    schema_version=1, per_task_aggregation="mean", keep_policy="off", drop_lowest_n=0, threshold_f64be=None
)
"""The mean of the trials and of all tasks: what plans name unless they say otherwise, and what dry runs use."""
