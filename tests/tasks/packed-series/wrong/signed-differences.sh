#!/bin/bash
set -eu
# Wrong on purpose.
mkdir -p /app/src
cp /solution/src/*.c /solution/src/*.h /app/src/
sed -i 's|zigzag((uint64_t)s->value\[i\] - before)|zigzag((uint64_t)(s->value[i] - (int64_t)before))|' /app/src/packed.c
gcc -std=c11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all -o /app/dpack /app/src/*.c
