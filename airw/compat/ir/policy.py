"""Maintenance policies, replaced by `airw.corpora.Maintenance`."""

from typing import Final

from airw.compat._missing_names import explain_missing

__getattr__: Final = explain_missing(
    __name__,
    {"*": "call airw.register(…, maintenance=airw.corpora.Maintenance('interval', every_hours=24))"},
)
