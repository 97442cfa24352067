#!/bin/bash
set -eu
mkdir -p /app/src
cp /solution/src/*.c /solution/src/*.h /app/src/
gcc -std=c11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all -o /app/dpack /app/src/*.c
