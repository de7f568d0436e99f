"""Collect episodes and turn them into rows."""
