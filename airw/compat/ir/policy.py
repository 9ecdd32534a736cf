"""When corpora are built again."""

from airw.compat._missing import missing

__getattr__ = missing(
    __name__,
    {"*": "write airw.corpora.Maintenance('interval', every_hours=24), and register(…, maintenance=…) of airw"},
)
