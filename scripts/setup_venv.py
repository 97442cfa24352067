"""Makes .venv in the checkout: the packages of requirements.lock, each by hash, and the `evalguest` program.

Runs under any CPython from 3.11 on, before anything is installed, so it needs the standard library alone.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

from guest.errors import EnvironmentFault, EvalguestError
from guest.reason import Reason
from scripts.cache_dir import cache_dir

CHECKOUT = Path(__file__).resolve().parent.parent

_LAUNCHER = """\
#!/bin/sh
# Written by scripts/setup_venv.py: the checkout's command line, from any directory.
exec "{bin}/python" -P -m scripts "$@"
"""


def stamp(checkout: Path) -> bytes:
    """Give what a finished .venv's stamp holds: where it is, what is in it and how it was made."""
    sources = (checkout / "requirements.lock", checkout / "scripts" / "setup_venv.py")
    return f"{checkout}\n".encode() + b"".join(source.read_bytes() for source in sources)


def is_current(checkout: Path) -> bool:
    """Say whether the checkout's .venv is finished, of today's lock, and not moved here from elsewhere."""
    try:
        return (checkout / ".venv" / "set-up").read_bytes() == stamp(checkout)
    except FileNotFoundError:
        return False


def ensure_venv(checkout: Path, pip_cache: Path, say: Callable[[str], None]) -> None:
    """Make the checkout's .venv anew unless it is current; processes that ask at the same time wait for one another.

    Raises EnvironmentFault when it could not be made; what is there then is made anew the next time.
    """
    with (checkout / "requirements.lock").open("r+b") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that makes .venv")
            fcntl.flock(handle, fcntl.LOCK_EX)
        if not is_current(checkout):
            _make(checkout, pip_cache, say)


def _make(checkout: Path, pip_cache: Path, say: Callable[[str], None]) -> None:
    place = checkout / ".venv"
    made = place / "set-up"
    made.unlink(missing_ok=True)
    say(f"making {place} with Python {sys.version.split()[0]}")
    try:
        venv.EnvBuilder(clear=True, symlinks=True, with_pip=True).create(place)
    except (OSError, subprocess.CalledProcessError) as error:
        hint = "make room or mend the rights, and run this again"
        raise EnvironmentFault(Reason.TOOL_FAILED, f"could not make {place}: {error}", hint) from error
    say("installing the locked Python packages")
    _install(place, checkout / "requirements.lock", pip_cache)
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (place / "lib" / library / "site-packages" / "evalguest.pth").write_text(f"{checkout}\n")
    launcher = place / "bin" / "evalguest"
    launcher.write_text(_LAUNCHER.format(bin=place / "bin"))
    launcher.chmod(0o755)
    made.write_bytes(stamp(checkout))


def _install(place: Path, lock: Path, pip_cache: Path) -> None:
    command = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    command += ["--no-input", "--cache-dir", str(pip_cache), "--require-hashes", "--only-binary", ":all:"]
    done = subprocess.run([*command, "--requirement", str(lock)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentFault(
            Reason.TOOL_FAILED,
            f"pip could not install what {lock} names:\n{done.stderr.strip()[-2000:]}",
            "check the network, a proxy and pip's configuration (pip config list), and run this again",
        )


def _say(words: str) -> None:
    sys.stderr.write(f"set-up: {words}\n")


def _main() -> int:
    try:
        ensure_venv(CHECKOUT, cache_dir() / "pip", _say)
    except EvalguestError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\nreason code: {error.reason}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted; .venv is made anew the next time\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
