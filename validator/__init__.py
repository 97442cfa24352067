"""The other side of the guest: quote policy, key release, admission and audit."""
