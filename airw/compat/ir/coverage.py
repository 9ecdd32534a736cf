"""Coverage reports, replaced by `airw.corpora.coverage`."""

from airw.compat._missing import missing

__getattr__ = missing(__name__, {"*": "call await airw.corpora.coverage(name), for any corpus"})
