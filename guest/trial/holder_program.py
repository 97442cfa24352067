"""What runs as PID 1 of a holder container; stdlib only, read as text and given to Python in that container.

A trial's container that joins the holder's network namespace also gets the holder's hosts, hostname and resolv.conf,
writable. Each line on stdin is one request, each answered by one JSON line on stdout:
`{"do": "reset"}` puts the three files back as they were at the start, attributes included, so that nothing written
there in one trial reaches the next; `{"do": "probe", "host": H, "port": P}` says whether a TCP connection is answered.
The end of stdin (the orchestrator is gone) ends the program, and with it the container.
"""

import fcntl
import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
# Linux, include/uapi/linux/fs.h: how to read and to set a file's flags, generation, and extended flags and project.
NUMBERS = ((0x80086601, 0x40086602, 8), (0x80087601, 0x40087602, 8), (0x801C581F, 0x401C5820, 28))


def keep() -> dict[str, tuple[bytes, dict[int, bytes]]]:
    """Read the files as they are now: content, and the numbers that their file system has for them, by how to set."""
    kept = {}
    for path in FILES:
        numbers = {}
        with Path(path).open("rb") as file:
            for read, write, size in NUMBERS:
                with suppress(OSError):  # not every file system has each
                    numbers[write] = fcntl.ioctl(file, read, bytes(size))
            kept[path] = file.read(), numbers
    return kept


def reset(kept: dict[str, tuple[bytes, dict[int, bytes]]]) -> None:
    """Write the files back and drop every attribute that could carry bytes."""
    for path, (data, numbers) in kept.items():
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
        try:
            os.write(descriptor, data)
            for name in os.listxattr(descriptor):
                os.removexattr(descriptor, name)
            os.fchown(descriptor, 0, 0)
            os.fchmod(descriptor, 0o644)
            os.utime(descriptor, (0, 0))
            for write, number in numbers.items():
                with suppress(OSError):  # what cannot be set here could not be in the trial
                    fcntl.ioctl(descriptor, write, number)
        finally:
            os.close(descriptor)


def probe(host: str, port: int) -> bool:
    """Say whether anything answers, be it with a refusal: a filter answers nothing."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True


def say(answer: dict[str, bool]) -> None:
    """Write one line in one piece."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Answer requests until stdin ends."""
    kept = keep()
    say({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "reset":
            reset(kept)
            answer = {"reset": True}
        else:
            answer = {"reached": probe(request["host"], request["port"])}
        say(answer)


if __name__ == "__main__":
    main()
