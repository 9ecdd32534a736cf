"""Maintenance policies, replaced by `airw.corpora.Maintenance`."""

from airw.compat._missing import missing

__getattr__ = missing(
    __name__,
    {"*": "call airw.register(…, maintenance=airw.corpora.Maintenance('interval', every_hours=24))"},
)
