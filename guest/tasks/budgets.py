"""Budgets of a task: CPU seconds, wall backstop, isolation of the verifier, network.

They are measured data (`budgets.json` beside the tasks), never part of a plan or of `task.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from guest.reason import Reason
from guest.tasks.definition import Network, TaskDefinition
from guest.tasks.json_file import read_model
from guest.tasks.task_id import bare_ids

SCHEMA = "evalguest-budgets/1"
WALL_FACTOR = 3
"""Without an entry the wall backstop of a phase is this many times its limit."""

Isolation = Literal["isolated", "shared"]
Seconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class Budget(BaseModel):
    """What one trial of a task may use: CPU and wall seconds of the two phases, each finite and above 0.

    Isolated: nothing of the agent phase survives into the verifier phase. `budgets.json` gives every member.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    agent_cpu_sec: Seconds
    verifier_cpu_sec: Seconds
    agent_wall_sec: Seconds
    verifier_wall_sec: Seconds
    isolation: Isolation
    network: Network


class _BudgetsFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    schema_: Literal["evalguest-budgets/1"] = Field(alias="schema")
    tasks: Annotated[dict[str, Budget], AfterValidator(bare_ids)]


def load_budgets(path: Path) -> Mapping[str, Budget]:
    """Read `budgets.json`: bare task id to entry. Raises UsageFault (no file), Refused(BUDGETS_MALFORMED)."""
    return read_model(path, _BudgetsFile, Reason.BUDGETS_MALFORMED).tasks


def budgets_document(entries: Mapping[str, Budget]) -> dict[str, Any]:
    """The JSON document that `load_budgets` reads."""
    return {"schema": SCHEMA, "tasks": {name: entry.model_dump() for name, entry in entries.items()}}


def default_budget(task: TaskDefinition, *, isolation: Isolation, network: Network) -> Budget:
    """The budget a task has before anybody measured it: CPU = phase limit times CPUs, wall = three times the limit."""
    return Budget(
        agent_cpu_sec=task.agent_timeout_sec * task.cpus,
        verifier_cpu_sec=task.verifier_timeout_sec * task.cpus,
        agent_wall_sec=task.agent_timeout_sec * WALL_FACTOR,
        verifier_wall_sec=task.verifier_timeout_sec * WALL_FACTOR,
        isolation=isolation,
        network=network,
    )


def budget_for(task: TaskDefinition, entry: Budget | None, *, attested: bool, chosen: bool) -> Budget:
    """Give a task's budget from its entry, or from its definition when it has none.

    The network follows the entry in an attested run (none without one) and when the user `chose` the budgets file;
    else it follows the definition. Without an entry the task is somebody else's, and somebody else's tests may need a
    daemon that the agent left: it is shared, and records say so.
    """
    if entry is None:
        network: Network = "none" if attested else task.network
        return default_budget(task, isolation="shared", network=network)
    return entry if attested or chosen else entry.model_copy(update={"network": task.network})
