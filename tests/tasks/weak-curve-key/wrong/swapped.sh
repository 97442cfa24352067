#!/bin/bash
# Wrong: the k with kQ = G, the two points taken the wrong way round.
echo 131121815198937565 > /app/key.txt
