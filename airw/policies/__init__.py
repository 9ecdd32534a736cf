"""Walk policies, one per file."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.policies._per_node import PerNode as PerNode, per_node as per_node
    from airw.policies.admitting_policy import Node as Node, NodePath as NodePath, NodeTracker as NodeTracker
    from airw.policies.beam import Beam as Beam
    from airw.policies.collapsed_tree import CollapsedTree as CollapsedTree
    from airw.policies.link_walk import LinkWalk as LinkWalk
    from airw.policies.pagerank import PersonalizedPageRank as PersonalizedPageRank
    from airw.policies.path_coverage import PathCoverage as PathCoverage, default_policy as default_policy
    from airw.policies.reverse_dependency import ReverseDependency as ReverseDependency
    from airw.policies.scope import Scope as Scope
    from airw.policies.strategies import (
        Eager as Eager,
        Mmr as Mmr,
        Scored as Scored,
        Strategy as Strategy,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
