"""Image pins: only published images by digest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.images import image_pins_document, load_image_pins
from guest.tasks.json_file import write_json

DIGEST = "@sha256:" + "0a" * 32


def test_write_and_read(tmp_path: Path) -> None:
    path = tmp_path / "images.json"
    pins = {"a": "example/a" + DIGEST, "b": "registry.example.org:5000/x/b" + DIGEST}
    write_json(path, image_pins_document(pins))
    assert load_image_pins(path) == pins
    assert json.loads(path.read_text()) == {"schema": "evalguest-images/1", "images": pins}


@pytest.mark.parametrize(
    "value",
    ["example/a:20250101", "sha256:" + "0a" * 32, "example/a" + DIGEST.upper(), "example/a" + DIGEST + "\n",
     "-v" + DIGEST, "a b" + DIGEST, "a" + DIGEST + DIGEST, "", 1, None],
)  # fmt: skip
def test_what_is_no_pin(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "images.json"
    path.write_text(json.dumps({"schema": "evalguest-images/1", "images": {"a": value}}))
    with pytest.raises(Refused, match=r"images\.a") as refusal:
        load_image_pins(path)
    assert refusal.value.reason == Reason.IMAGES_MALFORMED
