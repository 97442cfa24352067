import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.job.admission import Capacity, Reservations, check_fits
from guest.reason import Reason
from tests.tasks_made import make_definition

SIZES = st.tuples(st.sampled_from([0.1, 0.25, 0.3, 0.5, 1.0, 2.0, 4.0]), st.integers(1, 9000))


def test_fractions_fill_a_machine_exactly() -> None:
    reservations = Reservations(Capacity(1.0, 10 << 30), 0)
    tenth = make_definition(cpus=0.1, memory_mb=1)
    assert [reservations.reserve(tenth) for _ in range(11)] == [True] * 10 + [False]


def test_memory_counts_as_well() -> None:
    reservations = Reservations(Capacity(64.0, 3 << 30), 0)
    big = make_definition(cpus=1.0, memory_mb=2048)
    assert reservations.reserve(big)
    assert not reservations.reserve(big)
    assert reservations.reserve(make_definition(cpus=1.0, memory_mb=1024))
    reservations.release(big)
    assert reservations.reserve(big)


@given(st.lists(SIZES, max_size=30))
def test_never_more_than_the_capacity_and_all_comes_back(sizes: list[tuple[float, int]]) -> None:
    capacity = Capacity(4.0, 8192 << 20)
    reservations = Reservations(capacity, 0)
    held = [
        definition
        for definition in (make_definition(cpus=cpus, memory_mb=memory) for cpus, memory in sizes)
        if reservations.reserve(definition)
    ]
    assert sum(definition.cpus for definition in held) <= 4.0 + 1e-6
    assert sum(definition.memory_mb for definition in held) <= 8192
    for definition in held:
        reservations.release(definition)
    assert reservations.reserve(make_definition(cpus=4.0, memory_mb=8192))


@pytest.mark.parametrize(("cpus", "memory_mb"), [(2.5, 1), (1.0, 2049)])
def test_what_never_fits_is_refused_by_name(cpus: float, memory_mb: int) -> None:
    with pytest.raises(Refused) as caught:
        check_fits(make_definition(cpus=cpus, memory_mb=memory_mb), Capacity(2.0, 2048 << 20), 0)
    assert caught.value.reason is Reason.TASK_TOO_LARGE
    assert f"ask for {cpus:g} CPUs and {memory_mb} MiB" in caught.value.message
