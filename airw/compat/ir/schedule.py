"""Schedules, which airw leaves to the operating system."""

from typing import Final

from airw.compat._missing_names import explain_missing

__getattr__: Final = explain_missing(__name__, {"*": "let cron or systemd run `airw maintain`"})
