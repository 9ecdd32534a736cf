"""Cases written by a model, which airw does not have."""

from airw.compat._missing_names import explain_missing

__getattr__ = explain_missing(
    __name__, {"*": "write airw.evaluation.DiscoveryCase(query, gold) by hand and store them with save_cases"}
)
