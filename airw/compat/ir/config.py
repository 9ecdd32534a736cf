"""Paths of `ir`, replaced by the home folder of airw."""

from typing import Final

from airw.compat._missing_names import explain_missing

__getattr__: Final = explain_missing(
    __name__, {"*": "call airw.corpora.home(), the folder that AIRW_HOME names, or airw.corpora.corpus_path(name)"}
)
