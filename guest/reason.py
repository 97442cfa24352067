"""The one enumeration of reason codes: each names a cause and carries the sentence shown to people."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """Why something was refused, failed or scored 0. The value is what records and JSON carry."""

    sentence: str

    def __new__(cls, code: str, sentence: str) -> Self:
        """Make a member whose string value is `code`."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    # --- command line and machine
    USAGE = "usage", "The command line is wrong."
    ENGINE_UNAVAILABLE = "engine_unavailable", "No container engine answers on its Unix socket."
    ENGINE_FAULT = "engine_fault", "The container engine refused or broke off a call."
    ENGINE_TIMEOUT = "engine_timeout", "The container engine did not answer in time."
    ENGINE_UNSUITABLE = "engine_unsuitable", "The container engine does not do what this runner relies on."
    TOOL_MISSING = "tool_missing", "A program this step needs is not installed."
    TOOL_FAILED = "tool_failed", "A program this step runs ended with an error."
    NETWORK_UNAVAILABLE = "network_unavailable", "A host this step needs could not be reached."
    MIRROR_MOVED = "mirror_moved", "The package mirror no longer serves a version that the lock names."
    LOCK_MISMATCH = "lock_mismatch", "Something built or fetched differs from what the lock says."
    LOCK_MALFORMED = "lock_malformed", "A lock file is not in its closed form."
    NO_SPACE = "no_space", "The disk has too little room for this step."
    INTERRUPTED = "interrupted", "The run was stopped before its end."
    INTERNAL_FAULT = "internal_fault", "A fault of this program, not of what it was given."

    # --- tasks and the cache
    TASK_UNKNOWN = "task_unknown", "The cache has no task of that name."
    TASK_MALFORMED = "task_malformed", "The task's files are not in Terminal-Bench / Harbor form."
    TASK_UNSUPPORTED = "task_unsupported", "The task asks for something this runner does not support."
    TASK_DIGEST_MISMATCH = "task_digest_mismatch", "The task tree differs from the manifest."
    TASK_TOO_LARGE = "task_too_large", "The task asks for more CPUs or memory than this machine has."
    MANIFEST_MALFORMED = "manifest_malformed", "The manifest is not in the data-set digest form."
    BUDGETS_MALFORMED = "budgets_malformed", "budgets.json is not in its closed form."
    IMAGES_MALFORMED = "images_malformed", "images.json is not in its closed form."

    # --- images
    IMAGE_MALFORMED = "image_malformed", "A name is not one that images have."
    IMAGE_UNAVAILABLE = "image_unavailable", "The task's image could be neither pulled nor built."
    IMAGE_MISMATCH = "image_mismatch", "The image present is not the one that is pinned."
    WORKDIR_UNSUITABLE = "workdir_unsuitable", "The image sets no working directory, or sets the root."

    # --- containers
    LAUNCH_REFUSED = "launch_refused", "The engine created a container that differs from its description."
    TAR_REFUSED = "tar_refused", "A tar stream broke the rules for bytes that cross a container border."
    CONTAINER_LEFT = "container_left", "A container, network or volume could not be removed."
    HEALTHCHECK_FAILED = "healthcheck_failed", "The task's health check did not pass before the agent started."

    # --- trials
    AGENT_TIMEOUT = "agent_timeout", "The agent reached its wall limit."
    AGENT_FAILED = "agent_failed", "The agent raised an error."
    AGENT_LEFT_PROCESSES = "agent_left_processes", "Processes of the agent phase could not be ended."
    CONTAINER_ENDED = "container_ended", "The task container ended by itself."
    VERIFIER_INPUTS_UNCLEAN = (
        "verifier_inputs_unclean",
        "The verifier's directories could not be brought to a known state.",
    )
    VERIFIER_TIMEOUT = "verifier_timeout", "The verifier reached its wall limit."
    REWARD_MISSING = "reward_missing", "The verifier left no reward file."
    REWARD_MALFORMED = "reward_malformed", "The reward file is not in the accepted form."
    REWARD_AMBIGUOUS = "reward_ambiguous", "The verifier left both reward files."
    REWARD_NOT_REGULAR = "reward_not_regular", "A reward or report path is not a regular file."
    REWARD_UNREADABLE = "reward_unreadable", "The verifier's directory could not be read within its limits."
    REWARD_CONFLICT = "reward_conflict", "The reward says passed, the test report says failed."
    REPORT_MALFORMED = "report_malformed", "The test report is not a CTRF document."

    # --- the wire
    JSON_REFUSED = "json_refused", "The text is not JSON in the strict form that records have."
    NOT_CANONICAL = "not_canonical", "The bytes are not the canonical JSON of what they say."
    PLAN_MALFORMED = "plan_malformed", "The evaluation plan is not in its closed form."
    PLAN_REFUSED = "plan_refused", "The evaluation plan breaks a rule that this guest adds to the published form."
    POLICY_MALFORMED = "policy_malformed", "The scoring policy is not in its closed form."
    SCORE_MALFORMED = "score_malformed", "A score is not a binary64 number from 0 to 1."
    SCORE_RECORD_MALFORMED = "score_record_malformed", "The score record is not in its closed form."
    SCORE_RECORD_WRONG = "score_record_wrong", "The score record is not what the plan and the trial scores give."
    BINDING_MALFORMED = "binding_malformed", "What a quote is to bind is not in its closed form."
    QUOTE_MALFORMED = "quote_malformed", "The TDX quote has not the structure that is accepted."
    QUOTE_REPLY_MALFORMED = "quote_reply_malformed", "The reply to a quote request cannot be brought into wire form."
    EVENT_LOG_REFUSED = "event_log_refused", "The event log breaks a rule, or does not replay to the register."
    RESULT_MALFORMED = "result_malformed", "The result is not in its closed form."
    RESULT_MISMATCH = "result_mismatch", "The result does not fit the plan, or its parts do not fit each other."
    RECEIPT_MALFORMED = "receipt_malformed", "The receipt is not in its closed form."
    PROGRESS_MALFORMED = "progress_malformed", "The progress record is not in its closed form."
    RESULT_LINE_MALFORMED = "result_line_malformed", "The result line is not in the form that its readers take."
    PACKAGE_MALFORMED = "package_malformed", "The agent's package names no files, or names them in a refused way."
    GOLDEN_REFUSED = "golden_refused", "The golden envelope does not open with this key and name."
    GOLDEN_KEY_MALFORMED = "golden_key_malformed", "The golden key is not 32 bytes in an accepted spelling."
