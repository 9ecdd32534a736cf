"""Pairs of parameters of which a quick run takes those with something new."""

import pytest


def mark_repeats(params):
    """Return the parameters of tests; those whose values all occurred before are slow.

    In a quick run each value still occurs at least once.
    """
    seen, marked = set(), []
    for param in params:
        places = {(position, id(value)) for position, value in enumerate(param.values)}
        is_repeated = places <= seen
        seen |= places
        marked.append(pytest.param(*param.values, id=param.id, marks=[pytest.mark.slow] * is_repeated))
    return marked
