"""The Debian root filesystem that task images of ours start from: its lock, its build, and getting it into an engine."""
