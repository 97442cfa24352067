#!/bin/bash
# Wrong: the journal goes to /dev/null.
cp /solution/kvd.py /solution/start.sh /app/
chmod 755 /app/start.sh
python3 - <<'PY'
from pathlib import Path

path = Path("/app/kvd.py")
text = path.read_text()
text = text.replace(
    'self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)',
    "self.file = os.open('/dev/null', os.O_RDWR)",
)
text = text.replace(
    'data = path.read_bytes()',
    "data = b''",
)
text = text.replace(
    '        os.ftruncate(self.file, at)  # what a death cut off was never answered\n',
    '',
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
