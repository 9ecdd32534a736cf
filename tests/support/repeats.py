"""Parameters of which a quick run takes those with something new."""

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


def share_cases(first, second):
    """Return the parameters of two suites, whose cases are slow in one of them, in turn.

    Cases that only one suite takes are not slow there. Cases that differ little stand side by side. So a quick run has
    some of them in each suite.
    """
    common = [case for case in first.cases if case in second.cases]

    def params_of(suite, left):
        return [pytest.param(case, id=str(case), marks=[pytest.mark.slow] * (case in left)) for case in suite.cases]

    return params_of(first, common[1::2]), params_of(second, common[::2])
