from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from guest.trial.reward import Reward, read_reward
from guest.trial.tarstream import Entry, TarFile, TarLimits, pack, unpack

KEEP = 1 << 20


def entries(**files: bytes) -> dict[str, Entry]:
    """The verifier's directory as it comes out of a container; `reward_txt=` stands for reward.txt."""
    packed = pack({f"v/{name.replace('_', '.')}": TarFile(data) for name, data in files.items()}, {"v": 0o755})
    return unpack([packed], TarLimits(64 << 20, 100, KEEP))


def refusal(found: dict[str, Entry]) -> Refused:
    with pytest.raises(Refused) as caught:
        read_reward(found)
    assert len(caught.value.message) < 400
    return caught.value


def report(*statuses: str, failed: Any = 0, **summary: Any) -> bytes:
    tests = [{"name": f"t{at}", "status": status, "duration": 1} for at, status in enumerate(statuses)]
    return json.dumps(
        {"results": {"tool": {"name": "t"}, "summary": {"failed": failed, **summary}, "tests": tests}}
    ).encode()


# --- reward.txt


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0.0),
        (b"1", 1.0),
        (b"0\n", 0.0),
        (b"1\n", 1.0),
        (b"1.0\n", 1.0),
        (b"0.0", 0.0),
        (b"1.00000000000000000", 1.0),
        (b"0.5\n", 0.5),
        (b" 1\n", 1.0),
        (b"\t \t0.25", 0.25),
        (b"0.12345678901234567\n", 0.12345678901234567),
        (b" " * 61 + b"1.0", 1.0),
    ],
)
def test_texts_that_are_rewards(text: bytes, value: float) -> None:
    assert read_reward(entries(reward_txt=text)) == Reward(value, "txt", text.decode(), 1_577_836_800, {}, None)


@pytest.mark.parametrize(
    "text",
    [
        b"\n",
        b" ",
        b"NaN",
        b"nan\n",
        b"inf",
        b"-inf",
        b"Infinity",
        b"1e999",
        b"1e0",
        b"0e0",
        b"true",
        b'"1"',
        b"1 ",
        b"1 \n",
        b"1\n\n",
        b"1\r\n",
        b"\n1",
        b"\xef\xbb\xbf1",
        b"\xff\xfe1\x00",
        b"1\x00",
        b"\x001",
        b"1,0",
        b"1.",
        b".5",
        b"+1",
        b"-0",
        b"-1",
        b"01",
        b"00",
        b"0_1",
        b"1_0",
        b"0x1",
        b"2",
        b"1.5",
        b"1.00000000000000001",
        b"1.0000000000000000000",
        b"0.123456789012345678",
        b"10",
        b"100%",
        b"1/1",
        b"1 0",
        b"1\n0\n",
        b"\x0b1",
        b"\x0c1",
        "\uff11".encode(),
        "\u0661".encode(),
        b" " * 62 + b"1.0",
        b"0." + b"0" * 62,
        b"1" * (10 << 20),
        b"[1]",
        b'{"reward": 1}',
    ],
)
def test_texts_that_are_not_rewards(text: bytes) -> None:
    error = refusal(entries(reward_txt=text))
    assert error.reason is Reason.REWARD_MALFORMED
    assert "reward.txt" in error.message


# --- reward.json


@pytest.mark.parametrize(
    ("text", "value", "others"),
    [
        (b'{"reward": 1}', 1.0, {}),
        (b'{"reward": 0}\n', 0.0, {}),
        (b'{"reward": 1.0}', 1.0, {}),
        (b'{"reward": -0.0}', 0.0, {}),
        (b'{"reward": 5e-1}', 0.5, {}),
        (
            b'{"reward": 0.30000000000000004, "seconds": 12.5, "n": -3}',
            0.30000000000000004,
            {"seconds": 12.5, "n": -3.0},
        ),
        (b'{"a": 1, "b": 0}', 0.5, {"a": 1.0, "b": 0.0}),
        (b'{"a": 0.25, "b": 0.5, "c": 0.75}', 0.5, {"a": 0.25, "b": 0.5, "c": 0.75}),
        (b'{"Reward": 0.25}', 0.25, {"Reward": 0.25}),
        ('{"größe": 1}'.encode(), 1.0, {"größe": 1.0}),
        (b' \t\r\n{"reward":1}\n ', 1.0, {}),
        (b'{"reward": 1, "x": 1e308}', 1.0, {"x": 1e308}),
        (b'{"reward": 1e-999}', 0.0, {}),
    ],
)
def test_documents_that_are_rewards(text: bytes, value: float, others: dict[str, float]) -> None:
    found = read_reward(entries(reward_json=text))
    assert found == Reward(value, "json", text.decode(), 1_577_836_800, others, None)
    assert math.copysign(1, found.value) == 1


@pytest.mark.parametrize(
    "text",
    [
        b" ",
        b"1",
        b"0.5",
        b"true",
        b"null",
        b'"1"',
        b"[1]",
        b"[]",
        b"{}",
        b"nonsense",
        b'{"reward": NaN}',
        b'{"reward": Infinity}',
        b'{"reward": -Infinity}',
        b'{"reward": 1e999}',
        b'{"reward": -1e999}',
        b'{"reward": 1, "x": 1e999}',
        b'{"reward": 1, "x": NaN}',
        b'{"reward": true}',
        b'{"reward": false}',
        b'{"reward": "1"}',
        b'{"reward": null}',
        b'{"reward": [1]}',
        b'{"reward": {"reward": 1}}',
        b'{"reward": 1, "passed": true}',
        b'{"reward": 1, "note": "well done"}',
        b'{"reward": 1, "parts": {"a": 1}}',
        b'{"reward": 1.0000000001}',
        b'{"reward": 2}',
        b'{"reward": -0.1}',
        b'{"reward": 0, "reward": 1}',
        b'{"reward": 1, "x": 1, "x": 1}',
        b'{"reward": 1, "x": {"a": 1, "a": 2}}',
        b'{"reward": 1, "\\u0072eward": 0}',
        b'{"a": 2, "b": 0}',
        b'{"a": -1, "b": 1}',
        b'{"a": 1, "b": true}',
        b'\xef\xbb\xbf{"reward": 1}',
        '{"reward": 1}'.encode("utf-16"),
        b'{"reward": 1, "\xff": 1}',
        b'{"reward": 1, "\\ud800": 1}',
        b'{"reward": 1, "\\u0000": 1}',
        b'{"reward": 1, "a\nb": 1}',
        b'{"reward": 1}{"reward": 1}',
        b'{"reward": 1} x',
        b'{"reward": 1}\0',
        b'{"reward": 1,}',
        b"{'reward': 1}",
        b'{"reward": 01}',
        b'{"reward": +1}',
        b'{"reward": .5}',
        b'{"reward": 1.}',
        b'{"reward": 0x1}',
        b'{"reward": 1_0}',
        b'{"reward": 1 // yes\n}',
        b'{"reward": 0.' + b"0" * 40 + b"}",
        b'{"reward": 1, "x": ' + b"9" * 4000 + b"}",
        b'{"reward": ' + b"[" * 4000,
        b'{"a":' * 800 + b"1" + b"}" * 800,
        b'{"reward": 1' + b" " * 4096 + b"}",
        b'{"reward": ' + b"1" * (10 << 20) + b"}",
    ],
)
def test_documents_that_are_not_rewards(text: bytes) -> None:
    error = refusal(entries(reward_json=text))
    assert error.reason is Reason.REWARD_MALFORMED
    assert "reward.json" in error.message


def test_a_document_of_exactly_4_kib_is_read() -> None:
    text = b'{"reward": 1'
    assert read_reward(entries(reward_json=text + b" " * (4095 - len(text)) + b"}")).value == 1
    assert refusal(entries(reward_json=text + b" " * (4096 - len(text)) + b"}")).reason is Reason.REWARD_MALFORMED


# --- which file


@pytest.mark.parametrize("given", [{"reward_txt": b""}, {"reward_json": b""}])
def test_a_file_without_bytes_has_a_reason_of_its_own(given: dict[str, bytes]) -> None:
    assert refusal(entries(**given)).reason is Reason.REWARD_EMPTY


def test_neither_file() -> None:
    assert refusal(entries()).reason is Reason.REWARD_MISSING
    assert refusal({}).reason is Reason.REWARD_MISSING
    for name in ("reward", "reward.txt.bak", "Reward.txt", "sub/reward.txt", "reward.TXT"):
        assert refusal({name: entries(reward_txt=b"1")["reward.txt"]}).reason is Reason.REWARD_MISSING


@pytest.mark.parametrize(
    ("text", "document"), [(b"1", b'{"reward": 1}'), (b"0", b'{"reward": 1}'), (b"1", b""), (b"", b"{}")]
)
def test_both_files(text: bytes, document: bytes) -> None:
    assert refusal(entries(reward_txt=text, reward_json=document)).reason is Reason.REWARD_AMBIGUOUS


@pytest.mark.parametrize("name", ["reward.txt", "reward.json", "ctrf.json"])
@pytest.mark.parametrize("kind", ["dir", "symlink", "hardlink", "fifo", "char_device", "block_device"])
def test_other_kinds_of_entry(name: str, kind: Any) -> None:
    found = {**entries(reward_txt=b"1"), name: Entry(kind, 0o644, 0, 0, link_target="/proc/sys/kernel/one")}
    error = refusal(found)
    assert error.reason is Reason.REWARD_NOT_REGULAR
    assert error.message == f"{name} is a {kind}, expected a regular file"


def test_a_reward_of_which_only_the_head_was_kept_is_none() -> None:
    for name in ("reward.txt", "reward.json"):
        head = {name: Entry("file", 0o644, 3, 0, b"1", "", truncated=True)}
        assert refusal(head).reason is Reason.REWARD_MALFORMED


# --- the test report

# Written by pytest-json-ctrf 0.3.5 under pytest 9.2, the traces shortened.
REAL_PASSED = b"""{
    "results": {
        "tool": {"name": "pytest", "version": "9.2.0"},
        "summary": {
            "tests": 2, "passed": 1, "failed": 0, "skipped": 1, "pending": 0, "other": 0,
            "start": 1796099624.9198687, "stop": 1796099624.9360423
        },
        "tests": [
            {
                "name": "t_sample.py::test_ok", "status": "passed", "duration": 0.00031713199996374897,
                "start": 1796099624.9349256, "stop": 1796099624.9354465, "retries": 0, "file_path": "t_sample.py"
            },
            {
                "name": "t_sample.py::test_skipped", "status": "skipped", "duration": 0.00010916299970631371,
                "start": 1796099624.935579, "stop": 1796099624.9359016, "retries": 0, "file_path": "t_sample.py",
                "trace": "('/tests/t_sample.py', 5, 'Skipped: later')"
            }
        ]
    }
}"""
REAL_FAILED = rb"""{
    "results": {
        "tool": {"name": "pytest", "version": "9.2.0"},
        "summary": {
            "tests": 3, "passed": 1, "failed": 1, "skipped": 1, "pending": 0, "other": 0,
            "start": 1796099623.863796, "stop": 1796099623.8959885
        },
        "tests": [
            {
                "name": "t_sample.py::test_ok", "status": "passed", "duration": 0.00035848399966198485,
                "start": 1796099623.877093, "stop": 1796099623.87772, "retries": 0, "file_path": "t_sample.py"
            },
            {
                "name": "t_sample.py::test_par", "status": "failed", "duration": 0.00028627699975913856,
                "start": 1796099623.87787, "stop": 1796099623.8782778, "retries": 2, "file_path": "t_sample.py",
                "tags": ["parametrize::a::[1, 2, 3]"],
                "trace": "E   AssertionError: NaN \ud800 \u00e9\nE   assert 2 != 2\n\nt_sample.py:4: AssertionError",
                "message": "The test failed in the call phase due to an assertion error"
            },
            {
                "name": "t_sample.py::test_xf", "status": "skipped", "duration": 0.00029276599980221363,
                "start": 1796099623.8945475, "stop": 1796099623.8958175, "retries": 0, "file_path": "t_sample.py",
                "tags": ["xfail"], "trace": "t_sample.py:11: AssertionError"
            }
        ]
    }
}"""
NONE_OF_ANY = {"passed": 0, "failed": 0, "skipped": 0, "pending": 0, "other": 0}


def test_a_real_report_is_counted() -> None:
    assert read_reward(entries(reward_txt=b"1\n", ctrf_json=REAL_PASSED)).tests == {
        **NONE_OF_ANY,
        "passed": 1,
        "skipped": 1,
    }
    found = read_reward(entries(reward_txt=b"0\n", ctrf_json=REAL_FAILED))
    assert (found.value, found.tests) == (0.0, {**NONE_OF_ANY, "passed": 1, "failed": 1, "skipped": 1})


@pytest.mark.parametrize(
    "reward", [{"reward_txt": b"1"}, {"reward_txt": b"1.0\n"}, {"reward_json": b'{"a": 1, "b": 1}'}]
)
def test_a_full_reward_beside_a_failed_test_is_a_conflict(reward: dict[str, bytes]) -> None:
    assert refusal(entries(ctrf_json=REAL_FAILED, **reward)).reason is Reason.REWARD_CONFLICT


def test_a_failure_that_only_the_summary_admits_is_a_conflict_too() -> None:
    assert refusal(entries(reward_txt=b"1", ctrf_json=report("passed", failed=1))).reason is Reason.REWARD_CONFLICT
    assert refusal(entries(reward_txt=b"1", ctrf_json=report("failed", failed=0))).reason is Reason.REWARD_CONFLICT


@pytest.mark.parametrize("value", [b"0", b"0.9", b'{"reward": 0.5}'])
def test_a_partial_reward_beside_a_failed_test_stands(value: bytes) -> None:
    name = "reward_json" if value.startswith(b"{") else "reward_txt"
    found = read_reward(entries(**{name: value, "ctrf_json": report("passed", "failed", failed=1)}))
    assert found.tests is not None
    assert found.tests["failed"] == 1


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"1",
        b'{"results": []}',
        b'{"results": {}}',
        b'{"results": {"tests": []}}',
        b'{"results": {"summary": {"failed": 0}}}',
        b'{"results": {"summary": {"failed": 0}, "tests": {}}}',
        b'{"results": {"summary": [], "tests": []}}',
        b'{"results": {"summary": {}, "tests": []}}',
        report(failed=-1),
        report(failed=0.5),
        report(failed=True),
        report(failed="0"),
        report(failed=None),
        report("Passed"),
        report("error"),
        report(""),
        b'{"results": {"summary": {"failed": 0}, "tests": [{"name": "t"}]}}',
        b'{"results": {"summary": {"failed": 0}, "tests": ["passed"]}}',
        b'{"results": {"summary": {"failed": 0}, "tests": [{"status": true}]}}',
        b'{"results": {"summary": {"failed": 0}, "tests": [{"status": ["passed"]}]}}',
        b'{"results": {"summary": {"failed": 0}, "tests": [{"status": "failed", "status": "passed"}]}}',
        b'{"results": {"summary": {"failed": 1, "failed": 0}, "tests": []}}',
        report("passed", start=float("nan")),
        report("passed", start=float("inf")),
        report("passed").replace(b"}", b"", 1),
        report("passed") + b"x",
        b"\xef\xbb\xbf" + report("passed"),
        report("passed").replace(b"t0", b"\xff"),
        report("passed").replace(b'"duration": 1', b'"duration": 1e400'),
        report("passed").replace(b'"duration": 1', b'"duration": ' + b"1" * 5000),
        b"[" * KEEP,
        b'{"a":' * 100_000,
        report("passed", note="x" * KEEP),
    ],
)
@pytest.mark.parametrize("reward", [b"0", b"1"])
def test_reports_that_are_none(text: bytes, reward: bytes) -> None:
    error = refusal(entries(reward_txt=reward, ctrf_json=text))
    assert error.reason is Reason.REPORT_MALFORMED
    assert "ctrf.json" in error.message


# --- any input

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("reward"), inner, max_size=3)
    ),
    max_leaves=6,
)
likely = st.sampled_from(
    [b"0", b"1", b".", b"e", b"-", b" ", b"\n", b"\t", b"9", b'"', b"{", b"}", b":", b"reward", b"NaN"]
)
texts = (
    st.binary(max_size=80)
    | st.lists(likely, max_size=12).map(b"".join)
    | json_values.map(lambda v: json.dumps(v).encode())
)
REASONS = {
    *(Reason.REWARD_MALFORMED, Reason.REWARD_AMBIGUOUS, Reason.REWARD_MISSING, Reason.REWARD_EMPTY),
    Reason.REPORT_MALFORMED,
}


@given(found=st.dictionaries(st.sampled_from(["reward_txt", "reward_json", "ctrf_json"]), texts))
@example(found={"reward_json": b'{"reward": 1e309}'})
def test_any_files_give_a_reward_in_bounds_or_an_orderly_refusal(found: dict[str, bytes]) -> None:
    try:
        reward = read_reward(entries(**found))
    except Refused as error:
        assert error.reason in {*REASONS, Reason.REWARD_CONFLICT}  # noqa: PT017 - a reward is as good
        return
    assert 0 <= reward.value <= 1
    assert all(math.isfinite(value) for value in reward.others.values())
    json.dumps([reward.raw, dict(reward.others)], allow_nan=False, ensure_ascii=False).encode()
    if reward.source == "txt":
        assert reward.value == float(found["reward_txt"])
    else:
        plain = json.loads(found["reward_json"])
        assert reward.value == (
            plain["reward"] if "reward" in plain else pytest.approx(sum(plain.values()) / len(plain))
        )


@given(st.decimals(0, 1, places=17) | st.decimals(0, 1, places=2))
def test_every_decimal_in_bounds_is_read_as_python_reads_it(number: Any) -> None:
    text = f"{number:f}\n"
    assert read_reward(entries(reward_txt=text.encode())).value == float(number)
