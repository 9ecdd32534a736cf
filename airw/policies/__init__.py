"""Walk policies, one per file."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.policies._per_node import PerNode, per_node
    from airw.policies.admitting_policy import Node
    from airw.policies.beam import Beam
    from airw.policies.collapsed_tree import CollapsedTree
    from airw.policies.default import default_policy
    from airw.policies.eager import Eager
    from airw.policies.link_walk import LinkWalk
    from airw.policies.mmr import Mmr
    from airw.policies.pagerank import PersonalizedPageRank
    from airw.policies.path_coverage import PathCoverage
    from airw.policies.reverse_dependency import ReverseDependency
    from airw.policies.scope import Scope
    from airw.policies.scored import NodePath, Scored
    from airw.policies.strategy import NodeTracker, Strategy
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "admitting_policy": ["Node"],
            "beam": ["Beam"],
            "collapsed_tree": ["CollapsedTree"],
            "default": ["default_policy"],
            "eager": ["Eager"],
            "link_walk": ["LinkWalk"],
            "mmr": ["Mmr"],
            "pagerank": ["PersonalizedPageRank"],
            "path_coverage": ["PathCoverage"],
            "_per_node": ["PerNode", "per_node"],
            "reverse_dependency": ["ReverseDependency"],
            "scope": ["Scope"],
            "scored": ["NodePath", "Scored"],
            "strategy": ["NodeTracker", "Strategy"],
        },
    )

__all__ = [
    "Beam",
    "CollapsedTree",
    "Eager",
    "LinkWalk",
    "Mmr",
    "Node",
    "NodePath",
    "NodeTracker",
    "PathCoverage",
    "PerNode",
    "PersonalizedPageRank",
    "ReverseDependency",
    "Scope",
    "Scored",
    "Strategy",
    "default_policy",
    "per_node",
]
