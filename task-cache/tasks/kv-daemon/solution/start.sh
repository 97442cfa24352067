#!/bin/bash
up() { (exec 3<>/dev/tcp/127.0.0.1/7711) 2>/dev/null; }

exec 9>/app/start.lock
flock 9
up && exit 0
mkdir -p /app/state
setsid python3 /app/kvd.py /app/state </dev/null >>/app/kvd.log 2>&1 9>&- &
for _ in {1..90}; do
  up && exit 0
  sleep 0.05
done
exit 1
