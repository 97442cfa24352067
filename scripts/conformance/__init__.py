"""Runs published test vectors of the wire against this implementation."""
