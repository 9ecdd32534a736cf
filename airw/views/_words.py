"""Names and counts as the formats write them, each on one line whatever they hold."""

import re
from collections.abc import Collection, Mapping

from airw.values import NodeId

__all__ = ["counted", "id_text", "one_line"]

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What ends a line, drives a terminal, turns the direction of the rest of a line, or is no character."""


def one_line(text: str) -> str:
    r"""Write what cannot be printed as Python would.

    Example:
        >>> print(one_line("a\nb\x1b[2J"))
        a\nb\x1b[2J
    """
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def id_text(id: NodeId) -> str:
    """Give an id as one line, of several corpora as `source/id`."""
    return one_line(id if isinstance(id, str) else "/".join(id))


def counted(left_out: Mapping[str, int], at_least: Collection[str], unknown: Collection[str]) -> list[tuple[str, str]]:
    """Give what was left out by limit, in order of its name, with `3`, `3+` for at least 3, or `?`.

    Example:
        >>> counted({"max_nodes": 1, "max_hops": 3}, ["max_nodes"], ["timeout"])
        [('max_hops', '3'), ('max_nodes', '1+'), ('timeout', '?')]
    """
    names = sorted({*left_out, *at_least, *unknown})
    return [(name, f"{left_out[name]}{'+' * (name in at_least)}" if name in left_out else "?") for name in names]
