"""Schedules of the system, which airw leaves to it."""

from airw.compat._missing import missing

__getattr__ = missing(__name__, {"*": "have cron or systemd call `airw maintain`"})
