from __future__ import annotations

from pathlib import Path

import pytest

from guest.errors import EnvironmentFault
from guest.reason import Reason
from scripts import apt
from scripts.setup_tests import PROGRAMS, ensure_programs


def test_what_is_there_is_not_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for program in PROGRAMS:
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    ensure_programs()
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # neither the programs nor apt-get
    assert not apt.can_install()
    ensure_programs()
    said, told = capfd.readouterr()
    assert said == ""
    assert [line.split()[1] for line in told.splitlines()] == ["git", "mmdebstrap", "skopeo", "docker-registry"]


def test_missing_ones_are_installed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With an apt-get of ours that writes down what it is asked for."""
    asked = tmp_path / "asked"
    (tmp_path / "apt-get").write_text(
        f'#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >>{asked}\necho chatter; echo chatter >&2\n'
    )
    (tmp_path / "git").write_text("#!/bin/sh\n")
    (tmp_path / "systemctl").write_text("#!/bin/sh\n")
    for each in ("apt-get", "git", "systemctl"):
        (tmp_path / each).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    ensure_programs()
    update, install = asked.read_text().splitlines()
    assert update == "noninteractive -qq update"
    assert install.endswith(" mmdebstrap skopeo docker-registry")
    said, told = capfd.readouterr()
    assert said == ""
    assert told.splitlines() == ["set-up: installing mmdebstrap, skopeo, docker-registry with apt-get, for the tests"]


def test_a_failing_installation_shows_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "apt-get"
    program.write_text('#!/bin/sh\n[ "$2" = update ] && exit 1\necho "Unable to locate package $7"\nexit 100\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="Unable to locate package nothing-such") as caught:
        apt.install("nothing-such")
    assert caught.value.reason is Reason.TOOL_FAILED
    assert "status 100" in caught.value.message
