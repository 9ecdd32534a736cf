"""Schedules, which airw leaves to the operating system."""

from airw.compat._missing import missing

__getattr__ = missing(__name__, {"*": "let cron or systemd run `airw maintain`"})
