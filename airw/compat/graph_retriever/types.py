"""The node of a result."""

from airw.policies import Node as Node
