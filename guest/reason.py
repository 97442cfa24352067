"""The one enumeration of reason codes: each names a cause and carries the sentence shown to people."""

# ruff: noqa: E501 - one reason, one line

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Stage(StrEnum):
    """Where a reason arises. The value heads its part of `docs/reason-codes.md`."""

    MACHINE = "command line and machine"
    TASKS = "tasks and the cache"
    IMAGES = "images"
    CONTAINERS = "containers"
    JOB = "jobs"
    AGENT = "submitted agents"
    TRIAL = "trials"
    GATE = "gates of a repetition"
    WIRE = "records on the wire"
    RESULT_LINE = "result line"
    KEY_RELEASE = "key release"
    DELIVERY = "delivery of a result"
    RECEIPT = "receipt of a result"
    PROGRESS = "progress"


class Reason(StrEnum):
    """Why something was refused, failed or scored 0. The value is what records and JSON carry.

    `sentence` says it to people, `stage` is where it arises.
    """

    sentence: str
    stage: Stage

    def __new__(cls, code: str, stage: Stage, sentence: str) -> Self:
        """Make a member whose string value is `code`."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.stage = stage
        member.sentence = sentence
        return member

    @property
    def retryable(self) -> bool:
        """Whether the same attempt may be made again, unchanged."""
        return self in _RETRYABLE

    @property
    def wire(self) -> Reason:
        """The code of the result line that stands for this one there."""
        if self.stage is Stage.RESULT_LINE:
            return self
        return Reason.PHALA_KEY_RELEASE_FAILED if self.stage is Stage.KEY_RELEASE else _ON_THE_LINE.get(self, _GENERIC)

    # fmt: off

    # --- command line and machine
    USAGE = "usage", Stage.MACHINE, "The command line is wrong."
    ENGINE_UNAVAILABLE = "engine_unavailable", Stage.MACHINE, "No container engine answers on its Unix socket."
    ENGINE_FAULT = "engine_fault", Stage.MACHINE, "The container engine refused or broke off a call."
    ENGINE_TIMEOUT = "engine_timeout", Stage.MACHINE, "The container engine did not answer in time."
    ENGINE_UNSUITABLE = "engine_unsuitable", Stage.MACHINE, "The container engine does not do what this runner relies on."
    TOOL_MISSING = "tool_missing", Stage.MACHINE, "A program this step needs is not installed."
    TOOL_FAILED = "tool_failed", Stage.MACHINE, "A program this step runs ended with an error."
    NETWORK_UNAVAILABLE = "network_unavailable", Stage.MACHINE, "A host this step needs could not be reached."
    MIRROR_MOVED = "mirror_moved", Stage.MACHINE, "The package mirror no longer serves a version that the lock names."
    LOCK_MISMATCH = "lock_mismatch", Stage.MACHINE, "Something built or fetched differs from what the lock says."
    LOCK_MALFORMED = "lock_malformed", Stage.MACHINE, "A lock file is not in its closed form."
    NO_SPACE = "no_space", Stage.MACHINE, "The disk has too little room for this step."
    INTERRUPTED = "interrupted", Stage.MACHINE, "The run was stopped before its end."
    INTERNAL_FAULT = "internal_fault", Stage.MACHINE, "A fault of this program, not of what it was given."

    # --- tasks and the cache
    TASK_UNKNOWN = "task_unknown", Stage.TASKS, "The cache has no task of that name."
    TASK_MALFORMED = "task_malformed", Stage.TASKS, "The task's files are not in Terminal-Bench / Harbor form."
    TASK_UNSUPPORTED = "task_unsupported", Stage.TASKS, "The task asks for something this runner does not support."
    TASK_DIGEST_MISMATCH = "task_digest_mismatch", Stage.TASKS, "The task tree differs from the manifest."
    TASK_TOO_LARGE = "task_too_large", Stage.TASKS, "The task asks for more CPUs or memory than this machine has."
    MANIFEST_MALFORMED = "manifest_malformed", Stage.TASKS, "The manifest is not in the data-set digest form."
    BUDGETS_MALFORMED = "budgets_malformed", Stage.TASKS, "budgets.json is not in its closed form."
    IMAGES_MALFORMED = "images_malformed", Stage.TASKS, "images.json is not in its closed form."

    # --- images
    IMAGE_MALFORMED = "image_malformed", Stage.IMAGES, "A name is not one that images have."
    IMAGE_UNAVAILABLE = "image_unavailable", Stage.IMAGES, "The task's image could be neither pulled nor built."
    IMAGE_MISMATCH = "image_mismatch", Stage.IMAGES, "The image present is not the one that is pinned."
    WORKDIR_UNSUITABLE = "workdir_unsuitable", Stage.IMAGES, "The image sets no working directory, or sets the root."

    # --- containers
    LAUNCH_REFUSED = "launch_refused", Stage.CONTAINERS, "The engine created a container that differs from its description."
    TAR_REFUSED = "tar_refused", Stage.CONTAINERS, "A tar stream broke the rules for bytes that cross a container border."
    CONTAINER_LEFT = "container_left", Stage.CONTAINERS, "A container, network or volume could not be removed."
    HEALTHCHECK_FAILED = "healthcheck_failed", Stage.CONTAINERS, "The task's health check did not pass before the agent started."

    # --- jobs
    PROOF_MALFORMED = "proof_malformed", Stage.JOB, "The proof of a trial is not in its closed form."
    PROOF_WRONG = "proof_wrong", Stage.JOB, "The proof of a trial does not lead to the root of its job."
    JOB_BUSY = "job_busy", Stage.JOB, "Another run works in this job directory."
    JOB_MALFORMED = "job_malformed", Stage.JOB, "The job directory does not hold a job in the form that is written here."
    JOB_DIFFERS = "job_differs", Stage.JOB, "The job to resume is not the one that was begun."

    # --- submitted agents
    AGENT_ARCHIVE_TOO_LARGE = "agent_archive_too_large", Stage.AGENT, "The agent's archive is larger than 1 MiB."
    AGENT_ARCHIVE_MALFORMED = "agent_archive_malformed", Stage.AGENT, "The agent's archive is not a plain ZIP file that every reader reads alike."
    AGENT_ARCHIVE_ENCRYPTED = "agent_archive_encrypted", Stage.AGENT, "The agent's archive has an encrypted entry."
    AGENT_ARCHIVE_EXPANDS = "agent_archive_expands", Stage.AGENT, "The agent's archive inflates to more than is allowed."
    AGENT_ARCHIVE_NESTED = "agent_archive_nested", Stage.AGENT, "The agent's archive holds another archive."
    AGENT_TOO_MANY_FILES = "agent_too_many_files", Stage.AGENT, "The agent has more than 200 files."
    AGENT_PATH_REFUSED = "agent_path_refused", Stage.AGENT, "A path in the agent's archive is not a plain relative path."
    AGENT_PATH_DUPLICATE = "agent_path_duplicate", Stage.AGENT, "Two paths in the agent's archive are, or may be taken for, one."
    AGENT_ENTRY_REFUSED = "agent_entry_refused", Stage.AGENT, "An entry of the agent's archive is a link, a special file or has special mode bits."
    AGENT_FILE_REFUSED = "agent_file_refused", Stage.AGENT, "The agent's archive holds compiled code or a .pth file."
    AGENT_ENTRY_POINT_MISSING = "agent_entry_point_missing", Stage.AGENT, "The agent has no agent.py at its root."
    AGENT_ENTRY_POINT_MALFORMED = "agent_entry_point_malformed", Stage.AGENT, "The agent's agent.py is not Python source with a class Agent."
    AGENT_HOST_UNAVAILABLE = "agent_host_unavailable", Stage.AGENT, "The agent's own container could not be started."

    # --- trials
    AGENT_TIMEOUT = "agent_timeout", Stage.TRIAL, "The agent reached its wall limit."
    AGENT_FAILED = "agent_failed", Stage.TRIAL, "The agent raised an error."
    AGENT_LOAD_FAILED = "agent_load_failed", Stage.TRIAL, "The agent could not be loaded or constructed."
    AGENT_HOST_ENDED = "agent_host_ended", Stage.TRIAL, "The agent's own container ended before the agent was done."
    AGENT_CHANNEL_BROKEN = "agent_channel_broken", Stage.TRIAL, "The agent's container sent what is no message, or took none."
    CPU_UNREADABLE = "cpu_unreadable", Stage.TRIAL, "The CPU time of a running trial could not be read."
    AGENT_LEFT_PROCESSES = "agent_left_processes", Stage.TRIAL, "Processes of the agent phase could not be ended."
    CONTAINER_ENDED = "container_ended", Stage.TRIAL, "The task container ended by itself."
    VERIFIER_INPUTS_UNCLEAN = "verifier_inputs_unclean", Stage.TRIAL, "The verifier's directories could not be brought to a known state."
    VERIFIER_TIMEOUT = "verifier_timeout", Stage.TRIAL, "The verifier reached its wall limit."
    REWARD_MISSING = "reward_missing", Stage.TRIAL, "The verifier left no reward file."
    REWARD_EMPTY = "reward_empty", Stage.TRIAL, "The reward file has no bytes."
    REWARD_MALFORMED = "reward_malformed", Stage.TRIAL, "The reward file is not in the accepted form."
    REWARD_AMBIGUOUS = "reward_ambiguous", Stage.TRIAL, "The verifier left both reward files."
    REWARD_NOT_REGULAR = "reward_not_regular", Stage.TRIAL, "A reward or report path is not a regular file."
    REWARD_UNREADABLE = "reward_unreadable", Stage.TRIAL, "The verifier's directory could not be read within its limits."
    REWARD_CONFLICT = "reward_conflict", Stage.TRIAL, "The reward says passed, the test report says failed."
    REPORT_MALFORMED = "report_malformed", Stage.TRIAL, "The test report is not a CTRF document."

    # --- gates of a repetition
    CPU_BUDGET_EXCEEDED = "cpu_budget_exceeded", Stage.GATE, "The run used more CPU seconds than its budget."
    WALL_BACKSTOP_EXCEEDED = "wall_backstop_exceeded", Stage.GATE, "The run reached its wall backstop."
    PROBE_NOT_OBSERVED = "probe_not_observed", Stage.GATE, "The probe file was not found in the sealed container."
    PROBE_MISMATCH = "probe_mismatch", Stage.GATE, "The probe file does not hold the derived value."
    EVIDENCE_MISSING = "evidence_missing", Stage.GATE, "The run left no evidence document."
    EVIDENCE_MALFORMED = "evidence_malformed", Stage.GATE, "The evidence document is not in its closed form."
    EVIDENCE_PLANE_MISSING = "evidence_plane_missing", Stage.GATE, "The evidence lacks its action plane or its context plane."

    # --- records on the wire
    JSON_REFUSED = "json_refused", Stage.WIRE, "The text is not JSON in the strict form that records have."
    NOT_CANONICAL = "not_canonical", Stage.WIRE, "The bytes are not the canonical JSON of what they say."
    PLAN_MALFORMED = "plan_malformed", Stage.WIRE, "The evaluation plan is not in its closed form."
    PLAN_REFUSED = "plan_refused", Stage.WIRE, "The evaluation plan breaks a rule that this guest adds to the published form."
    POLICY_MALFORMED = "policy_malformed", Stage.WIRE, "The scoring policy is not in its closed form."
    SCORE_MALFORMED = "score_malformed", Stage.WIRE, "A score is not a binary64 number from 0 to 1."
    SCORE_RECORD_MALFORMED = "score_record_malformed", Stage.WIRE, "The score record is not in its closed form."
    SCORE_RECORD_WRONG = "score_record_wrong", Stage.WIRE, "The score record is not what the plan and the trial scores give."
    BINDING_MALFORMED = "binding_malformed", Stage.WIRE, "What a quote is to bind is not in its closed form."
    QUOTE_MALFORMED = "quote_malformed", Stage.WIRE, "The TDX quote has not the structure that is accepted."
    QUOTE_REPLY_MALFORMED = "quote_reply_malformed", Stage.WIRE, "The reply to a quote request cannot be brought into wire form."
    EVENT_LOG_REFUSED = "event_log_refused", Stage.WIRE, "The event log breaks a rule, or does not replay to the register."
    RESULT_MALFORMED = "result_malformed", Stage.WIRE, "The result is not in its closed form."
    RESULT_MISMATCH = "result_mismatch", Stage.WIRE, "The result does not fit the plan, or its parts do not fit each other."
    RECEIPT_MALFORMED = "receipt_malformed", Stage.WIRE, "The receipt is not in its closed form."
    PROGRESS_MALFORMED = "progress_malformed", Stage.WIRE, "The progress record is not in its closed form."
    RESULT_LINE_MALFORMED = "result_line_malformed", Stage.WIRE, "The result line is not in the form that its readers take."
    PACKAGE_MALFORMED = "package_malformed", Stage.WIRE, "The agent's package names no files, or names them in a refused way."
    GOLDEN_REFUSED = "golden_refused", Stage.WIRE, "The golden envelope does not open with this key and name."
    GOLDEN_KEY_MALFORMED = "golden_key_malformed", Stage.WIRE, "The golden key is not 32 bytes in an accepted spelling."

    # --- the closed vocabulary of the result line
    HARBOR_BROKER_CONNECTION_FAILED = "harbor_broker_connection_failed", Stage.RESULT_LINE, "The container engine or its broker could not be reached."
    HARBOR_CANCELLED_ERROR = "harbor_cancelled_error", Stage.RESULT_LINE, "The run was cancelled."
    HARBOR_ENVIRONMENT_START_TIMEOUT_ERROR = "harbor_environment_start_timeout_error", Stage.RESULT_LINE, "A task container did not start in time."
    TERMINAL_BENCH_BROKER_REF_MISSING = "terminal_bench_broker_ref_missing", Stage.RESULT_LINE, "The job's reference to its broker was lost."
    TERMINAL_BENCH_JOB_DIR_MISSING = "terminal_bench_job_dir_missing", Stage.RESULT_LINE, "The job's directory was lost."
    TERMINAL_BENCH_LEASE_EXPIRED = "terminal_bench_lease_expired", Stage.RESULT_LINE, "The job's lease ran out."
    HARBOR_RESULT_MISSING = "harbor_result_missing", Stage.RESULT_LINE, "The run left no result line."
    HARBOR_RESULT_MALFORMED = "harbor_result_malformed", Stage.RESULT_LINE, "The result line is not JSON."
    HARBOR_RESULT_PARTIAL = "harbor_result_partial", Stage.RESULT_LINE, "The result line lacks members."
    HARBOR_RESULT_INVALID = "harbor_result_invalid", Stage.RESULT_LINE, "The result line has values out of contract, or a failure with a positive score."
    HARBOR_NONZERO_EXIT = "harbor_nonzero_exit", Stage.RESULT_LINE, "The process failed without giving a reason."
    HARBOR_REWARD_MISSING = "harbor_reward_missing", Stage.RESULT_LINE, "The verifier left no reward file."
    HARBOR_REWARD_EMPTY = "harbor_reward_empty", Stage.RESULT_LINE, "The reward file has no bytes."
    HARBOR_REWARD_PARSE_ERROR = "harbor_reward_parse_error", Stage.RESULT_LINE, "The reward file could not be read as a reward."
    HARBOR_TRIAL_FAILED = "harbor_trial_failed", Stage.RESULT_LINE, "A trial failed for a reason that has no code of its own here."
    HARBOR_TRIAL_RESULT_MISSING = "harbor_trial_result_missing", Stage.RESULT_LINE, "A trial left no result."
    HARBOR_TRIAL_RESULT_MALFORMED = "harbor_trial_result_malformed", Stage.RESULT_LINE, "A trial's result could not be read."
    HARBOR_AGENT_TIMEOUT_ERROR = "harbor_agent_timeout_error", Stage.RESULT_LINE, "The agent reached its time limit."
    HARBOR_VERIFIER_TIMEOUT_ERROR = "harbor_verifier_timeout_error", Stage.RESULT_LINE, "The verifier reached its time limit."
    HARBOR_SUBMISSION_CODE_FAILED = "harbor_submission_code_failed", Stage.RESULT_LINE, "The submitted agent's code raised an error."
    TERMINAL_BENCH_ATTEMPT_NOT_RUNNING = "terminal_bench_attempt_not_running", Stage.RESULT_LINE, "The attempt that reported is not the one that runs."
    TERMINAL_BENCH_FAILED = "terminal_bench_failed", Stage.RESULT_LINE, "The job failed; stage, class and detail on the line say where."
    PHALA_ATTESTATION_FAILED = "phala_attestation_failed", Stage.RESULT_LINE, "There is no genuine quote, or no valid binding in it."
    PHALA_KEY_RELEASE_FAILED = "phala_key_release_failed", Stage.RESULT_LINE, "The golden key was not released."
    PHALA_GOLDEN_DECRYPT_FAILED = "phala_golden_decrypt_failed", Stage.RESULT_LINE, "The released key did not open the golden file."

    # --- the closed vocabulary of key-release denials
    MALFORMED_REQUEST = "malformed_request", Stage.KEY_RELEASE, "The key request is not in its closed form."
    FRAME_TOO_LARGE = "frame_too_large", Stage.KEY_RELEASE, "The key request is longer than a frame may be."
    HANDSHAKE_TIMEOUT = "handshake_timeout", Stage.KEY_RELEASE, "The TLS handshake took too long."
    EXCHANGE_TIMEOUT = "exchange_timeout", Stage.KEY_RELEASE, "The exchange took too long."
    RATE_LIMITED = "rate_limited", Stage.KEY_RELEASE, "Too many key requests came in a short time."
    VERIFICATION_BUSY = "verification_busy", Stage.KEY_RELEASE, "The same request is being verified already."
    VERIFIER_UNAVAILABLE = "verifier_unavailable", Stage.KEY_RELEASE, "The verifier could not decide now; the same bytes may be sent again."
    RUN_CONFLICT = "run_conflict", Stage.KEY_RELEASE, "The run is in no state in which its key is released."
    NONCE_UNKNOWN = "nonce_unknown", Stage.KEY_RELEASE, "The nonce was not issued for this run."
    NONCE_EXPIRED = "nonce_expired", Stage.KEY_RELEASE, "The nonce is too old."
    NONCE_CONSUMED = "nonce_consumed", Stage.KEY_RELEASE, "The nonce was used before."
    INVALID_QUOTE = "invalid_quote", Stage.KEY_RELEASE, "The quote is not genuine."
    TCB_REJECTED = "tcb_rejected", Stage.KEY_RELEASE, "The machine's firmware is not at an accepted level."
    MEASUREMENT_REJECTED = "measurement_rejected", Stage.KEY_RELEASE, "The machine does not run the software that is allowed."
    BINDING_REJECTED = "binding_rejected", Stage.KEY_RELEASE, "The quote does not bind this run, nonce and TLS key."

    # --- what the result endpoint answers
    RESULT_MEDIA_INVALID = "result_media_invalid", Stage.DELIVERY, "The body is not application/json."
    INVALID_EVAL_TOKEN = "invalid_eval_token", Stage.DELIVERY, "The run token is missing or another."
    ATTESTED_EVAL_DISABLED = "attested_eval_disabled", Stage.DELIVERY, "The service takes no attested results."
    EVAL_RUN_UNKNOWN = "eval_run_unknown", Stage.DELIVERY, "The service knows no run of this id."
    EVAL_RESULT_RECEIPT_CONFLICT = "eval_result_receipt_conflict", Stage.DELIVERY, "Other bytes were receipted for this run before."
    EVAL_EXPIRED = "eval_expired", Stage.DELIVERY, "The plan expired before its result came."
    EVAL_RUN_TERMINAL = "eval_run_terminal", Stage.DELIVERY, "The run has ended already."
    RESULT_TOO_LARGE = "result_too_large", Stage.DELIVERY, "The body is longer than 16 MiB."
    RESULT_TASKS_TOO_MANY = "result_tasks_too_many", Stage.DELIVERY, "The score record has more than 512 tasks."
    RESULT_EVENT_LOG_TOO_LARGE = "result_event_log_too_large", Stage.DELIVERY, "The event log has too many entries or bytes."
    RESULT_VM_CONFIG_TOO_LARGE = "result_vm_config_too_large", Stage.DELIVERY, "vm_config is too large."
    RESULT_STRING_TOO_LARGE = "result_string_too_large", Stage.DELIVERY, "A string is longer than 16384 bytes."
    RESULT_QUOTE_TOO_LARGE = "result_quote_too_large", Stage.DELIVERY, "The quote is longer than 64 KiB."
    RESULT_INVALID = "result_invalid", Stage.DELIVERY, "The body breaks its closed form or is not canonical: a defect of the sender."
    RESULT_NONCANONICAL = "result_noncanonical", Stage.DELIVERY, "The body is not the canonical JSON of what it says: a defect of the sender."
    RESULT_RUN_MISMATCH = "result_run_mismatch", Stage.DELIVERY, "The body speaks of another run than the address."
    EVAL_RESULT_RATE_LIMITED = "eval_result_rate_limited", Stage.DELIVERY, "Too many deliveries of this run came in a minute."
    EVAL_RESULT_OVERLOADED = "eval_result_overloaded", Stage.DELIVERY, "The service takes no more results for the moment."

    # --- what a receipt says
    ATTESTATION_VERIFICATION_FAILED = "attestation_verification_failed", Stage.RECEIPT, "The quote, the event log or the measurement did not verify."
    PERSISTENCE_UNAVAILABLE = "persistence_unavailable", Stage.RECEIPT, "The service could not store its verdict; the same bytes may be sent again."
    REVIEW_ATTESTATION_MISSING = "review_attestation_missing", Stage.RECEIPT, "There is no attested review that allows this agent."
    ATTESTATION_STALE_OVER_24H = "attestation_stale_over_24h", Stage.RECEIPT, "The review that allows this agent is older than 24 hours."
    SCORE_REFUSED_INCOMPLETE_CHAIN = "score_refused_incomplete_chain", Stage.RECEIPT, "A link from review to score is missing."
    SCORE_REFUSED_AST_ONLY = "score_refused_ast_only", Stage.RECEIPT, "The review was not an attested one."
    SCORE_REFUSED_FLAGS_OFF = "score_refused_flags_off", Stage.RECEIPT, "Attestation is switched off at the service."
    SCORE_REFUSED_MISSING_KEY_RELEASE = "score_refused_missing_key_release", Stage.RECEIPT, "No key was released for this run."
    SCORE_REFUSED_KEY_RELEASE_MISMATCH = "score_refused_key_release_mismatch", Stage.RECEIPT, "The key was released to another machine or run."
    SCORE_REFUSED_KEY_RELEASE_DOMAIN = "score_refused_key_release_domain", Stage.RECEIPT, "The key was released on a quote of another domain."
    SCORE_REFUSED_NONCE_REPLAY = "score_refused_nonce_replay", Stage.RECEIPT, "The score nonce was used before."
    SCORE_REFUSED_NONCE_STALE = "score_refused_nonce_stale", Stage.RECEIPT, "The score nonce is too old."
    SCORE_REFUSED_DOMAIN_CONFUSION = "score_refused_domain_confusion", Stage.RECEIPT, "A quote made for one purpose was offered for another."
    SCORE_REFUSED_TAMPERED = "score_refused_tampered", Stage.RECEIPT, "The stored result differs from the one that was receipted."
    SCORE_REFUSED_STICKY_REVERIFY = "score_refused_sticky_reverify", Stage.RECEIPT, "A run that was refused once stays refused."
    SCORE_REFUSED_REVIEW_CHAIN = "score_refused_review_chain", Stage.RECEIPT, "The review does not lead to this plan."
    SCORE_REFUSED_SCORE_DOMAIN = "score_refused_score_domain", Stage.RECEIPT, "The quote is not of the score domain."
    SCORE_REFUSED_PARTIAL_FORBIDDEN = "score_refused_partial_forbidden", Stage.RECEIPT, "A part of a result was offered as a result."

    # --- what the progress endpoint answers
    PROGRESS_INVALID = "progress_invalid", Stage.PROGRESS, "The progress record breaks its closed form."
    PROGRESS_PHASE_INVALID = "progress_phase_invalid", Stage.PROGRESS, "The run is in no phase that has progress."
    PROGRESS_RUN_MISMATCH = "progress_run_mismatch", Stage.PROGRESS, "The progress record speaks of another run."
    PROGRESS_SUBMISSION_MISMATCH = "progress_submission_mismatch", Stage.PROGRESS, "The progress record speaks of another submission."
    PROGRESS_TASK_UNKNOWN = "progress_task_unknown", Stage.PROGRESS, "The progress record names a task that the plan has not."
    PROGRESS_SEQUENCE_STALE = "progress_sequence_stale", Stage.PROGRESS, "The sequence number does not rise."
    PROGRESS_MEDIA_INVALID = "progress_media_invalid", Stage.PROGRESS, "The body is not application/json."
    PROGRESS_SCORE_FORBIDDEN = "progress_score_forbidden", Stage.PROGRESS, "A score, or what would be taken for one, has no place in progress."
    # fmt: on


_RETRYABLE = frozenset(
    {
        Reason.ENGINE_UNAVAILABLE,
        Reason.ENGINE_FAULT,
        Reason.ENGINE_TIMEOUT,
        Reason.TOOL_FAILED,
        Reason.NETWORK_UNAVAILABLE,
        Reason.NO_SPACE,
        Reason.INTERRUPTED,
        Reason.IMAGE_UNAVAILABLE,
        Reason.CONTAINER_LEFT,
        Reason.AGENT_HOST_UNAVAILABLE,
        Reason.HEALTHCHECK_FAILED,
        Reason.HARBOR_BROKER_CONNECTION_FAILED,
        Reason.HARBOR_CANCELLED_ERROR,
        Reason.HARBOR_ENVIRONMENT_START_TIMEOUT_ERROR,
        Reason.TERMINAL_BENCH_BROKER_REF_MISSING,
        Reason.TERMINAL_BENCH_JOB_DIR_MISSING,
        Reason.TERMINAL_BENCH_LEASE_EXPIRED,
        Reason.EXCHANGE_TIMEOUT,
        Reason.RATE_LIMITED,
        Reason.VERIFICATION_BUSY,
        Reason.VERIFIER_UNAVAILABLE,
        Reason.EVAL_RESULT_RATE_LIMITED,
        Reason.EVAL_RESULT_OVERLOADED,
        Reason.PERSISTENCE_UNAVAILABLE,
    }
)

_GENERIC = Reason.TERMINAL_BENCH_FAILED
_ON_THE_LINE = {
    Reason.INTERRUPTED: Reason.HARBOR_CANCELLED_ERROR,
    Reason.AGENT_TIMEOUT: Reason.HARBOR_AGENT_TIMEOUT_ERROR,
    Reason.AGENT_FAILED: Reason.HARBOR_SUBMISSION_CODE_FAILED,
    Reason.AGENT_LOAD_FAILED: Reason.HARBOR_SUBMISSION_CODE_FAILED,
    Reason.AGENT_HOST_ENDED: Reason.HARBOR_SUBMISSION_CODE_FAILED,
    Reason.AGENT_CHANNEL_BROKEN: Reason.HARBOR_SUBMISSION_CODE_FAILED,
    Reason.CPU_UNREADABLE: Reason.HARBOR_TRIAL_FAILED,
    Reason.AGENT_LEFT_PROCESSES: Reason.HARBOR_TRIAL_FAILED,
    Reason.CONTAINER_ENDED: Reason.HARBOR_TRIAL_FAILED,
    Reason.VERIFIER_INPUTS_UNCLEAN: Reason.HARBOR_TRIAL_FAILED,
    Reason.VERIFIER_TIMEOUT: Reason.HARBOR_VERIFIER_TIMEOUT_ERROR,
    Reason.REWARD_MISSING: Reason.HARBOR_REWARD_MISSING,
    Reason.REWARD_EMPTY: Reason.HARBOR_REWARD_EMPTY,
    Reason.REWARD_MALFORMED: Reason.HARBOR_REWARD_PARSE_ERROR,
    Reason.REWARD_AMBIGUOUS: Reason.HARBOR_REWARD_PARSE_ERROR,
    Reason.REWARD_NOT_REGULAR: Reason.HARBOR_REWARD_PARSE_ERROR,
    Reason.REWARD_UNREADABLE: Reason.HARBOR_REWARD_PARSE_ERROR,
    Reason.REWARD_CONFLICT: Reason.HARBOR_TRIAL_FAILED,
    Reason.REPORT_MALFORMED: Reason.HARBOR_TRIAL_FAILED,
    Reason.CPU_BUDGET_EXCEEDED: Reason.HARBOR_TRIAL_FAILED,
    Reason.WALL_BACKSTOP_EXCEEDED: Reason.HARBOR_AGENT_TIMEOUT_ERROR,
    Reason.PROBE_NOT_OBSERVED: Reason.HARBOR_TRIAL_FAILED,
    Reason.PROBE_MISMATCH: Reason.HARBOR_TRIAL_FAILED,
    Reason.EVIDENCE_MISSING: Reason.HARBOR_TRIAL_FAILED,
    Reason.EVIDENCE_MALFORMED: Reason.HARBOR_TRIAL_FAILED,
    Reason.EVIDENCE_PLANE_MISSING: Reason.HARBOR_TRIAL_FAILED,
    Reason.BINDING_MALFORMED: Reason.PHALA_ATTESTATION_FAILED,
    Reason.QUOTE_MALFORMED: Reason.PHALA_ATTESTATION_FAILED,
    Reason.QUOTE_REPLY_MALFORMED: Reason.PHALA_ATTESTATION_FAILED,
    Reason.EVENT_LOG_REFUSED: Reason.PHALA_ATTESTATION_FAILED,
    Reason.RESULT_MALFORMED: Reason.PHALA_ATTESTATION_FAILED,
    Reason.RESULT_MISMATCH: Reason.PHALA_ATTESTATION_FAILED,
    Reason.GOLDEN_REFUSED: Reason.PHALA_GOLDEN_DECRYPT_FAILED,
    Reason.GOLDEN_KEY_MALFORMED: Reason.PHALA_GOLDEN_DECRYPT_FAILED,
}
