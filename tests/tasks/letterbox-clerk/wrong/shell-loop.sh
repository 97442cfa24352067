#!/bin/bash
# Wrong: a shell loop that follows symbolic links, passes over hidden names and overwrites what was filed.
set -euo pipefail

chown clerk:senders /srv/office
chmod 0710 /srv/office
chown clerk:office /srv/office/inbox /srv/office/filed
chmod 3773 /srv/office/inbox
chmod 0700 /srv/office/filed
find /srv/office/inbox -mindepth 1 -maxdepth 1 -type f -exec chgrp office {} + -exec chmod 0640 {} +

cat > /app/bin/file-letters <<'E'
#!/bin/bash
if [ "$(id -u)" = 0 ]; then
  exec setpriv --reuid clerk --regid office --init-groups --inh-caps=-all "$0"
fi
umask 077
cd /srv/office/inbox || exit 1
for name in *; do
  [ -e "$name" ] || continue
  owner=$(stat -c %U -- "$name")
  if [ -f "$name" ] && [ -r "$name" ] && id -nG "$owner" | grep -qw senders; then
    mkdir -p "/srv/office/filed/$owner"
    cat -- "$name" > "/srv/office/filed/$owner/$name" && rm -f -- "$name"
  else
    printf 'refused %s\n' "$name"
  fi
done
exit 0
E
chmod 755 /app/bin/file-letters
