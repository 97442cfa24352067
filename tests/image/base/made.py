"""A lock of one made package, and a mirror on this machine, for tests that must not depend on the real ones."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from image.base.lock import BaseLock, Expected, LockedPackage, LockedWheel

POOL = "pool/main/h/hello+x/hello_2.0-1+deb13u1~x_amd64.deb"
CONTROL = "Package: hello\nVersion: 1:2.0-1+deb13u1~x\nArchitecture: amd64\nMaintainer: nobody <n@example.org>\n"


def tar_of(name: str, data: bytes, mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def ar_of(members: dict[str, bytes]) -> bytes:
    data = b"!<arch>\n"
    for name, content in members.items():
        data += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        data += b"\n" * (len(content) % 2)
    return data


def made_deb(control: str = CONTROL) -> bytes:
    return ar_of(
        {
            "debian-binary": b"2.0\n",
            "control.tar.gz": tar_of("./control", control.encode()),
            "data.tar.gz": tar_of("./usr/share/hello", b"hi\n"),
        }
    )


def made_lock(deb: bytes, wheels: tuple[LockedWheel, ...] = (), **members: Any) -> BaseLock:
    package = LockedPackage(
        name="hello",
        version="1:2.0-1+deb13u1~x",
        path=POOL,
        size=len(deb),
        sha256=hashlib.sha256(deb).hexdigest(),
    )
    nothing = Expected(tar_sha256="0" * 64, config_sha256="0" * 64, manifest_sha256="0" * 64)
    return BaseLock(
        suite="trixie",
        epoch=1_795_252_544,
        requested=("hello",),
        packages=(package,),
        wheels=wheels,
        expected=members.get("expected", nothing),
    )


@dataclass
class Mirror:
    """A web server: `files` by path, `asked` in order; a number instead of bytes is a status without a body."""

    url: str
    files: dict[str, bytes | int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@contextmanager
def mirror() -> Iterator[Mirror]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.asked.append(self.path)
            answer = made.files.get(self.path, 404)
            body = answer if isinstance(answer, bytes) else b""
            self.send_response(200 if isinstance(answer, bytes) else answer)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the base class chooses the name

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made = Mirror(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
