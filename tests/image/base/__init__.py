"""Tests of the base image."""
