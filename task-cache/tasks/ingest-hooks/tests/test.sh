#!/bin/bash
# The pipeline runs as nobody: what it is compared with stays out of its sight.
chmod 700 /tests /logs/verifier
python3 -I -m pytest -c /dev/null --rootdir=/tests -p no:cacheprovider -rA /tests/test_outputs.py

if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
