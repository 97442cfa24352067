#!/bin/bash
set -eu
# Wrong on purpose.
mkdir -p /app/src
cp /solution/src/*.c /solution/src/*.h /app/src/
sed -i 's|    if (missing) {|    s->room = count + 1; s->value = malloc((count + 1) * 8); s->present = malloc(count + 1);\n    if (missing) {|; s|#include <string.h>|#include <stdlib.h>\n#include <string.h>|' /app/src/packed.c
gcc -std=c11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all -o /app/dpack /app/src/*.c
