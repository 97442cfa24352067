"""A key-value service: one event loop, one journal that is written before the answer is."""

import asyncio
import os
import re
import socket
import struct
import sys
import zlib
from pathlib import Path

KEY = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
COUNT = re.compile(rb"[0-9]{1,10}")
NUMBER = re.compile(rb"-?[0-9]{1,19}")
LARGEST, LONGEST = 1 << 20, 1024
HEAD = struct.Struct(">IIQBB")  # crc of the rest, length of the value, version, length of the key, deleted


class Close(Exception):
    """Answer this and close the connection."""


class Store:
    def __init__(self, path: Path) -> None:
        self.values: dict[bytes, tuple[int, bytes]] = {}
        self.version = 0
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        data = path.read_bytes()
        at = 0
        while at + HEAD.size <= len(data):
            crc, length, version, key_length, deleted = HEAD.unpack_from(data, at)
            start = at + HEAD.size + key_length
            end = start + length
            if end > len(data) or zlib.crc32(data[at + 4 : end]) != crc:
                break
            self._apply(version, data[at + HEAD.size : start], None if deleted else data[start:end])
            at = end
        os.ftruncate(self.file, at)  # what a death cut off was never answered

    def _apply(self, version: int, key: bytes, value: bytes | None) -> None:
        self.version = version
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = (version, value)

    def change(self, key: bytes, value: bytes | None) -> int:
        version = self.version + 1
        body = HEAD.pack(0, len(value or b""), version, len(key), value is None)[4:] + key + (value or b"")
        record = memoryview(struct.pack(">I", zlib.crc32(body)) + body)
        while record:
            record = record[os.write(self.file, record) :]
        self._apply(version, key, value)
        return version


def answer(store: Store, words: list[bytes], value: bytes) -> bytes:
    match words:
        case [b"SET", key, _] if KEY.fullmatch(key):
            return b"OK %d\n" % store.change(key, value)
        case [b"CAS", key, wanted, _] if KEY.fullmatch(key) and COUNT.fullmatch(wanted):
            version = store.values.get(key, (0, b""))[0]
            if version != int(wanted):
                return b"CONFLICT %d\n" % version
            return b"OK %d\n" % store.change(key, value)
        case [b"GET", key] if KEY.fullmatch(key):
            if key not in store.values:
                return b"NONE\n"
            version, value = store.values[key]
            return b"VALUE %d %d\n%s\n" % (version, len(value), value)
        case [b"DEL", key] if KEY.fullmatch(key):
            return b"OK %d\n" % store.change(key, None) if key in store.values else b"NONE\n"
        case [b"ADD", key, delta] if KEY.fullmatch(key) and NUMBER.fullmatch(delta):
            held = store.values.get(key, (0, b"0"))[1]
            if not NUMBER.fullmatch(held) or not -(2**63) <= (total := int(held) + int(delta)) < 2**63:
                return b"ERR number\n"
            return b"NUMBER %d %d\n" % (store.change(key, b"%d" % total), total)
        case [b"KEYS", prefix] if KEY.fullmatch(prefix):
            keys = sorted(key for key in store.values if key.startswith(prefix))
            return b"COUNT %d\n" % len(keys) + b"".join(key + b"\n" for key in keys)
        case [b"STAT"]:
            return b"STAT %d %d %d\n" % (os.getpid(), len(store.values), store.version)
    return b"ERR request\n"


async def one(store: Store, reader: asyncio.StreamReader) -> bytes:
    try:
        line = (await reader.readuntil(b"\n"))[:-1]
    except asyncio.LimitOverrunError:
        raise Close(b"ERR line\n") from None
    if len(line) > LONGEST:
        raise Close(b"ERR line\n")
    words = line.split(b" ")
    if words == [b"QUIT"]:
        raise Close(b"BYE\n")
    value = b""
    if (words[0], len(words)) in ((b"SET", 3), (b"CAS", 4)):
        if not COUNT.fullmatch(words[-1]):
            return b"ERR request\n"
        if int(words[-1]) > LARGEST:
            raise Close(b"ERR large\n")
        value = await reader.readexactly(int(words[-1]))
        if await reader.readexactly(1) != b"\n":
            raise Close(b"ERR value\n")
    return answer(store, words, value)


async def main(state: Path) -> None:
    store = Store(state / "journal")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(await one(store, reader))
                await writer.drain()
        except Close as close:
            writer.write(close.args[0])
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 7711, limit=LONGEST, backlog=512)
    for listener in server.sockets:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await server.serve_forever()


asyncio.run(main(Path(sys.argv[1])))
