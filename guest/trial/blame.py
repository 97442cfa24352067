"""Whose failure an error is, once agent code has run: the agent's, unless there is evidence from outside the container.

Otherwise an agent could turn a losing trial into one that has no score.
"""

from __future__ import annotations

from docker.errors import NotFound

from guest.errors import EnvironmentFault, EvalguestError
from guest.reason import Reason
from guest.trial.engine import Engine, answers, engine_call
from guest.trial.outcome import Ending, Outcome, ending_for

_OF_THE_HOST = frozenset({Reason.AGENT_LOAD_FAILED, Reason.AGENT_HOST_ENDED, Reason.AGENT_CHANNEL_BROKEN})


def after_error(engine: Engine, container_id: str, error: EvalguestError) -> Ending:
    """Give the ending for an error of the runner's own steps.

    An engine error counts against the agent as long as the engine itself answers: it is the state of the container
    that the engine could not work with. A container that is gone was taken by somebody outside.
    """
    if not isinstance(error, EnvironmentFault):
        return ending_for(error.reason, error.message)
    try:
        with engine_call("look at the container"):
            state = engine.api.inspect_container(container_id)["State"]
    except EnvironmentFault as fault:
        if isinstance(fault.__cause__, NotFound) or not answers(engine):
            return Ending(Outcome.INFRA_ERROR, None, error.reason, error.message)
        return ending_for(Reason.VERIFIER_INPUTS_UNCLEAN, error.message)
    if not state["Running"]:
        return ending_for(Reason.CONTAINER_ENDED, f"PID 1 of the task container ended by itself ({error.message})")
    return ending_for(Reason.VERIFIER_INPUTS_UNCLEAN, error.message)


def after_agent_error(engine: Engine, container_id: str, error: EvalguestError) -> Ending:
    """Give the ending for one of our errors that an agent ended with: its failure, whatever reason the error names."""
    if error.reason is Reason.AGENT_HOST_UNAVAILABLE:  # nothing of the agent has run
        return ending_for(error.reason, error.message)
    if isinstance(error, EnvironmentFault) or error.reason is Reason.AGENT_TIMEOUT:
        return after_error(engine, container_id, error)
    if error.reason in _OF_THE_HOST:
        return ending_for(error.reason, error.message)
    return ending_for(Reason.AGENT_FAILED, f"the agent ended with an error: {error.message}")


def after_agent_raised(error: BaseException) -> Ending:
    """Give the ending for anything else an agent raised, told in words that a record can carry."""
    words = f"{type(error).__name__}: {error}".encode(errors="backslashreplace").decode()
    return ending_for(Reason.AGENT_FAILED, f"the agent raised {words}")
