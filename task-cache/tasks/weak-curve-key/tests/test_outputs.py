"""Multiplies the generator by the key that was found; the curve is written here again, not read from the machine."""

import re
from pathlib import Path

P = 152690594034910643
A = 18339529318648546
B = 19697786357500556
N = 152690593396688653
G = (142683964564366649, 48364235529094450)
Q = (76121785232842628, 113491136345206410)


def add(left, right):
    """The sum on the curve; None is the point at infinity."""
    if left is None or right is None:
        return right if left is None else left
    (x1, y1), (x2, y2) = left, right
    if x1 == x2 and (y1 + y2) % P == 0:
        return None
    if left == right:
        slope = (3 * x1 * x1 + A) * pow(2 * y1, -1, P) % P
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, P) % P
    x = (slope * slope - x1 - x2) % P
    return x, (slope * (x1 - x) - y1) % P


def multiply(k, point):
    result = None
    while k:
        if k & 1:
            result = add(result, point)
        point = add(point, point)
        k >>= 1
    return result


def test_curve_is_sound():
    for x, y in (G, Q):
        assert (y * y - x**3 - A * x - B) % P == 0
    assert multiply(N, G) is None
    assert multiply(N, Q) is None


def test_key():
    with Path("/app/key.txt").open("rb") as file:
        text = file.read(64)
    assert re.fullmatch(rb"[0-9]{1,20}\n?", text), text
    key = int(text)
    assert 1 <= key < N
    assert multiply(key, G) == Q
