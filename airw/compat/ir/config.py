"""Where things are kept: in the home folder of airw."""

from airw.compat._missing import missing

__getattr__ = missing(
    __name__, {"*": "write airw.corpora.home(), the folder that AIRW_HOME names, and corpus_path(name)"}
)
