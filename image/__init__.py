"""Reproducible root filesystems and images, and the package locks they are built from."""
