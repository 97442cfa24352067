"""Build one image from a context in memory: with BuildKit where a client for it is installed, else the classic way."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Mapping
from typing import Any

import docker

from guest.errors import EnvironmentFault
from guest.reason import Reason
from guest.trial.long_answer import follow
from image.buildkit import BuildKit, build_with
from image.context import BuildContext
from image.dockerfile import needs_of_buildkit

_TAIL_LINES = 12
_LINE_CHARACTERS = 300
_INSTALL = "install docker's buildx plugin (docker-buildx or docker-buildx-plugin)"
_ESCAPE_CODE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")


def build(
    api: docker.APIClient,
    context: BuildContext,
    labels: Mapping[str, str],
    *,
    buildkit: BuildKit | None,
    seconds: float,
    stop: threading.Event,
) -> None:
    """Build the context's image in the engine, under the context's name and with these labels.

    Steps run on the engine's default network, never the host's. Raises EnvironmentFault with the builder's last words,
    also when it did not end within `seconds`; Refused(INTERRUPTED) when `stop` is set.
    """
    needs = needs_of_buildkit(context.dockerfile)
    try:
        if buildkit is not None:
            build_with(buildkit, api, context, labels, seconds=seconds, stop=stop)
        elif needs:
            _refuse(needs)
        else:
            _build_classic(api, context, labels, seconds=seconds, stop=stop)
    except EnvironmentFault as fault:
        words = last_words(fault.message)
        raise EnvironmentFault(Reason.IMAGE_UNAVAILABLE, words, fault.hint or _hint(words, needs)) from fault


def _refuse(needs: list[str]) -> None:
    raise EnvironmentFault(
        Reason.IMAGE_UNAVAILABLE,
        f"the Dockerfile needs BuildKit ({', '.join(needs[:3])}) and no client here has it; the engine's classic "
        "builder cannot build it",
        _INSTALL,
    )


def _build_classic(
    api: docker.APIClient, context: BuildContext, labels: Mapping[str, str], *, seconds: float, stop: threading.Event
) -> None:
    def call(client: docker.APIClient) -> Any:  # noqa: ANN401 - the client library is not typed
        return client.build(
            fileobj=io.BytesIO(context.tar),
            custom_context=True,
            tag=context.image_name,
            rm=True,
            forcerm=True,
            decode=True,
            labels=dict(labels),
        )

    said: list[str] = []
    try:
        for item in follow(api, "build the image", call, seconds=seconds, stop=stop):
            said.append(str(item.get("stream", "")))
            del said[:-200]
    except EnvironmentFault as fault:
        raise EnvironmentFault(fault.reason, "".join(said) + "\n" + fault.message) from fault


def last_words(text: str) -> str:
    """Give the last lines of an output, few and short, without what would steer a terminal."""
    printed = _ESCAPE_CODE.sub("", text)
    lines = ["".join(letter for letter in line if letter.isprintable()).rstrip() for line in printed.splitlines()]
    return "\n".join(line[:_LINE_CHARACTERS] for line in [each for each in lines if each][-_TAIL_LINES:])


def _hint(words: str, needs: list[str]) -> str:
    if "docker0" in words:
        return "the engine has lost its bridge docker0: restart the engine"
    if "unknown instruction" in words and any("here-document" in need for need in needs):
        return "here-documents need Docker 23 or newer, or a first line `# syntax=docker/dockerfile:1`"
    return ""
