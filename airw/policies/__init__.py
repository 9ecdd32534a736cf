"""Walk policies: one file each."""

from airw.policies.collapsed_tree import CollapsedTree, collapsed_tree_policy
from airw.policies.eager import Eager
from airw.policies.per_node import PerNode, per_node

__all__ = ["CollapsedTree", "Eager", "PerNode", "collapsed_tree_policy", "per_node"]
