"""Checks of what is installed, which airw leaves to pip."""

from airw.compat._missing import missing

__getattr__ = missing(__name__, {"*": "pip sees to the versions; what is missing is told where it is needed"})
