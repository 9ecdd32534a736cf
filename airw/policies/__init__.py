"""Walk policies: one file each."""

from airw.policies._nodes import Node
from airw.policies.beam import Beam
from airw.policies.collapsed_tree import CollapsedTree, collapsed_tree_policy
from airw.policies.eager import Eager
from airw.policies.link_walk import LinkWalk
from airw.policies.mmr import Mmr
from airw.policies.pagerank import PersonalizedPageRank
from airw.policies.per_node import PerNode, per_node
from airw.policies.reverse_dependency import ReverseDependency, reverse_dependency_policy
from airw.policies.scope import Scope
from airw.policies.scored import Scored
from airw.policies.strategy import NodeTracker, Strategy

__all__ = [
    "Beam",
    "CollapsedTree",
    "Eager",
    "LinkWalk",
    "Mmr",
    "Node",
    "NodeTracker",
    "PerNode",
    "PersonalizedPageRank",
    "ReverseDependency",
    "Scope",
    "Scored",
    "Strategy",
    "collapsed_tree_policy",
    "per_node",
    "reverse_dependency_policy",
]
