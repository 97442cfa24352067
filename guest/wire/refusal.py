"""The one error of the wire: which member, by JSON pointer, breaks which rule."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from guest.errors import Refused
from guest.reason import Reason

_SHOWN = 80
_RULES = {
    "missing": "is missing",
    "extra_forbidden": "is not a member of this record",
    "model_type": "must be an object",
    "tuple_type": "must be an array",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "none_required": "must be null",
    "string_unicode": "must be Unicode text without lone surrogates",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
}

PATTERNS: dict[str, str] = {}
"""What each pattern of `guest.wire.scalars` demands, in words."""


class WireRefused(Refused):
    """A record or text that breaks the wire's rules.

    `pointer` leads to the offending member (RFC 6901; empty for the whole document), `rule` says what it must be, `got`
    shows in a few characters what it is.
    """

    def __init__(self, reason: Reason, pointer: str, rule: str, got: str = "", hint: str = "") -> None:
        super().__init__(reason, f"{pointer or 'the document'} {rule}{f'; got {got}' if got else ''}", hint)
        self.pointer = pointer
        self.rule = rule
        self.got = got

    def under(self, pointer: str, reason: Reason) -> WireRefused:
        """Give the same refusal of a member as one of the record that holds it at `pointer`."""
        return WireRefused(reason, pointer + self.pointer, self.rule, self.got, self.hint)


def json_pointer(path: Sequence[str | int]) -> str:
    """Spell a path as a JSON pointer that is safe to print (RFC 6901 section 3; each part cut to 80 characters)."""
    parts = (str(part)[:_SHOWN].replace("~", "~0").replace("/", "~1") for part in path)
    return "".join(f"/{shown(part)[1:-1]}" for part in parts)


def shown(value: object) -> str:
    """Describe an offending value in a few printable ASCII characters."""
    if isinstance(value, str):
        return ascii(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!a}... ({len(value)} characters)"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"  # noqa: PLR2004
    if value is None or isinstance(value, bool | float):
        return {"None": "null", "True": "true", "False": "false"}.get(repr(value), repr(value))
    if isinstance(value, dict):
        return f"an object of {len(value)} members"
    return f"an array of {len(value)} items" if isinstance(value, list | tuple) else type(value).__name__


def broken(member: str, rule: str, got: object) -> PydanticCustomError:
    """Give what a record's validator raises when a member breaks a rule about others; `member` may be a path."""
    return PydanticCustomError("broken", "{rule}", {"member": member, "rule": rule, "got": shown(got)})


def from_validation(error: ValidationError, reason: Reason) -> WireRefused:
    """Give the refusal that tells the first of a validation's errors."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    path: tuple[str | int, ...] = first["loc"]
    got = "" if first["type"] == "missing" else shown(first["input"])
    if first["type"] == "string_pattern_mismatch":
        rule = PATTERNS[context["pattern"]]
    elif first["type"] == "broken":
        rule, got, path = context["rule"], context["got"], (*path, *context["member"].split("/"))
    else:
        words = _RULES.get(first["type"])
        rule = words.format_map(context) if words else first["msg"].removeprefix("Value error, ")
    return WireRefused(reason, json_pointer(path), rule, got)
