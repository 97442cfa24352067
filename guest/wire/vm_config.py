"""The shape of the machine: what a result says of it, taken from what a quote request answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NoReturn

from guest.reason import Reason
from guest.wire.refusal import WireRefused, shown
from guest.wire.scalars import Closed, PositiveInt, Sha256

_MIB = 1024 * 1024
_SIZES = ("vcpu", "cpu_count", "memory_mb", "memory_size")


class VmConfig(Closed):
    """Virtual CPUs, memory in MiB, and the product hash of the OS image where it is known."""

    reason: ClassVar[Reason] = Reason.RESULT_MALFORMED

    vcpu: PositiveInt
    memory_mb: PositiveInt
    os_image_hash: Sha256 | None


def project_vm_config(config: object, os_image_hash: str | None) -> VmConfig:
    """Bring a machine's own description into wire form, as the peer does: numbers are coerced, the rest is dropped.

    `vcpu`, else `cpu_count`; `memory_mb`, else `memory_size` in bytes. Raises WireRefused(QUOTE_REPLY_MALFORMED).
    """
    if not isinstance(config, dict):
        _refuse("", "must be an object", config)
    vcpu = _number(config, "vcpu")
    vcpu = _number(config, "cpu_count") if vcpu is None else vcpu
    if vcpu is None:
        _refuse("/vcpu", "is missing, and cpu_count too", None)
    memory = _number(config, "memory_mb")
    if memory is None:
        size = _number(config, "memory_size")
        if size is None or size <= 0:
            _refuse("/memory_size", "must be a number of bytes above 0 where memory_mb is missing", size)
        memory = max(1, size // _MIB)
    try:
        return VmConfig.parse({"vcpu": vcpu, "memory_mb": memory, "os_image_hash": os_image_hash})
    except WireRefused as refusal:
        raise refusal.under("/vm_config", Reason.QUOTE_REPLY_MALFORMED) from refusal


def check_vm_config(config: Mapping[str, object]) -> None:
    """Refuse the sizes that the peer coerces: booleans, fractions, text that is not decimal digits."""
    for name in _SIZES:
        value = config.get(name)
        digits = isinstance(value, str) and value.isascii() and value.isdecimal()
        if value is not None and not digits and (isinstance(value, bool) or not isinstance(value, int)):
            _refuse(f"/{name}", "must be an integer, or text of decimal digits", value)


def _number(config: Mapping[str, object], name: str) -> int | None:
    value = config.get(name)
    if value is None:
        return None
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        _refuse(f"/{name}", "must be a number", value)


def _refuse(where: str, rule: str, got: object) -> NoReturn:
    raise WireRefused(Reason.QUOTE_REPLY_MALFORMED, f"/vm_config{where}", rule, "" if got is None else shown(got))
