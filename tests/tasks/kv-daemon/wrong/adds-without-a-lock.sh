#!/bin/bash
# Wrong: between reading and writing a sum others get their turn.
cp /solution/kvd.py /solution/start.sh /app/
chmod 755 /app/start.sh
python3 - <<'PY'
from pathlib import Path

path = Path("/app/kvd.py")
text = path.read_text()
text = text.replace(
    '    return answer(store, words, value)\n',
    "    if words[0] == b'ADD' and len(words) == 3:\n        held = store.values.get(words[1], (0, b'0'))\n        await asyncio.sleep(0.001)\n        if words[1] in store.values:\n            store.values[words[1]] = held\n    return answer(store, words, value)\n",
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
