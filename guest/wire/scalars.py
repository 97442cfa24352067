"""The scalar types of the wire and the base of its closed records.

Every pattern matches the whole string, a trailing newline included in what is refused.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from guest.reason import Reason
from guest.wire import canonical
from guest.wire.refusal import PATTERNS, from_validation

INT_MAX = 2**63 - 1
STRING_MAX = 16_384
"""The most UTF-8 bytes of any string but the quote and the payloads that have bounds of their own."""


def pattern(expression: str, rule: str) -> str:
    """Give a field's pattern that matches the whole string, and keep in words what it demands."""
    whole = rf"^(?:{expression})\z"
    PATTERNS[whole] = rule
    return whole


def _must_be(version: int) -> AfterValidator:
    def check(value: int) -> int:
        if value != version:
            raise ValueError(f"must be {version}")
        return value

    return AfterValidator(check)


# Not Literal, which takes true and 1.0 for 1.
Version1 = Annotated[int, _must_be(1)]
Version2 = Annotated[int, _must_be(2)]

Int = Annotated[int, Field(ge=0, le=INT_MAX)]
PositiveInt = Annotated[int, Field(ge=1, le=INT_MAX)]

Id = Annotated[
    str, Field(pattern=pattern(r"[!-~]{1,128}", "must be 1 to 128 printable ASCII characters without a space"))
]
Sha256 = Annotated[str, Field(pattern=pattern(r"[0-9a-f]{64}", "must be 64 lowercase hex digits"))]
Register = Annotated[str, Field(pattern=pattern(r"[0-9a-f]{96}", "must be 96 lowercase hex digits"))]
ReportData = Annotated[str, Field(pattern=pattern(r"[0-9a-f]{128}", "must be 128 lowercase hex digits"))]
# Binary64 values of 0..1 order like their bits, so the range is a matter of digits.
F64 = Annotated[
    str,
    Field(
        pattern=pattern(
            r"[0-2][0-9a-f]{15}|3[0-9a-e][0-9a-f]{14}|3f[0-9a-e][0-9a-f]{13}|3ff0{13}",
            "must be 16 lowercase hex digits, the big-endian binary64 of a number from 0 to 1",
        )
    ),
]

_IMAGE = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")


def _check_image(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise ValueError('must be a name without blanks, then "@sha256:" and 64 lowercase hex digits')
    return text


ImageRef = Annotated[str, Field(max_length=STRING_MAX), AfterValidator(_check_image)]


class Closed(BaseModel):
    """A record whose members are exactly those listed, each of exactly its type; `reason` names a breach."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    reason: ClassVar[Reason]

    @classmethod
    def parse(cls, value: object) -> Self:
        """Give the record that a decoded JSON value holds. Raises WireRefused naming the member that is wrong."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise from_validation(error, cls.reason) from error

    def canonical(self) -> bytes:
        """Give the record's canonical JSON."""
        return canonical.encode(self.model_dump())

    def canonical_digest(self) -> str:
        """Give the SHA-256 of the canonical JSON, as lowercase hex."""
        return canonical.digest(self.model_dump())
