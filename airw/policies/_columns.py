"""The checks that a policy can walk in columns, and over which stores it does."""

from typing import TypeGuard

from airw.links.columns import returns_columns
from airw.protocols import AdjacencyReader
from airw.walking import Policy

_METHODS = ("seed", "score", "select", "expand", "node_id", "edge_of", "to_hits")


def has_numbers(store: object) -> TypeGuard[AdjacencyReader]:
    """Return whether a store itself numbers its artifacts.

    The numbers of the start cost a call, which may take long if the store is behind an object that passes calls on.
    """
    return hasattr(type(store), "artifact_numbers") and returns_columns(store)


def speaks_columns(policy: object) -> bool:
    """Return whether all classes that define the methods of a policy know columns.

    A class says so by `speaks_columns = True`. A subclass that overrides a method without saying so is called with
    lists, as it was written for them.
    """
    definers = [next(kind for kind in type(policy).__mro__ if name in vars(kind)) for name in _METHODS]
    return all(kind is Policy or vars(kind).get("speaks_columns") is True for kind in definers)
