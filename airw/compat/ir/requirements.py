"""Checks of installed packages, which airw leaves to pip."""

from airw.compat._missing import missing

__getattr__ = missing(
    __name__, {"*": "pip checks versions; a missing package is reported by the function that needs it"}
)
