"""What of a source is not indexed."""

from airw.compat._missing import missing

__getattr__ = missing(__name__, {"*": "write await airw.corpora.coverage(name), of any corpus"})
