#!/bin/bash
# Wrong: the key of -Q, which a search that compares x coordinates alone ends with as often as not.
echo 16345712575966618 > /app/key.txt
