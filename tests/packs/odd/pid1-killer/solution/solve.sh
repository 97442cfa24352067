#!/bin/bash
# Signals from inside do not reach PID 1, so the kernel has to end it: PID 1 becomes the first to go, and memory runs out,
# in several processes of which none is as large as PID 1 now counts.
echo done > /app/answer
kill -KILL 1
kill -TERM 1
echo 1000 > /proc/1/oom_score_adj
for _ in 1 2 3 4 5 6; do tail /dev/zero & done
wait
