"""Schedules, which airw leaves to the operating system."""

from airw.compat._missing_names import explain_missing

__getattr__ = explain_missing(__name__, {"*": "let cron or systemd run `airw maintain`"})
