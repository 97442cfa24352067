#!/bin/bash
# Wrong: baby steps and giant steps with a table that fits, as if the key were small.
cat > /tmp/small.py <<'E'
import json
c = json.load(open("/app/curve.json"))
p, a, n, g, q = c["p"], c["a"], c["n"], tuple(c["G"]), tuple(c["Q"])


def add(u, v):
    if u is None or v is None:
        return v if u is None else u
    if u[0] == v[0] and (u[1] + v[1]) % p == 0:
        return None
    s = (3 * u[0] ** 2 + a) * pow(2 * u[1], -1, p) if u == v else (v[1] - u[1]) * pow(v[0] - u[0], -1, p)
    x = (s * s - u[0] - v[0]) % p
    return x, (s * (u[0] - x) - u[1]) % p


table, point, size = {}, None, 1 << 15
for i in range(size):
    table[point] = i
    point = add(point, g)
step, found = (point[0], -point[1] % p), 0
for j in range(size):
    if q in table:
        found = j * size + table[q]
        break
    q = add(q, step)
print(found)
E
python3 /tmp/small.py > /app/key.txt
