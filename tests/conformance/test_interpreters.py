"""Every supported Python gives the peer's bits: the published vectors pass on each that this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cache_dir import cache_dir

CHECKOUT = Path(__file__).resolve().parents[2]

# Sums of thirds and tenths whose last bit plain addition gets wrong; the bits were taken from CPython 3.12's own sum.
SUMS = """
from guest.wire.f64 import compensated_sum, encode_f64, mean
assert compensated_sum([0.1] * 10) == 1.0
assert encode_f64(mean([1 / 3, 1.0, 1.0])) == "3fe8e38e38e38e39"
import random, sys
draw = random.Random(7)
values = (*(draw.random() for _ in range(50)), 0.1, 1 / 3, 2 / 3, 1.0, 0.0, 5e-324)
lists = [draw.choices(values, k=draw.randint(1, 9)) for _ in range(20_000)]
compensated = [compensated_sum(values) for values in lists]
plain = sum(total != sum(values) for total, values in zip(compensated, lists, strict=True))
assert plain == 0 if sys.version_info >= (3, 12) else plain > 100, plain
"""


def interpreter(version: str) -> str | None:
    """Find a working Python of a version: in PATH, or where pyenv keeps its own."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}")))]
    for candidate in filter(None, found):
        told = subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False)
        if told.returncode == 0:
            return candidate
    return None


def venv_of(version: str, place: Path) -> Path:
    """Make an environment of the lock for another Python; its own pip is not needed."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"this machine has no Python {version}")
    subprocess.run([python, "-m", "venv", "--without-pip", place], check=True)
    made = place / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(made), "--disable-pip-version-check", "install", "--quiet"]
    install += ["--no-compile", "--cache-dir", str(cache_dir() / "pip"), "--require-hashes", "--only-binary", ":all:"]
    subprocess.run([*install, "-r", str(CHECKOUT / "requirements.lock")], check=True)
    return made


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_vectors_pass(version: str, tmp_path: Path) -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = Path(sys.executable) if version == own else venv_of(version, tmp_path / "venv")
    run = [str(python), "-P", "-m", "scripts", "conformance", "tests/conformance/wire.json"]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(run, cwd=CHECKOUT, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1] == "335 passed, 0 failed"
    told = subprocess.run([python, "-P", "-c", SUMS], capture_output=True, text=True, env=environment, check=False)
    assert told.returncode == 0, told.stderr
