"""Personalised PageRank by a linear solve, and small graphs to test it on."""

import numpy as np
from hypothesis import strategies as st

CLOSE = 1e-10  # maximum difference between a linear solve and a complete walk
RESTARTS = st.sampled_from([0.02, 0.15, 0.3, 0.5, 0.9])


@st.composite
def graphs(draw, *, size=9, loops=True):
    """Draw small graphs with dangling nodes; names are not in the order of discovery."""
    count = draw(st.integers(1, size))
    nodes = [f"n{at}" for at in range(count)]
    ends = st.lists(st.sampled_from(nodes), unique=True, max_size=4)
    graph = {node: draw(ends) for node in nodes}
    return graph if loops else {node: [end for end in ends if end != node] for node, ends in graph.items()}


def transitions(graph, seeds):
    """Return the transition matrix `(n, n)` and start vector `(n,)` in the graph's order."""
    places = {node: at for at, node in enumerate(graph)}
    start = np.zeros(len(graph))
    for node, mass in seeds.items():
        start[places[node]] = mass / sum(seeds.values())
    moves = np.zeros((len(graph), len(graph)))
    for node, ends in graph.items():
        for end in ends:
            moves[places[node], places[end]] = 1 / len(ends)
        if not ends:
            moves[places[node]] = start
    return moves, start


def exact_from_each(graph, seeds, restart):
    """Return the values of all nodes (columns) for a walker that starts at each node (rows).

    The walker does not restart at the seeds.
    """
    moves, _ = transitions(graph, seeds)
    return restart * np.linalg.inv(np.eye(len(graph)) - (1 - restart) * moves)


def exact(graph, seeds, restart):
    """Return the value of each node, by a linear solve."""
    values = transitions(graph, seeds)[1] @ exact_from_each(graph, seeds, restart)
    return dict(zip(graph, values.tolist(), strict=True))
