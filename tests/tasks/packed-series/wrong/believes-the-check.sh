#!/bin/bash
set -eu
# Wrong on purpose.
mkdir -p /app/src
cp /solution/src/*.c /solution/src/*.h /app/src/
# Damage is found by the check alone; that there is one file for a series is forgotten.
sed -i 's|    return same ? NULL : .*|    uint32_t crc = crc32_of(packed->data, packed->used - 4); bool right = true; (void)same;\n    for (int i = 0; i < 4; i++) right = right \&\& packed->data[packed->used - 4 + i] == (unsigned char)(crc >> 8 * i);\n    return right ? NULL : "damaged";|' /app/src/packed.c
gcc -std=c11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all -o /app/dpack /app/src/*.c
