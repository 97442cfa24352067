"""`scripts/bench wire`: how fast a result body of 1 MiB is written and read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

from guest.wire import canonical
from guest.wire.event_log import RUNTIME_EVENT, runtime_event_digest
from guest.wire.policy import MEAN_OFF
from guest.wire.result_request import ResultRequest, parse_result_body
from guest.wire.score_record import build_score_record
from scripts.benches.figures import Figure

BODY_BYTES = 1024 * 1024
_TASKS, _TRIALS, _QUOTE_BYTES = 512, 30, 8192
_ENTRY_PAYLOAD = 100


def measure_wire(*, rounds: int = 40) -> list[Figure]:
    """Time the writer and the reader of a whole result, the canonical part alone, and the plain JSON module."""
    request = result_of(BODY_BYTES)
    body = request.canonical()
    plain = json.loads(body)
    target = "target: none set; a run writes one"
    return [
        Figure("body_bytes", "B", [len(body)], f"{_TASKS} tasks, {_TRIALS} trials each, the rest event log"),
        *_timed("encode_result", request.canonical, len(body), rounds, target),
        *_timed("decode_result", lambda: parse_result_body(body), len(body), rounds, "strict, byte equality included"),
        *_timed("encode_value", lambda: canonical.encode(plain), len(body), rounds, "canonical JSON alone"),
        *_timed("decode_value", lambda: canonical.decode(body), len(body), rounds, "strict reader alone"),
        *_timed("json_dumps", lambda: json.dumps(plain, sort_keys=True), len(body), rounds, "the interpreter's own"),
        *_timed("json_loads", lambda: json.loads(body), len(body), rounds, "the interpreter's own"),
    ]


def result_of(size: int) -> ResultRequest:
    """Make a result whose canonical body has `size` bytes or one less: full score record, the rest event log."""
    trials = {f"task-{at:03}": [((at * 7 + trial) % 11) / 10 for trial in range(_TRIALS)] for at in range(_TASKS)}
    record = build_score_record(eval_run_id="bench", policy=MEAN_OFF, trials=trials)
    entry = {
        "imr": 3,
        "event_type": RUNTIME_EVENT,
        "digest": runtime_event_digest("x", bytes(_ENTRY_PAYLOAD)),
        "event": "x",
        "event_payload": "00" * _ENTRY_PAYLOAD,
    }

    def made(entries: int, more: int) -> ResultRequest:
        log = [entry] * entries + [{**entry, "event_payload": "00" * (_ENTRY_PAYLOAD + more)}]
        return ResultRequest.parse(
            {
                "schema_version": 1,
                "eval_run_id": "bench",
                "submission_id": "1",
                "agent_hash": "ab" * 32,
                "score_record": record.model_dump(),
                "scores_digest": record.canonical_digest(),
                "execution_proof": {
                    "version": 1,
                    "tier": "phala-tdx",
                    "manifest_sha256": "ab" * 32,
                    "image_digest": f"registry.example.org/guest@sha256:{'ab' * 32}",
                    "provider": None,
                    "worker_signature": {"worker_pubkey": "", "sig": ""},
                    "attestation": {
                        "tdx_quote": "ab" * _QUOTE_BYTES,
                        "event_log": log,
                        "report_data": "ab" * 64,
                        "measurement": {
                            **dict.fromkeys(("mrtd", "rtmr0", "rtmr1", "rtmr2", "rtmr3"), "ab" * 48),
                            **dict.fromkeys(("compose_hash", "os_image_hash"), "ab" * 32),
                        },
                        "vm_config": {"vcpu": 4, "memory_mb": 8192, "os_image_hash": None},
                    },
                },
            }
        )

    each = len(canonical.encode(entry)) + 1
    left = size - len(made(0, 0).canonical())
    entries, rest = divmod(left, each)
    # What the entries leave over goes into the last payload, which grows by whole bytes, two digits each.
    return made(entries, rest // 2)


def _timed(name: str, action: Callable[[], object], size: int, rounds: int, compared_with: str) -> Sequence[Figure]:
    action()
    seconds: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return [
        Figure(f"{name}_ms", "ms", [1000 * each for each in seconds], compared_with),
        Figure(f"{name}_mb_s", "MB/s", [size / each / 1e6 for each in seconds], "10^6 bytes"),
    ]
