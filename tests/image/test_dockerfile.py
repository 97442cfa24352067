"""What of a Dockerfile only BuildKit can build."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image.dockerfile import needs_of_buildkit


@pytest.mark.parametrize(
    ("dockerfile", "expected"),
    [
        ("", []),
        ("FROM a\nRUN true\nCOPY --from=a --chown=1:1 x y\nADD --chown=1 x y\n", []),
        ("FROM a\nRUN --mount=type=cache,target=/c make\n", ["line 2: RUN --mount"]),
        ("FROM a\n\nrun \\\n  # between\n\n --network=n --mount=x y", ["line 3: RUN --network", "line 3: RUN --mount"]),
        ("FROM a\nRUN\t--security=insecure make", ["line 2: RUN --security"]),
        ("FROM a\nCOPY --link --chmod=755 x y\n", ["line 2: COPY --link", "line 2: COPY --chmod"]),
        ("FROM a\nADD --checksum=sha256:00 x y\n", ["line 2: ADD --checksum"]),
        ("FROM a\nONBUILD RUN --mount=type=cache,target=/c make\n", ["line 2: RUN --mount"]),
        ("FROM a\nRUN <<EOF\nRUN --mount=x\nEOF\n", ["line 2: RUN with a here-document"]),
        ("FROM a\nRUN cat <<-'EOF' > f\nx\nEOF\n", ["line 2: RUN with a here-document"]),
        ('FROM a\nRUN python3 <<"END"\nx\nEND\n', ["line 2: RUN with a here-document"]),
        ("FROM a\nCOPY 3<<EOF /x\nEOF\n", ["line 2: COPY with a here-document"]),
        # a shift, a here-string, and words inside quotes are none
        ("FROM a\nRUN echo $((1<<2)) && cat <<< word && echo \"a <<EOF b\" 'c <<EOF'\n", []),
        ("FROM a\nRUN echo --mount=type=cache\n", []),
        ("FROM a\nENV X=<<EOF\n", []),
        # directives count at the top only
        ("# syntax=docker/dockerfile:1\nFROM a\n", ["line 1: # syntax=docker/dockerfile:1"]),
        ("# escape=`\n#SYNTAX = x\nFROM a\n", ["line 2: # syntax=x"]),
        ("# a comment\n# syntax=docker/dockerfile:1\nFROM a\n", []),
        ("FROM a\n# syntax=docker/dockerfile:1\n", []),
        ("# escape=`\nFROM a\nRUN `\n --mount=x y\n", ["line 3: RUN --mount"]),
        ("FROM a\nRUN `\n--mount=x y\n", []),
    ],
)  # fmt: skip
def test_needs(dockerfile: str, expected: list[str]) -> None:
    assert needs_of_buildkit(dockerfile.encode()) == expected


def test_no_dockerfile_takes_long() -> None:
    began = time.monotonic()
    for text in ('"\\' * 200_000, "'\"" * 200_000, "--a " * 200_000, "\\\n" * 200_000, "<<" * 200_000):
        needs_of_buildkit(f"RUN {text}".encode())
    assert time.monotonic() - began < 10


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    assert isinstance(needs_of_buildkit(data), list)


@given(st.text(alphabet="RUNCOPYADD \t\n\\\"'<-=#`em0", max_size=80))
def test_any_text_is_read(text: str) -> None:
    assert isinstance(needs_of_buildkit(text.encode()), list)
