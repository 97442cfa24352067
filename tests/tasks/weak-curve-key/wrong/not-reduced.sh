#!/bin/bash
# Wrong: a multiple that is right on the curve but not reduced by the order.
echo 289035474217410688 > /app/key.txt
