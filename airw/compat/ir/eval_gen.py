"""Cases that a model writes, which airw has not."""

from airw.compat._missing import missing

__getattr__ = missing(
    __name__, {"*": "write cases by hand, airw.evaluation.DiscoveryCase(query, gold), and keep them with save_cases"}
)
