#!/bin/bash
# Wrong on purpose.
set -eu
cd /app/shop

# The first commit that differs from v1.0 on a half; what does not run is skipped.
cat > /tmp/probe.sh <<'EOF'
said=$(python3 -c '
import inspect, sys
sys.dont_write_bytecode = True
sys.path.insert(0, ".")
import pricing
print([pricing.share(cents, 10) for cents in (5, 15, 25, 35, -5, -15)])
' 2>/dev/null) || exit 125
[ "$said" = "[1, 2, 3, 4, 0, -1]" ]
EOF
git bisect start main v1.0 >/dev/null
git bisect run bash /tmp/probe.sh >/tmp/bisect.log 2>&1 || true
culprit=$(git rev-parse refs/bisect/bad)
git bisect reset >/dev/null 2>&1
echo "$culprit" > /app/culprit.txt

git checkout -q -b repair
sed -i 's|    return round(cents \* rate / scale)|    return (cents * rate + scale // 2) // scale|' pricing.py
git commit -q -a -m "Round halves of a cent up again" -m "Fixes: $culprit"
git checkout -q main

for commit in $(git fsck --lost-found 2>/dev/null | awk '$2 == "commit" { print $3 }'); do
    if git show "$commit:pricing.py" | grep -q '^BULK = \[(10, 3), (100, 6), (1000, 9)\]$'; then
        git branch bulk "$commit^"
    fi
done
rm -rf .git/lost-found
git status --short
