"""The result line of a dry run: unattested, and printed however the run ends."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from guest.errors import EvalguestError
from guest.reason import Reason
from guest.wire.result_line import Failure, FailureStage, fail_closed_line, unattested_line

if TYPE_CHECKING:
    from guest.job.summary import JobSummary


class ResultLine:
    """Prints one line on stdout at the end of its block: what `print` was given, else the fail-closed form.

    `total` is the number of tasks as far as it is known, `stage` where the run stands. A line that is not wanted is
    not printed.
    """

    def __init__(self, *, tasks: int, wanted: bool) -> None:
        self.total = tasks
        self.stage = FailureStage.CLI
        self._wanted = wanted
        self._printed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self._printed:
            return
        if isinstance(error, EvalguestError):
            self._print_failure(error.reason, error.message)
        elif isinstance(error, KeyboardInterrupt):
            self._print_failure(Reason.INTERRUPTED, "interrupted")
        else:
            self._print_failure(Reason.INTERNAL_FAULT, f"{type(error).__name__}: {error}")

    def print(self, summary: JobSummary) -> None:
        """Print a finished job's line: its score, or that it failed when a task has none."""
        if summary.job_score is None:
            missing = summary.unscored_tasks[0]
            trials = next(task.trials for task in summary.tasks if task.task_id == missing)
            trial = next(trial for trial in trials if trial.reward is None)
            reason = trial.reason_code or Reason.INTERNAL_FAULT
            self._print_failure(reason, f"{missing}: {trial.message}")
            return
        self._write(
            unattested_line(
                {
                    "reason_code": None,
                    "resolved": summary.passed_tasks,
                    "score": summary.job_score,
                    "status": "completed",
                    "total": summary.total_tasks,
                }
            )
        )

    def _print_failure(self, reason: Reason, detail: str) -> None:
        kind = reason.title().replace("_", "")
        self._write(fail_closed_line(total=self.total, reason=reason, failure=Failure(self.stage, kind, detail)))

    def _write(self, line: str) -> None:
        self._printed = True
        if self._wanted:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
