"""The shape of the machine: the peer's projection, and the sizes that are refused all the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from guest.reason import Reason
from guest.wire.vm_config import VmConfig, check_vm_config, project_vm_config
from tests.conformance.vectors import baseline
from tests.guest.wire.values import ANY_VALUES, refusal_of


@pytest.mark.parametrize("vector", baseline("vm_config_projection"), ids=lambda v: v["name"])
def test_published_projections(vector: dict[str, Any]) -> None:
    config, image = vector["input"]["vm_config"], vector["input"]["measurement_os_image_hash"]
    if "reject" in vector:
        refusal = refusal_of(lambda: project_vm_config(config, image))
        assert refusal is not None
        assert refusal.reason is Reason.QUOTE_REPLY_MALFORMED
    else:
        assert project_vm_config(config, image).model_dump() == vector["expected"]


@pytest.mark.parametrize("odd", [True, 2.9, "2.9", " 4", "0x4", "4\n", "٤", [], {}])
def test_sizes_that_the_peer_coerces_are_refused(odd: object) -> None:
    for name in ("vcpu", "cpu_count", "memory_mb", "memory_size"):
        refusal = refusal_of(lambda name=name: check_vm_config({"vcpu": 1, "memory_mb": 1, name: odd}))  # type: ignore[misc]
        assert refusal is not None
        assert refusal.pointer == f"/vm_config/{name}"


def test_the_peer_s_coercion_itself() -> None:
    assert project_vm_config({"vcpu": True, "memory_mb": 2.9}, None) == VmConfig(
        vcpu=1, memory_mb=2, os_image_hash=None
    )


def test_integers_and_digits_are_sizes() -> None:
    config = {"vcpu": "4", "memory_size": 8589934592, "qemu_version": "9.1"}
    check_vm_config(config)
    assert project_vm_config(config, None) == VmConfig(vcpu=4, memory_mb=8192, os_image_hash=None)


@given(ANY_VALUES, ANY_VALUES, ANY_VALUES)
def test_no_value_crashes_it(config: Any, vcpu: Any, memory: Any) -> None:
    for given_ in (config, {"vcpu": vcpu, "memory_mb": memory}, {"cpu_count": vcpu, "memory_size": memory}):
        refusal_of(lambda given_=given_: project_vm_config(given_, None))  # type: ignore[misc]
        if isinstance(given_, dict):
            refusal_of(lambda given_=given_: check_vm_config(given_))  # type: ignore[misc]
