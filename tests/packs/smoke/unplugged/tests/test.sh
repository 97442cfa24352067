#!/bin/bash
[ -e /app/routes ] && [ ! -s /app/routes ] && [ -z "$(tail -n +2 /proc/net/route)" ] \
  && python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); socket.create_connection(s.getsockname())'
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
