"""Helpers that every package may import; private to `airw`."""
