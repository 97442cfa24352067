"""Benches: what a command costs, measured over several runs and compared with a target or a peer; never a test."""
