#!/bin/bash
[ -s /app/routes ] && [ -n "$(tail -n +2 /proc/net/route)" ]
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
