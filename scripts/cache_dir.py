"""The one directory outside the checkout and the engine that is written to."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Give the cache directory, which may not exist yet: $XDG_CACHE_HOME/evalguest, else ~/.cache/evalguest.

    A relative XDG_CACHE_HOME is passed over, as the XDG base directory specification asks.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "evalguest"
