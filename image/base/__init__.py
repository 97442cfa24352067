"""The Debian root filesystem that task images of ours start from: its lock, its build, its way into an engine."""
