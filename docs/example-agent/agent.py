"""An agent without a model: it knows some tasks by a phrase of their instruction, and has a folder for each.

Copy a task's `solution/` to `playbooks/<name>/` beside this file. It is written against Harbor's names, and runs under
Harbor as well.
"""

from pathlib import Path

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

PLAYBOOKS = {
    "small key-value service": "kv-daemon",
    "small ingest pipeline": "ingest-hooks",
    "packs series of integers": "packed-series",
}


class Agent(BaseAgent):
    """Looks the instruction up and runs the playbook's `solve.sh`."""

    @staticmethod
    def name() -> str:
        """Give the name that Harbor shows."""
        return "playbook"

    def version(self) -> str | None:
        """Give the version that Harbor shows."""
        return "1.0"

    async def setup(self, environment: BaseEnvironment) -> None:
        """Nothing has to be installed."""

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        """Put the playbook where its script expects it, and run the script."""
        name = next((name for phrase, name in PLAYBOOKS.items() if phrase in instruction), None)
        folder = Path(__file__).parent / "playbooks" / str(name)
        if name is None or not folder.is_dir():
            print("no playbook for this one")
            return
        await environment.upload_dir(folder, "/solution")
        result = await environment.exec("bash /solution/solve.sh", timeout_sec=600)
        print(result.stdout, f"[{name}: solve.sh ended with {result.return_code}]")
        context.metadata = {"playbook": name}
