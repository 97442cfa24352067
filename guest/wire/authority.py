"""Where a plan says the key server listens: a raw TLS endpoint, never a URL of the web."""

from __future__ import annotations

import re
from dataclasses import dataclass

from guest.reason import Reason
from guest.wire.refusal import WireRefused, shown

_AUTHORITY = re.compile(
    r"(?:(?:ratls|tls|tcp)://)?(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s\[\]/?#@:\\%]+)):(?P<port>[0-9]{1,5})",
    re.IGNORECASE | re.ASCII,
)
_MAX_PORT = 65_535


@dataclass(frozen=True)
class Authority:
    """Host name or address (without brackets) and TCP port."""

    host: str
    port: int


def parse_authority(text: str) -> Authority:
    """Read `host:port`, also after `ratls://`, `tls://` or `tcp://`; an IPv6 address stands in brackets.

    Outer blanks are dropped. Raises WireRefused for anything else: another scheme, a path, a query, a user, no port.
    """
    found = _AUTHORITY.fullmatch(text.strip())
    port = int(found["port"]) if found else 0
    if not found or not 1 <= port <= _MAX_PORT:
        raise WireRefused(
            Reason.PLAN_MALFORMED,
            "/key_release_endpoint",
            "must be host:port, alone or after ratls://, tls:// or tcp://, with a port from 1 to 65535",
            shown(text),
        )
    return Authority(found["v6"] or found["host"], port)
