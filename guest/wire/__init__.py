"""Closed records and content digests: pure functions, no I/O."""
