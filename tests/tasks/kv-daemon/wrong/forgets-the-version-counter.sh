#!/bin/bash
# Wrong: after a restart versions go on from the number of keys.
cp /solution/kvd.py /solution/start.sh /app/
chmod 755 /app/start.sh
python3 - <<'PY'
from pathlib import Path

path = Path("/app/kvd.py")
text = path.read_text()
text = text.replace(
    '        os.ftruncate(self.file, at)',
    '        self.version = len(self.values)\n        os.ftruncate(self.file, at)',
)
path.write_text(text)
PY
/app/start.sh
exec 3<>/dev/tcp/127.0.0.1/7711
{
  printf 'SET greeting %d\n' "$(stat -c %s /app/greeting.bin)"
  cat /app/greeting.bin
  echo
} >&3
read -r answer <&3
