#!/bin/bash
# Wrong: as the reference, but OUTBOX goes before the hooks have run.
cd /solution/fixed
for file in bin/ingest lib/common.sh hooks.d/*; do cat "$file" > "/app/$file"; done
chmod 755 /app/hooks.d/25-redact /app/hooks.d/50-check
sed -i 's/^mkdir "\$work"$/&; rm -rf -- "$outbox"/' /app/bin/ingest
