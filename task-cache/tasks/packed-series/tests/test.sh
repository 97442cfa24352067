#!/bin/bash
# Runs the checks and leaves the verdict in /logs/verifier/reward.txt.
cd /tests || exit 1
mkdir -p /logs/verifier
chmod 700 /tests

env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
  python3 -I -m pytest -c /dev/null --rootdir=/tests --confcutdir=/tests -p no:cacheprovider \
  --ctrf=/logs/verifier/ctrf.json --maxfail=3 -rA /tests/test_outputs.py

if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
