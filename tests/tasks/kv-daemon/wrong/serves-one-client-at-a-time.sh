#!/bin/bash
# Wrong: the next client has to wait until the one before it has gone.
cp /solution/kvd.py /solution/start.sh /app/
chmod 755 /app/start.sh
python3 - <<'PY'
from pathlib import Path

path = Path("/app/kvd.py")
text = path.read_text()
text = text.replace(
    '    server = await asyncio.start_server(serve,',
    '    turn = asyncio.Lock()\n\n    async def one_by_one(reader, writer):\n        async with turn:\n            await serve(reader, writer)\n\n    server = await asyncio.start_server(one_by_one,',
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
