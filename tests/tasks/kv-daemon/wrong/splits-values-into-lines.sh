#!/bin/bash
# Wrong: reads a value as if it were a line.
cp /solution/kvd.py /solution/start.sh /app/
chmod 755 /app/start.sh
python3 - <<'PY'
from pathlib import Path

path = Path("/app/kvd.py")
text = path.read_text()
text = text.replace(
    'value = await reader.readexactly(int(words[-1]))',
    'value = (await reader.readline())[:-1]',
)
text = text.replace(
    'if await reader.readexactly(1) != b"\\n":',
    'if len(value) != int(words[-1]):',
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
