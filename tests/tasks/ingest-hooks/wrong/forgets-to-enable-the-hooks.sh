#!/bin/bash
# Wrong: repairs every script, but 25-redact and 50-check never become executable.
cd /solution/fixed
for file in bin/ingest lib/common.sh hooks.d/*; do cat "$file" > "/app/$file"; done
