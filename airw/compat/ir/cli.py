"""The command line of `ir`, replaced by the command `airw`."""

from airw.compat._missing import missing

__getattr__ = missing(__name__, {"*": "use the command `airw`, see airw --help"})
