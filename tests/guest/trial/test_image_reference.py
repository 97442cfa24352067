"""Names of images: https://github.com/distribution/reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from guest.trial.image_reference import parse_reference

D = "sha256:" + "0f" * 32


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("library/ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("docker.io/ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("index.docker.io/library/ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        (f"ubuntu@{D}", f"docker.io/library/ubuntu@{D}"),
        (f"ubuntu:24.04@{D}", f"docker.io/library/ubuntu@{D}"),
        ("alexgshaw/fix-git:20251031", "docker.io/alexgshaw/fix-git:20251031"),
        ("localhost/task", "localhost/task:latest"),
        ("localhost:5000/task", "localhost:5000/task:latest"),
        ("localhost:5000/a/b__c/d-e.f:V_1", "localhost:5000/a/b__c/d-e.f:V_1"),
        ("Registry/task", "Registry/task:latest"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
        (f"[::1]:5000/a@{D}", f"[::1]:5000/a@{D}"),
    ],
)
def test_full_spelling(text: str, full: str) -> None:
    reference = parse_reference(text)
    assert str(reference) == full
    assert str(parse_reference(full)) == full


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "Ubuntu", "ubuntu:", "ubuntu:-x", "ubuntu@", f"ubuntu@{D[:-1]}", f"ubuntu@{D.upper()}", f"@{D}",
        "ubuntu@md5:00", "a//b", "/a", "a/", "a/B", "-a", "a..b/c", "a___b", "localhost:port/a", "a:b:c", "a b",
        "x" * 256, "ubuntu:" + "t" * 129, "ubuntu\n", "ubuntu:1\n", f"ubuntu@{D}\n", "https://ghcr.io/a/b", "a@b@c",
        "ü/a", "a/ü", "a:ü",
    ],
)  # fmt: skip
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_reference(text)
    assert caught.value.reason == Reason.IMAGE_MALFORMED
    assert len(caught.value.message) < 400


@given(st.text(max_size=80) | st.text(alphabet="aA0.:/@-_[]", max_size=60))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        reference = parse_reference(text)
    except Refused:
        return
    again = parse_reference(str(reference))
    assert (str(again), again.name, again.selector) == (str(reference), reference.name, reference.selector)
