#!/bin/bash
seen() { grep -qxF "$1" <<< "$2"; }
unseen() { ! grep -q "^$1=" <<< "$2"; }
agent=$(cat /app/answer)
own=$(env)
seen "IN_ENVIRONMENT=environment=value" "$agent" && seen "IN_ENVIRONMENT=environment=value" "$own" \
  && seen "IN_AGENT=agent value" "$agent" && unseen IN_AGENT "$own" \
  && seen "IN_SOLUTION=solution value" "$agent" && unseen IN_SOLUTION "$own" \
  && seen 'IN_VERIFIER=verifier $value' "$own" && unseen IN_VERIFIER "$agent" \
  && seen COMMON=agent "$agent" && seen COMMON=verifier "$own" \
  && seen PWD=/app "$own"
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
