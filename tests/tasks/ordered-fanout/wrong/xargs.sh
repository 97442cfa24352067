#!/bin/bash
# Wrong: xargs -P knows neither order nor retries.
set -euo pipefail
cat > /app/fanout <<'E'
#!/bin/bash
slots=$1
shift
exec xargs -d '\n' -n 1 -P "$slots" "$@"
E
chmod 755 /app/fanout
/app/fanout 2 /app/bin/census < /app/jobs.txt | sort -n > /app/result.txt
