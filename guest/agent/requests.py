"""What an agent may ask of its task container: each request checked member by member before anything is done."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from guest.errors import Refused
from guest.reason import Reason
from guest.trial.environment import CommandTimeout, Environment
from guest.trial.tarstream import TarFile

MAX_COMMAND = 1 << 20
MAX_PATH = 4096
MAX_TRANSFER_BYTES = 8 << 20
MAX_FILES = 2000
MAX_TIMEOUT_SEC = 1e6

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# They would change the programs that start the command, not only the command.
_ENV_REFUSED = re.compile(r"LD_.*|GLIBC_TUNABLES|BASH_ENV|ENV|.*_PROXY", re.IGNORECASE)


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _check_absolute(path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError("must be an absolute path without '..'")
    return path


def _check_relative(path: str) -> str:
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "" in parts or "\0" in path:
        raise ValueError("must be a relative path without '..'")
    return path


def _check_user(user: str) -> str:
    if not _USER.fullmatch(user):
        raise ValueError("must be a user, or user:group, by name or number")
    return user


def _check_env(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not _ENV_NAME.fullmatch(name) or _ENV_REFUSED.fullmatch(name) or "\0" in value:
            raise ValueError(f"must not set {name[:80]!a}")
    return env


Path = Annotated[str, Field(max_length=MAX_PATH), AfterValidator(_check_absolute)]


class ExecRequest(_Closed):
    """A command for bash."""

    command: Annotated[str, Field(max_length=MAX_COMMAND)]
    cwd: Path | None
    env: Annotated[dict[str, str], Field(max_length=256), AfterValidator(_check_env)]
    timeout_sec: Annotated[float, Field(gt=0, le=MAX_TIMEOUT_SEC, allow_inf_nan=False, strict=False)] | None
    user: Annotated[str, AfterValidator(_check_user)] | None


class UploadFile(_Closed):
    """One file: content in base64, and whether it is executable."""

    data: str
    executable: bool


class UploadRequest(_Closed):
    """Files by relative path, for a directory."""

    target: Path
    files: Annotated[
        dict[Annotated[str, Field(max_length=MAX_PATH), AfterValidator(_check_relative)], UploadFile],
        Field(max_length=MAX_FILES),
    ]


class PathRequest(_Closed):
    """A file or directory."""

    path: Path


class UsageReport(_Closed):
    """What the agent says it used; nobody is paid by it."""

    n_input_tokens: Annotated[int, Field(ge=0, le=2**53)] | None
    n_cache_tokens: Annotated[int, Field(ge=0, le=2**53)] | None
    n_output_tokens: Annotated[int, Field(ge=0, le=2**53)] | None
    cost_usd: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False, strict=False)] | None


def answer(environment: Environment, verb: str, arguments: object) -> dict[str, Any]:
    """Do what a request asks and give the answer's members: `result`, or `error` (its kind) and `message`.

    Raises Refused for the end of the phase and EnvironmentFault for engine errors; the agent's own mistakes are
    answered.
    """
    try:
        return {"result": _DO[verb](environment, arguments)}
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:80] for part in first["loc"])
        return {"error": "value", "message": f"{verb}: {where}: {first['msg'].removeprefix('Value error, ')}"}
    except FileNotFoundError as missing:
        return {"error": "missing", "message": str(missing)}
    except CommandTimeout as timeout:
        return {"error": "timeout", "message": str(timeout)}
    except Refused as refusal:
        if refusal.reason is Reason.TAR_REFUSED:
            return {"error": "value", "message": refusal.message}
        raise
    except ValueError as error:
        return {"error": "value", "message": str(error)}


def _exec(environment: Environment, arguments: object) -> Mapping[str, Any]:
    request = ExecRequest.model_validate(arguments)
    result = environment.exec(**request.model_dump())
    return {"stdout": result.stdout, "return_code": result.return_code}


def _upload(environment: Environment, arguments: object) -> Mapping[str, Any]:
    request = UploadRequest.model_validate(arguments)
    files: dict[str, TarFile] = {}
    total = 0
    for path, file in request.files.items():
        try:
            data = base64.b64decode(file.data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{path!a} is not in base64") from error
        total += len(data)
        if total > MAX_TRANSFER_BYTES:
            raise ValueError(f"an upload has at most {MAX_TRANSFER_BYTES} bytes")
        files[path] = TarFile(data, 0o755 if file.executable else 0o644)
    environment.put(request.target, files)
    return {}


def _download(environment: Environment, arguments: object) -> Mapping[str, Any]:
    request = PathRequest.model_validate(arguments)
    entries = {path: entry for path, entry in environment.get(request.path).items() if entry.kind == "file"}
    if sum(entry.size for entry in entries.values()) > MAX_TRANSFER_BYTES or len(entries) > MAX_FILES:
        raise ValueError(f"a download has at most {MAX_TRANSFER_BYTES} bytes and {MAX_FILES} files")
    return {"files": {path: base64.b64encode(entry.data).decode() for path, entry in entries.items()}}


def _is_dir(environment: Environment, arguments: object) -> Mapping[str, Any]:
    return {"is": environment.is_dir(PathRequest.model_validate(arguments).path)}


def _is_file(environment: Environment, arguments: object) -> Mapping[str, Any]:
    return {"is": environment.is_file(PathRequest.model_validate(arguments).path)}


_DO = {"exec": _exec, "upload": _upload, "download": _download, "is_dir": _is_dir, "is_file": _is_file}
VERBS = frozenset(_DO)
