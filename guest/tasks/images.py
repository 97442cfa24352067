"""Image pins of a cache: `images.json`, bare task id to a published image by digest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from guest.reason import Reason
from guest.tasks.json_file import read_model
from guest.tasks.task_id import bare_ids

SCHEMA = "evalguest-images/1"

_PIN = re.compile(r"[a-z0-9][A-Za-z0-9._:/-]{0,400}@sha256:[0-9a-f]{64}", re.ASCII)


def _pin(text: str) -> str:
    if _PIN.fullmatch(text) is None:
        raise ValueError(f"{text[:120]!r} is not repository@sha256:<64 hex>")
    return text


class _ImagesFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    schema_: Literal["evalguest-images/1"] = Field(alias="schema")
    images: Annotated[dict[str, Annotated[str, AfterValidator(_pin)]], AfterValidator(bare_ids)]


def load_image_pins(path: Path) -> Mapping[str, str]:
    """Read `images.json`: bare task id to `repository@sha256:…`.

    Raises UsageFault when there is no such file, Refused(IMAGES_MALFORMED) when it is not of that form.
    """
    return read_model(path, _ImagesFile, Reason.IMAGES_MALFORMED).images


def image_pins_document(pins: Mapping[str, str]) -> dict[str, Any]:
    """The JSON document that `load_image_pins` reads; write it with `guest.tasks.json_file.write_json`."""
    return {"schema": SCHEMA, "images": dict(pins)}
