#!/bin/bash
# Wrong: does the redacting within 10-normalise, so records that differ only in their tokens are taken for equal.
cd /solution/fixed
for file in bin/ingest lib/common.sh hooks.d/*; do cat "$file" > "/app/$file"; done
cd /app/hooks.d
cat 25-redact > 26-real && sed 's/python3/env python3/' 10-normalise > normalise.py
cat > 10-normalise <<'E'
#!/bin/bash
python3 "${0%/*}/normalise.py" "$1" && bash "${0%/*}/redact.sh" "$1"
E
mv 26-real redact.sh
printf '#!/bin/bash\n:\n' > 25-redact
chmod 755 25-redact 50-check
