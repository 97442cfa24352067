"""Reads and writes the small JSON files that stand beside a task cache."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from guest.errors import Refused, UsageFault
from guest.reason import Reason

MAX_BYTES = 16 * 1024 * 1024

Model = TypeVar("Model", bound=BaseModel)


def read_json_object(path: Path, reason: Reason) -> dict[str, Any]:
    """Give the one JSON object that a file holds.

    Raises UsageFault when there is no such file, and Refused(reason) when it is too large, not UTF-8, not one object,
    or holds a duplicate member or a number that is not finite.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageFault(Reason.USAGE, f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise Refused(reason, f"{path} has more than {MAX_BYTES} bytes")
    try:
        value = json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(reason, f"{path} is not JSON: {str(error)[:200] or 'nested too deeply'}") from error
    if not isinstance(value, dict):
        raise Refused(reason, f"{path} holds a {type(value).__name__}; expected one object")
    return value


def read_model(path: Path, model: type[Model], reason: Reason) -> Model:
    """Read a file as `model`. Raises UsageFault when there is none, Refused(reason) naming the member that is wrong."""
    document = read_json_object(path, reason)
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:200]
        raise Refused(
            reason, f"{path}: {where or 'the object'}: {first['msg'].removeprefix('Value error, ')}"
        ) from error


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document in the one spelling these files have (sorted members, two spaces), whole or not at all."""
    data = (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"member {next(n for n in names if names.count(n) > 1)[:80]!r} occurs twice")
    return members


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")
