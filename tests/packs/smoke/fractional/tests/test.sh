#!/bin/bash
# The limits as the container sees them, cgroup v2 or v1.
cd /sys/fs/cgroup || exit 1
if [ -e cgroup.controllers ]; then
  read -r quota period < cpu.max
  memory=$(cat memory.max)
else
  quota=$(cat cpu/cpu.cfs_quota_us) period=$(cat cpu/cpu.cfs_period_us) memory=$(cat memory/memory.limit_in_bytes)
fi
[ "$(cat /app/answer)" = done ] && [ $((quota * 2)) = "$period" ] && [ "$memory" = $((512 << 20)) ]
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
