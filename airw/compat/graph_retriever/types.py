"""Nodes."""

from airw.policies import Node as Node
