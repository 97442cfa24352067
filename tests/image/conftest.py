"""A registry, and a bake whose images are removed again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from guest.tasks.task import Task
from guest.trial.engine import Engine
from guest.trial.image import ImageFailure, ResolvedImage
from image.task_images import bake
from tests.images_made import forget, import_image


@dataclass
class Baking:
    """Bakes in the real engine; `said` are the progress lines of the last bake."""

    engine: Engine
    said: list[tuple[str, str]] = field(default_factory=list)
    images: set[str] = field(default_factory=set)

    def __call__(
        self, *tasks: Task, pins: Mapping[str, str] | None = None, stop: threading.Event | None = None
    ) -> dict[str, ResolvedImage | ImageFailure]:
        self.said.clear()
        results = bake(
            self.engine.api,
            tasks,
            pins=pins or {},
            say=lambda *line: self.said.append(line),
            stop=stop or threading.Event(),
        )
        self.images |= {image.image_id for image in results.values() if isinstance(image, ResolvedImage)}
        return results

    def image(self, task: Task, pins: Mapping[str, str] | None = None) -> ResolvedImage:
        """Bake one task, whose image must be had."""
        result = self(task, pins=pins)[task.task_id]
        assert isinstance(result, ResolvedImage), result
        return result

    def failure(self, task: Task, pins: Mapping[str, str] | None = None) -> ImageFailure:
        """Bake one task, whose image must not be had."""
        result = self(task, pins=pins)[task.task_id]
        assert isinstance(result, ImageFailure), result
        return result


@pytest.fixture
def baking(engine: Engine) -> Iterator[Baking]:
    made = Baking(engine)
    yield made
    forget(engine.api, *made.images)


@pytest.fixture
def made_image(engine: Engine) -> Iterator[Callable[..., str]]:
    """Makes an image like no other and gives its id; removed at the end with all its names."""
    ids: list[str] = []

    def make(name: str = "", *, workdir: str = "/srv") -> str:
        ids.append(import_image(engine.api, name, workdir=workdir))
        return ids[-1]

    yield make
    forget(engine.api, *ids)


def kinds(said: Sequence[tuple[str, str]]) -> list[str]:
    """The first words of progress lines."""
    return [words.split()[0] for _, words in said]
