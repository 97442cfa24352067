import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from guest.trial.outcome import Ending, Outcome
from guest.trial.record import Wall, write_json, write_log


def test_a_document_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "record.json"
    write_json(path, {"b": 1, "a": [2]})
    write_json(path, Wall(agent_sec=1.0, verifier_sec=None, overhead_sec=0.5))
    assert json.loads(path.read_text()) == {"agent_sec": 1.0, "overhead_sec": 0.5, "verifier_sec": None}
    assert [each.name for each in path.parent.iterdir()] == ["record.json"]


def test_what_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"kept": True})
    with pytest.raises(ValueError, match="Out of range"):
        write_json(path, {"score": float("nan")})
    assert json.loads(path.read_text()) == {"kept": True}
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]


def test_a_full_disk_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"kept": True})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("guest.trial.record.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(path, {"new": True})
    assert json.loads(path.read_text()) == {"kept": True}
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), True, "1"])
def test_figures_are_finite_numbers(value: object) -> None:
    with pytest.raises(ValidationError):
        Wall.model_validate({"agent_sec": value, "verifier_sec": None, "overhead_sec": 0.0})


def test_a_log_entry_tells_what_was_kept(tmp_path: Path) -> None:
    log = write_log(tmp_path, "agent/agent.log", b"abc", size=10, truncated=True)
    # SHA-256 of "abc": FIPS 180-4, appendix B.1.
    assert log.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (log.size, log.truncated, (tmp_path / log.path).read_bytes()) == (10, True, b"abc")


@pytest.mark.parametrize(
    ("outcome", "reward"), [(Outcome.INFRA_ERROR, 0.0), (Outcome.PASSED, None), (Outcome.AGENT_TIMEOUT, None)]
)
def test_only_infrastructure_has_no_reward(outcome: Outcome, reward: float | None) -> None:
    with pytest.raises(ValueError, match="cannot have the reward"):
        Ending(outcome, reward)
