"""What the base image holds beyond its packages, and what it leaves out."""

from __future__ import annotations

import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from guest.errors import Refused
from guest.reason import Reason
from image.base.fetch import DEFAULT_MIRROR
from image.base.lock import BaseLock

ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
CMD = ("/bin/bash",)

DPKG_OPTIONS = (
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-include=/usr/share/locale/locale.alias",
    "path-exclude=/usr/share/lintian/*",
)
"""For dpkg, in the build and in every image made from ours: no manuals, no translations, no fsync for each file."""

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_DIST_PACKAGES = "usr/lib/python3/dist-packages"

_LEFT_OUT = re.compile(
    # what belongs to the machine or the run
    r"(dev|proc|sys|run|tmp|var/tmp)/.+"
    r"|etc/(machine-id|\.pwd\.lock|passwd-|group-|shadow-|gshadow-|subuid-|subgid-)"
    # what the build put there: its repository, its keys, its settings, lists, logs, caches
    r"|etc/apt/(sources\.list|apt\.conf\.d/99mmdebstrap|trusted\.gpg\.d/.+|sources\.list\.d/.+)"
    r"|etc/dpkg/dpkg\.cfg\.d/99mmdebstrap"
    r"|var/lib/apt/lists/.+|var/lib/dpkg/(.+-old|lock|lock-frontend|triggers/Lock)|var/log/.+"
    r"|var/cache/(apt|ldconfig)/.+|var/cache/debconf/(.+-old|tmp\.ci)"
    # which package was asked for and which came along differs between versions of apt: all count as asked for
    r"|var/lib/apt/extended_states"
    # large and rarely missed: the dump tool of gcc's link-time optimiser, thread and hardware sanitizers, static
    # sanitizers, the collector of gprofng, headers for embedding Perl. `apt-get install --reinstall` brings them back.
    r"|usr/bin/(x86_64-linux-gnu-)?lto-dump-?\d*|usr/lib/x86_64-linux-gnu/(libtsan|libhwasan|libgprofng)\.so\..+"
    r"|usr/lib/gcc/x86_64-linux-gnu/\d+/lib(asan|hwasan|lsan|tsan|ubsan)\.a|usr/lib/x86_64-linux-gnu/gprofng/.+"
    r"|usr/lib/x86_64-linux-gnu/perl/[\d.]+/CORE/.+|usr/share/perl/[\d.]+/unicore/TestNorm\.pl"
)


@dataclass(frozen=True)
class ImageFile:
    """One regular file of the image, owned by root."""

    data: bytes
    mode: int = 0o644


def is_left_out(path: str) -> bool:
    """Say whether the image goes without what the build left at `path` (relative, no leading `./`)."""
    return _LEFT_OUT.fullmatch(path) is not None


def own_files(lock: BaseLock) -> dict[str, ImageFile]:
    """Give the files that no package brings, by path: where apt finds packages, and manners for a container."""
    return {
        "etc/apt/sources.list": ImageFile(f"deb [signed-by={_KEYRING}] {DEFAULT_MIRROR} {lock.suite} main\n".encode()),
        "etc/apt/apt.conf.d/80evalguest": ImageFile(
            b'Acquire::Languages "none";\nAPT::Keep-Downloaded-Packages "false";\n'
            b'Binary::apt::APT::Keep-Downloaded-Packages "false";\n'
            b'Dir::Cache::pkgcache "";\nDir::Cache::srcpkgcache "";\n'
        ),
        "etc/dpkg/dpkg.cfg.d/80evalguest": ImageFile("".join(f"{line}\n" for line in DPKG_OPTIONS).encode()),
        # packages that carry a service must not start it while an image is built
        "usr/sbin/policy-rc.d": ImageFile(b"#!/bin/sh\nexit 101\n", 0o755),
        # the engine lays its own over these three
        "etc/hostname": ImageFile(b"localhost\n"),
        "etc/hosts": ImageFile(b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"),
        "etc/resolv.conf": ImageFile(b""),
    }


def wheel_files(wheel: Path) -> dict[str, ImageFile]:
    """Give the files of a pure wheel where the image's Python looks for them.

    Raises Refused(LOCK_MISMATCH) for a wheel that is malformed or needs an installer (scripts, data directories).
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            unfit = [name for name in names if not _is_plain(name)]
            files = {f"{_DIST_PACKAGES}/{name}": ImageFile(archive.read(name)) for name in names if not unfit}
    except (ValueError, OSError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise Refused(Reason.LOCK_MISMATCH, f"{wheel}: not a wheel: {error}") from error
    if unfit:
        raise Refused(Reason.LOCK_MISMATCH, f"{wheel}: not a pure wheel: entry {unfit[0]!r}")
    return files


def _is_plain(name: str) -> bool:
    parts = name.split("/")
    return not ({"", ".", ".."} & set(parts) or parts[0].endswith(".data"))
