#!/bin/bash
# Wrong: repairs the directories but not the letters that lie there already.
set -euo pipefail

chown clerk:senders /srv/office
chmod 0710 /srv/office
chown clerk:office /srv/office/inbox /srv/office/filed
chmod 3773 /srv/office/inbox
chmod 0700 /srv/office/filed

cat > /app/bin/file-letters <<'E'
#!/usr/bin/python3 -I
"""Files the letters of the inbox, with the clerk's rights."""

import grp
import os
import pwd
import stat

INBOX = b"/srv/office/inbox"
FILED = b"/srv/office/filed"


def become_clerk():
    clerk = pwd.getpwnam("clerk")
    os.initgroups("clerk", clerk.pw_gid)
    os.setresgid(clerk.pw_gid, clerk.pw_gid, clerk.pw_gid)
    os.setresuid(clerk.pw_uid, clerk.pw_uid, clerk.pw_uid)
    os.umask(0o077)


def sender_of(info, senders):
    """The user name of the sender, or None if the entry is no letter."""
    if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
        return None
    try:
        user = pwd.getpwuid(info.st_uid)
    except KeyError:
        return None
    return user.pw_name if senders in os.getgrouplist(user.pw_name, user.pw_gid) else None


def place(data_fd, directory, name):
    """Copies into a scratch file and links it under the first free name; link never overwrites."""
    os.makedirs(directory, exist_ok=True)
    scratch = os.path.join(FILED, b".incoming")
    with open(data_fd, "rb", closefd=False) as source, open(scratch, "wb") as target:
        while block := source.read(1 << 20):
            target.write(block)
    number = 0
    while True:
        try:
            os.link(scratch, os.path.join(directory, name + (b".%d" % number if number else b"")))
            break
        except FileExistsError:
            number += 1
    os.unlink(scratch)


def main():
    become_clerk()
    senders = grp.getgrnam("senders").gr_gid
    for name in sorted(os.listdir(INBOX)):
        path = os.path.join(INBOX, name)
        owner = None
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            fd = None
        if fd is not None:
            owner = sender_of(os.fstat(fd), senders)
            if owner is not None:
                place(fd, os.path.join(FILED, owner.encode()), name)
                os.unlink(path)
            os.close(fd)
        if owner is None:
            os.write(1, b"refused " + name + b"\n")


main()
E
chmod 755 /app/bin/file-letters
