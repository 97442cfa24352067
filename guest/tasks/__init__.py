"""Task definitions and the task cache: load, digest, preflight."""
