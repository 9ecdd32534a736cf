"""Cases written by a model, which airw does not have."""

from airw.compat._missing import missing

__getattr__ = missing(
    __name__, {"*": "write airw.evaluation.DiscoveryCase(query, gold) by hand and store them with save_cases"}
)
