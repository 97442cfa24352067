"""Attacks on the runner, one a test: how each ends, and that nothing of it is left."""
