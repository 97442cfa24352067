"""Hypothesis strategies for JSON values, and what they are refused with."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from guest.wire.refusal import WireRefused

INTEGERS = st.integers(-(2**70), 2**70)
# Assigned in every Unicode version this project meets: the writer refuses what later ones added.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cn"], max_codepoint=0x2FFF), max_size=12)


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


CANONICAL_VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXT.map(nfc),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT.map(nfc), inner, max_size=4),
    max_leaves=20,
)
"""Values that canonical JSON can carry."""

ANY_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats() | st.text(max_size=12) | st.just("0" * 64),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
"""Whatever a JSON parser can give, floats and lone surrogates included."""


def refusal_of(action: Callable[[], object]) -> WireRefused | None:
    """Give the orderly refusal that an action ends with, None when it succeeds; anything else goes through."""
    try:
        action()
    except WireRefused as refusal:
        return refusal
    return None
