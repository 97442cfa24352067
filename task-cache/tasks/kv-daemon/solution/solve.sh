#!/bin/bash
set -euo pipefail
cp /solution/kvd.py /solution/start.sh /app/
chmod 755 /app/start.sh
/app/start.sh
exec 3<>/dev/tcp/127.0.0.1/7711
{
  printf 'SET greeting %d\n' "$(stat -c %s /app/greeting.bin)"
  cat /app/greeting.bin
  echo
} >&3
read -r answer <&3
echo "stored: $answer"
