"""The probe: its value, and what counts as having been left."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from guest.errors import Refused
from guest.reason import Reason
from guest.trial.engine import Engine
from guest.trial.probe import PROBE_PATH, observe_probe, probe_value

VALUE = "ab" * 32
HERE = f"mkdir -p {PROBE_PATH.rpartition('/')[0]}; "


@pytest.mark.parametrize(
    ("repetition", "expected"),
    [
        (1, "5cc4a7d8e5f9c0c17f935b303cee3c4cffb4c8db34bbcff32a4ee861719d2f82"),
        (2, "9fe5e9510a6b6cef74a225ee13338632554bee1159ae37fab2f806c0ed4bd5fa"),
    ],
)
def test_published_values(repetition: int, expected: str) -> None:
    key = bytes.fromhex("3e83c830b277edacb87f0fe2e2a58347c27d6bbf33ff8d06ddfa70189e32d25b")
    agent = "ea7aef8b1196b58555cd54cef2e4b3a46c05a6152bd4a96852b9ceeb1d9c39f8"
    task = "61096c93bb6ae11cc3219e2339b347e8a9a18ac6bdb6c6848c1251fcc783ed65"
    assert probe_value(key, agent_hash=agent, task_digest=task, repetition=repetition) == expected
    text = f"evalguest-probe-v1\0{agent}\0{task}\0{repetition}"
    assert hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == expected


@pytest.mark.engine
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (HERE + f"printf {VALUE} > {PROBE_PATH}", None),
        (HERE + f"echo {VALUE} > {PROBE_PATH}", None),
        ("true", Reason.PROBE_NOT_OBSERVED),
        (HERE + f"mkdir {PROBE_PATH}", Reason.PROBE_NOT_OBSERVED),
        (HERE + f"echo {VALUE} > /tmp/x; ln -s /tmp/x {PROBE_PATH}", Reason.PROBE_NOT_OBSERVED),
        (HERE + f"mkfifo {PROBE_PATH}", Reason.PROBE_NOT_OBSERVED),
        (HERE + f"truncate -s 1T {PROBE_PATH}", Reason.PROBE_NOT_OBSERVED),
        (HERE + f"ln -s / {PROBE_PATH}", Reason.PROBE_NOT_OBSERVED),
        (f"mkdir -p /var/lib; ln -s /proc /var/lib/evalguest; echo {VALUE} > /proc/probe", Reason.PROBE_NOT_OBSERVED),
        (HERE + f"printf '' > {PROBE_PATH}", Reason.PROBE_MISMATCH),
        (HERE + f"printf '%s\\n\\n' {VALUE} > {PROBE_PATH}", Reason.PROBE_MISMATCH),
        (HERE + f"printf ' {VALUE}' > {PROBE_PATH}", Reason.PROBE_MISMATCH),
        (HERE + f"printf {VALUE.upper()} > {PROBE_PATH}", Reason.PROBE_MISMATCH),
    ],
)
def test_what_counts_as_left(engine: Engine, task_container: str, command: str, reason: Reason | None) -> None:
    made = engine.api.exec_create(task_container, ["bash", "-c", command])["Id"]
    engine.api.exec_start(made)
    if reason is None:
        observe_probe(engine, task_container, VALUE)
        return
    with pytest.raises(Refused) as caught:
        observe_probe(engine, task_container, VALUE)
    assert caught.value.reason is reason
