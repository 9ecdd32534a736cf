"""The command line of `ir`, replaced by the command `airw`."""

from typing import Final

from airw.compat._missing_names import explain_missing

__getattr__: Final = explain_missing(__name__, {"*": "use the command `airw`, see airw --help"})
