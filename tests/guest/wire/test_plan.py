"""Plans of both forms, what breaks them, and what a guest adds to the published rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guest.reason import Reason
from guest.wire import canonical
from guest.wire.plan import EvalPlan, LaterEvalPlan, check_plan, load_plan, parse_plan
from guest.wire.refusal import WireRefused
from tests.guest.wire.records import changed, later_plan, leaves, plan, without
from tests.guest.wire.values import ANY_VALUES, refusal_of

DIGEST = "@sha256:" + "a" * 64


def test_the_forms_are_told_apart_by_the_package_tree() -> None:
    assert type(parse_plan(plan())) is EvalPlan
    assert type(parse_plan(later_plan())) is LaterEvalPlan
    assert parse_plan(plan()).canonical() == canonical.encode(plan())
    assert parse_plan(later_plan()).canonical() == canonical.encode(later_plan())


@pytest.mark.parametrize("made", [plan, later_plan])
def test_no_member_can_be_missing_or_added(made: Any) -> None:
    for path in leaves(made()):
        if isinstance(path[-1], str) and path != ("package_tree_sha",):
            refusal = refusal_of(lambda path=path: parse_plan(without(made(), path)))  # type: ignore[misc]
            assert refusal is not None
            assert (refusal.pointer, refusal.rule) == ("/" + "/".join(map(str, path)), "is missing")
            more = changed(made(), (*path[:-1], "x/~y"), 1)
            refusal = refusal_of(lambda more=more: parse_plan(more))  # type: ignore[misc]
            assert refusal is not None
            assert refusal.pointer.endswith("/x~1~0y")


@settings(max_examples=300)
@given(st.data())
def test_any_single_change_is_refused_or_another_valid_plan(data: st.DataObject) -> None:
    document = data.draw(st.sampled_from([plan(), plan(1), plan(2), later_plan()]))
    path = data.draw(st.sampled_from(list(leaves(document))))
    mutated = changed(document, path, data.draw(ANY_VALUES))
    refusal = refusal_of(lambda: parse_plan(mutated))
    if refusal is None:
        read = parse_plan(mutated)
        assert parse_plan(canonical.decode(read.canonical())) == read
    else:
        assert refusal.reason is Reason.PLAN_MALFORMED
        assert refusal.message.isascii()


@given(st.binary(max_size=300) | ANY_VALUES.map(lambda value: repr(value).encode(errors="replace")))
def test_no_text_crashes_the_loader(data: bytes) -> None:
    assert refusal_of(lambda: load_plan(data)) is not None


def test_a_wrong_member_is_told_in_a_line() -> None:
    broken = changed(plan(), ("selected_tasks", 0, "image_ref"), "registry.example.org/tasks/a:latest")
    with pytest.raises(WireRefused) as refusal:
        parse_plan(broken)
    assert refusal.value.message == (
        '/selected_tasks/0/image_ref must be a name without blanks, then "@sha256:" and 64 lowercase hex digits; '
        "got 'registry.example.org/tasks/a:latest'"
    )


def test_a_guest_takes_canonical_bytes_only() -> None:
    data = canonical.encode(plan())
    assert load_plan(data).task_ids == ("adaptive-x", "build-y", "crack-z")
    for text in (data + b"\n", data.replace(b'"k":3', b'"k": 3'), data.replace(b'"k":3', b'"k":3,"k":3')):
        with pytest.raises(WireRefused):
            load_plan(text)


@pytest.mark.parametrize(
    "endpoint",
    ["   ", "http://kr.example.org:8701", "https://kr:1", " kr:8701", "kr:8701 ", "kr", "k\u00e9:8701", "kr:8701/x"],
)
def test_a_guest_holds_the_first_form_to_the_later_endpoint(endpoint: str) -> None:
    read = parse_plan(changed(plan(), ("key_release_endpoint",), endpoint))
    with pytest.raises(WireRefused) as refusal:
        check_plan(read)
    assert (refusal.value.reason, refusal.value.pointer) == (Reason.PLAN_REFUSED, "/key_release_endpoint")


def test_a_later_plan_with_blanks_loses_them_and_is_then_not_what_was_issued() -> None:
    blank = changed(later_plan(), ("key_release_endpoint",), " kr.example.org:8701 ")
    assert parse_plan(blank).key_release_endpoint == "kr.example.org:8701"
    with pytest.raises(WireRefused):
        load_plan(canonical.encode(changed(plan(), ("key_release_endpoint",), " kr.example.org:8701 ")))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("selected_tasks", 0, "image_ref"), "r\x00/a" + DIGEST),
        (("selected_tasks", 0, "image_ref"), "re\u0301/a" + DIGEST),
        (("eval_app", "image_ref"), "caf\u00e9" + DIGEST),
        (("selected_tasks", 0, "task_id"), "a/.."),
        (("selected_tasks", 0, "task_id"), "a/"),
        (("selected_tasks", 0, "task_id"), "a/b:c"),
        (("selected_tasks", 0, "task_id"), "."),
        (("selected_tasks", 0, "task_id"), "a/build-y"),
    ],
)
def test_a_guest_refuses_names_that_are_not_safe(path: tuple[str | int, ...], value: str) -> None:
    read = parse_plan(changed(plan(), path, value))
    with pytest.raises(WireRefused) as refusal:
        check_plan(read)
    assert refusal.value.reason is Reason.PLAN_REFUSED
    assert refusal.value.pointer == "/" + "/".join(map(str, path))


@pytest.mark.parametrize("version", [True, 1.0, "1", None, 2])
def test_a_version_is_the_integer_1(version: object) -> None:
    with pytest.raises(WireRefused) as refusal:
        parse_plan(changed(plan(), ("schema_version",), version))
    assert refusal.value.pointer == "/schema_version"


def test_the_measurement_to_bind_is_the_plan_s() -> None:
    read = parse_plan(plan())
    assert read.canonical_measurement.model_dump() == {
        "compose_hash": plan()["eval_app"]["compose_hash"],
        **{k: plan()["eval_app"]["measurement"][k] for k in ("mrtd", "rtmr0", "rtmr1", "rtmr2", "os_image_hash")},
    }
