"""Checks of installed packages, which airw leaves to pip."""

from typing import Final

from airw.compat._missing_names import explain_missing

__getattr__: Final = explain_missing(
    __name__, {"*": "pip checks versions; a missing package is reported by the function that needs it"}
)
