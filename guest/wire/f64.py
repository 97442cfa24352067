"""Scores as bits, and the one summation that scores are added with.

Two parties must get the same bits, so the sum is specified here step by step. It is the compensated summation of
Neumaier (1974) which CPython's `sum` does from version 3.12 on and does not do before; no library's sum is used.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NoReturn

from guest.reason import Reason
from guest.wire.refusal import WireRefused, shown

_ONE = "3ff0000000000000"


def encode_f64(value: float) -> str:
    """Give the big-endian IEEE 754 binary64 of a score, as 16 lowercase hex digits; 0 and 1 may be integers.

    Raises WireRefused for anything that is not a finite number from 0 to 1, for negative zero, and for a boolean.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(value)
    # The comparison is false for NaN, and done before an integer too large for a float is made one.
    if not 0 <= value <= 1 or math.copysign(1, value) < 0:
        _refuse(value)
    return struct.pack(">d", value).hex()


def decode_f64(text: str) -> float:
    """Give the score that 16 lowercase hex digits spell. Raises WireRefused for what `encode_f64` cannot have given."""
    if not isinstance(text, str) or len(text) != len(_ONE) or text.strip("0123456789abcdef") or text > _ONE:
        raise WireRefused(
            Reason.SCORE_MALFORMED,
            "",
            "must be 16 lowercase hex digits, the big-endian binary64 of a number from 0 to 1",
            shown(text),
        )
    value: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return value


def compensated_sum(values: Sequence[float]) -> float:
    """Add up one or more binary64 numbers in the order given, carrying what each addition rounds away.

    >>> compensated_sum([0.1] * 10)
    1.0
    """
    total, carried = values[0], 0.0
    for value in values[1:]:
        moved = total + value
        if abs(total) >= abs(value):
            carried += (total - moved) + value
        else:
            carried += (value - moved) + total
        total = moved
    return total + carried if carried and math.isfinite(carried) else total


def mean(values: Sequence[float]) -> float:
    """Give the compensated sum of one or more numbers, divided by how many there are.

    >>> encode_f64(mean([1 / 3, 1.0, 1.0]))
    '3fe8e38e38e38e39'
    """
    return compensated_sum(values) / len(values)


def _refuse(value: object) -> NoReturn:
    raise WireRefused(Reason.SCORE_MALFORMED, "", "must be a finite number from 0 to 1", shown(value))
