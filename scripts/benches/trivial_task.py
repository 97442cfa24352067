"""What a bench of trials needs: the engine, the trivial task with its image, and the image of holders."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from guest.errors import EnvironmentFault
from guest.tasks.budgets import Budget, budget_for
from guest.tasks.cache import load_cache
from guest.tasks.task import Task
from guest.trial.engine import Engine, connect
from guest.trial.holder import HolderImage
from guest.trial.image import ImageFailure, ResolvedImage
from image.base.ensure import ensure_base
from image.task_images import bake
from scripts.cache_dir import cache_dir

PACK = Path(__file__).resolve().parents[2] / "tests" / "packs" / "smoke"
TASK_ID = "trivial"


@dataclass(frozen=True)
class TrivialTask:
    """The trivial task, ready to run: it writes one file, and its verifier reads it."""

    engine: Engine
    task: Task
    budget: Budget
    image: ResolvedImage
    holder_image: HolderImage


def trivial_task() -> TrivialTask:
    """Connect, and bring in the images that are missing. Raises EnvironmentFault when they cannot be had."""
    engine = connect()
    base = ensure_base(engine.api, cache_dir(), lambda _: None)
    cache = load_cache(PACK)
    (task,) = cache.select([TASK_ID])
    image = bake(engine.api, [task], pins={}, say=lambda *_: None, stop=threading.Event())[TASK_ID]
    if isinstance(image, ImageFailure):
        raise EnvironmentFault(image.reason, image.message)
    budget = budget_for(task.definition, cache.budgets.get(TASK_ID), attested=False, chosen=False)
    return TrivialTask(engine, task, budget, image, HolderImage(base.ref))
