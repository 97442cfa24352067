"""What the builder of a task's image is given: the task's `environment/` and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.task import Task
from guest.trial.tarstream import TarFile, pack
from image.dockerignore import is_ignored, parse_ignore_file

REPOSITORY = "evalguest-task"
_OWN_IGNORE_FILE = "Dockerfile.dockerignore"


@dataclass(frozen=True)
class BuildContext:
    """A Dockerfile and the files it can copy, those that `.dockerignore` names left out.

    `tar` is for the engine's build call. Equal contents and modes give equal bytes, so its digest names the image.
    """

    dockerfile: bytes = field(repr=False)
    files: Mapping[str, TarFile] = field(repr=False)
    tar: bytes = field(repr=False)

    @property
    def image_name(self) -> str:
        """The name of the image built from it: `evalguest-task:<SHA-256 of the tar>`."""
        return f"{REPOSITORY}:{hashlib.sha256(self.tar).hexdigest()}"


def context_of(task: Task) -> BuildContext | None:
    """Give a task's build context, None when it has no Dockerfile.

    Raises Refused: TASK_UNSUPPORTED for ignore files that are not read here, TAR_REFUSED for a path no
    archive can carry.
    """
    if not task.has_dockerfile:
        return None
    tree = {
        path: TarFile(file.data, 0o755 if file.executable else 0o644)
        for path, file in task.subtree("environment").items()
    }
    if _OWN_IGNORE_FILE in tree:
        message = f"{task.task_id}/environment/{_OWN_IGNORE_FILE} is not supported: only BuildKit reads it"
        raise Refused(Reason.TASK_UNSUPPORTED, message, "name it .dockerignore")
    rules = parse_ignore_file(tree[".dockerignore"].data) if ".dockerignore" in tree else []
    files = {path: file for path, file in tree.items() if not is_ignored(path, rules)}
    # As docker's own client does: the engine needs these two, and drops them itself where the rules say so.
    always = {path: tree[path] for path in ("Dockerfile", ".dockerignore") if path in tree}
    sent = files | always
    directories = {path[:at]: 0o755 for path in sent for at, letter in enumerate(path) if letter == "/"}
    return BuildContext(tree["Dockerfile"].data, files, pack(sent, directories))
