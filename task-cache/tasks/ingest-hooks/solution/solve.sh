#!/bin/bash
set -euo pipefail
cd /solution/fixed
# Contents only: the modes that the files in /app have are right but for two.
for file in bin/ingest lib/common.sh hooks.d/*; do cat "$file" > "/app/$file"; done
chmod 755 /app/hooks.d/25-redact /app/hooks.d/50-check
/app/bin/ingest /app/samples/inbox /tmp/trial-run
cat /tmp/trial-run/INDEX.tsv
rm -rf /tmp/trial-run
