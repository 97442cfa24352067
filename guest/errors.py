"""The exception tree: every refusal carries a reason code, what was wrong, and what to do next."""

from __future__ import annotations

from typing import ClassVar

from guest.reason import Reason


class EvalguestError(Exception):
    """Base of every error this project raises on purpose.

    `message` says what was wrong (got and expected) and where; `hint` says what to do next, or is empty when the
    message already does. `exit_code` is what the command line ends with.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, reason: Reason, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hint = hint


class Refused(EvalguestError):  # noqa: N818 - the word the field uses
    """The thing that was given does not hold: a malformed task, a digest that differs, a hostile tar stream."""


class UsageFault(EvalguestError):  # noqa: N818 - named for what it is
    """The command line asks for something that does not exist or makes no sense."""

    exit_code = 2


class EnvironmentFault(EvalguestError):  # noqa: N818 - named for what it is
    """This machine lacks something (engine, network, package), so the work could not be done."""

    exit_code = 3
