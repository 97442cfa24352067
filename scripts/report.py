"""A job's result for people: one row a task, then the score."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from guest.job.summary import JobSummary


def print_summary(summary: JobSummary, stream: TextIO) -> None:
    """Print the table (task, outcome, reward, CPU s, wall s), the job score and the digest of its record."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("task", "outcome"):
        table.add_column(name, no_wrap=True)
    for name in ("reward", "CPU s", "wall s"):
        table.add_column(name, justify="right", no_wrap=True)
    for task in summary.tasks:
        for trial in task.trials:
            name = task.task_id if summary.k == 1 else trial.trial_id
            outcome = str(trial.outcome) if trial.reason_code is None else f"{trial.outcome} ({trial.reason_code})"
            cpu, wall = trial.cpu, trial.wall
            table.add_row(
                name,
                outcome,
                "-" if trial.reward is None else f"{trial.reward:g}",
                _sum(cpu.agent_sec, cpu.verifier_sec),
                _sum(wall.agent_sec, wall.verifier_sec, wall.overhead_sec),
            )
    console = Console(file=stream, soft_wrap=True)
    console.print(table)
    score = "none" if summary.job_score is None else f"{summary.job_score:.4f}"
    console.print(
        f"\njob score {score}, {summary.passed_tasks} of {summary.total_tasks} tasks passed "
        f"(agent {summary.agent.kind}, k={summary.k}, attestation off)\n"
        f"score record sha256 {summary.scores_digest or 'none'}\nfiles: {summary.job_dir}",
        highlight=False,
    )


def _sum(*parts: float | None) -> str:
    known = [part for part in parts if part is not None]
    return f"{sum(known):.2f}" if known else "-"
