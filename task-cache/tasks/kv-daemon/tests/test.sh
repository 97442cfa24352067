#!/bin/bash
# Isolated Python and no configuration but our own: nothing the agent left on the paths takes part in the checks.
python3 -I -m pytest -c /dev/null --rootdir=/tests -p no:cacheprovider -rA /tests/test_outputs.py

if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
