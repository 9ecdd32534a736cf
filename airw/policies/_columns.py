"""The check that a policy can walk in columns."""

from airw.walking import Policy, WalkPolicy

_METHODS = ("seed", "score", "select", "expand", "node_id", "edge_of", "to_hits")


def speaks_columns(policy: WalkPolicy) -> bool:
    """Return whether all classes that define the methods of a policy know columns.

    A class says so by `speaks_columns = True`. A subclass that overrides a method without saying so is called with
    lists, as it was written for them.
    """
    definers = [next(kind for kind in type(policy).__mro__ if name in vars(kind)) for name in _METHODS]
    return all(kind is Policy or vars(kind).get("speaks_columns") is True for kind in definers)
