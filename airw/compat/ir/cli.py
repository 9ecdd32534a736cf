"""The command line, which is `airw`."""

from airw.compat._missing import missing

__getattr__ = missing(__name__, {"*": "the commands are those of `airw`: see airw --help"})
