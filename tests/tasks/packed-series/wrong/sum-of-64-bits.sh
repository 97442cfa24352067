#!/bin/bash
set -eu
# Wrong on purpose.
mkdir -p /app/src
cp /solution/src/*.c /solution/src/*.h /app/src/
sed -i 's|^__extension__ typedef __int128 wide;|typedef int64_t wide;|; s|sum += s->value\[i\];|sum = (wide)((uint64_t)sum + (uint64_t)s->value[i]);|' /app/src/main.c
gcc -std=c11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all -o /app/dpack /app/src/*.c
