"""Maintenance policies, replaced by `airw.corpora.Maintenance`."""

from airw.compat._missing_names import explain_missing

__getattr__ = explain_missing(
    __name__,
    {"*": "call airw.register(…, maintenance=airw.corpora.Maintenance('interval', every_hours=24))"},
)
