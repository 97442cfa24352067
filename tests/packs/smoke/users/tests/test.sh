#!/bin/bash
[ "$(cat /app/answer)" = worker ] && [ "$(stat -c %U /app/answer)" = worker ] && [ "$(id -un)" = judge ] && ! touch /app/mine 2> /dev/null
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
