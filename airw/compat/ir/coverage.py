"""Coverage reports, replaced by `airw.corpora.coverage`."""

from typing import Final

from airw.compat._missing_names import explain_missing

__getattr__: Final = explain_missing(__name__, {"*": "call await airw.corpora.coverage(name), for any corpus"})
