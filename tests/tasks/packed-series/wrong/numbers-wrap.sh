#!/bin/bash
set -eu
# Wrong on purpose.
mkdir -p /app/src
cp /solution/src/*.c /solution/src/*.h /app/src/
sed -i 's|        if (n > (limit - digit) / 10)|        if (n > UINT64_MAX / 10)|; s|    limit += negative;|    (void)limit;|' /app/src/text.c
gcc -std=c11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all -o /app/dpack /app/src/*.c
