#!/bin/bash
# Wrong: goes on adding deltas to old values after a gap.
set -euo pipefail
cat > /app/decode <<'E'
#!/usr/bin/python3 -I
"""Decodes the log of a tide gauge."""

import binascii
import sys

KINDS = {1: "6", 2: "s", 3: "vs", 4: "vv", 5: "1"}


class Short(Exception):
    """An entry that cannot be read."""


def entries(payload):
    """(kind, channel, fields) for each entry up to the first that cannot be read."""
    at = 0

    def byte():
        nonlocal at
        if at == len(payload):
            raise Short
        at += 1
        return payload[at - 1]

    def field(form):
        if form == "6":
            return sum(byte() << 8 * i for i in range(6))
        if form == "1":
            value = byte()
            return value - 256 if value > 127 else value
        value = 0
        for i in range(5):
            b = byte()
            value |= (b & 0x7F) << 7 * i
            if not b & 0x80:
                break
        else:
            raise Short
        return value if form == "v" else (value >> 1) ^ -(value & 1)

    while at < len(payload):
        head = byte()
        kind = head >> 4
        if kind not in KINDS:
            return
        try:
            fields = [field(form) for form in KINDS[kind]]
        except Short:
            return
        if (kind == 4 and fields[1] > 1000) or (kind == 5 and not -9 <= fields[0] <= 9):
            return
        yield kind, head & 15, fields


def decimal(value, exponent):
    if exponent >= 0:
        return str(value * 10**exponent)
    sign = "-" if value < 0 else ""
    whole, part = divmod(abs(value), 10**-exponent)
    return f"{sign}{whole}.{part:0{-exponent}}"


class Decoder:
    def __init__(self, out):
        self.out = out
        self.frames = self.duplicates = self.gaps = self.skipped = 0
        self.sequence = None
        self.forget()

    def forget(self):
        self.time = None
        self.value, self.step, self.exponent = [None] * 16, [None] * 16, [None] * 16

    def reading(self, channel):
        if self.time is not None and self.value[channel] is not None and self.exponent[channel] is not None:
            self.out.write(f"{self.time},{channel},{decimal(self.value[channel], self.exponent[channel])}\n")

    def advance(self, channel, wait):
        if self.time is not None:
            self.time += wait
        if self.value[channel] is not None:
            self.value[channel] += self.step[channel]
        self.reading(channel)

    def frame(self, sequence, payload):
        if sequence == self.sequence:
            self.duplicates += 1
            return
        self.frames += 1
        if self.sequence is not None and sequence != (self.sequence + 1) & 0xFFFF:
            self.gaps += 1
        self.sequence = sequence
        for kind, channel, fields in entries(payload):
            if kind == 1:
                self.time = fields[0]
            elif kind == 2:
                self.value[channel], self.step[channel] = fields[0], 0
                self.reading(channel)
            elif kind == 3:
                self.step[channel] = fields[1]
                self.advance(channel, fields[0])
            elif kind == 4:
                for _ in range(fields[1]):
                    self.advance(channel, fields[0])
            else:
                self.exponent[channel] = fields[0]

    def log(self, data):
        at = 0
        while at < len(data):
            start = data.find(b"\xa5\x5a", at)
            if start < 0:
                start = len(data)
            self.skipped += start - at
            at = start
            if at == len(data):
                break
            end = at + 7 + data[at + 2] if at + 2 < len(data) else len(data) + 1
            if end <= len(data) and binascii.crc_hqx(data[at + 2 : end - 2], 0xFFFF) == data[end - 2] | data[end - 1] << 8:
                self.frame(data[at + 3] | data[at + 4] << 8, data[at + 5 : end - 2])
                at = end
            else:
                self.skipped += 1
                at += 1
        self.out.write(
            f"# frames {self.frames} duplicates {self.duplicates} gaps {self.gaps} skipped {self.skipped}\n"
        )


def main():
    with open(sys.argv[1], "rb") as file:
        Decoder(sys.stdout).log(file.read())


main()
E
chmod 755 /app/decode
/app/decode /app/harbour.tide > /app/harbour.csv
