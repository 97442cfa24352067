"""Submitted agents: their archive, the channel, the host they run in."""
