#!/bin/bash
# Wrong: makes all of hooks.d executable, the purge with it.
cd /solution/fixed
for file in bin/ingest lib/common.sh hooks.d/*; do cat "$file" > "/app/$file"; done
chmod 755 /app/hooks.d/*
