#!/bin/bash
echo '{"reward": 0.5, "style": 0.25}' > /logs/verifier/reward.json
