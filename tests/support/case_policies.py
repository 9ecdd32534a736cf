"""The policies of random walks, in lists and in columns, and all that a walk tells."""

from itertools import chain

import numpy as np

from airw.values import Edge, HitBatch, SearchHit
from airw.walking import Columns, Policy

TYPES = ("REF", "part-of", None)


def name_of(number):
    return f"n{number}"


def type_of(source, target):
    return TYPES[(source + 2 * target) % 3]


def edge_between(source, target):
    kind = type_of(source, target)
    return None if kind is None else Edge(name_of(source), name_of(target), kind)


class Listed(Policy):
    """The policy of a case, whose nodes are numbers with the edges to them."""

    def __init__(self, case):
        self.case, self.keeps_frontier, self.scores_paths = case, case.keeps, case.paths

    def begin(self, state):
        return {"step": -1}

    async def seed(self, state, store):
        return [(number, None) for number in self.case.seeds]

    async def score(self, state, nodes, store):
        return [self.case.scores[number] for number, _ in nodes]

    def select(self, state, frontier):
        state.memory["step"] += 1
        live = frontier.live.tolist()
        waiting = [(number, frontier.depths[at], float(frontier.scores[at])) for at, number in self.numbers(frontier)]
        taken, dropped = self.case.choose(state.memory["step"], waiting)
        frontier.drop(live[index] for index in dropped)
        return [live[index] for index in taken]

    def numbers(self, frontier):
        return [(at, frontier.nodes[at][0]) for at in frontier.live.tolist()]

    async def expand(self, state, committed, store):
        return [
            [(end, edge_between(entry.node[0], end)) for end in self.case.edges[entry.node[0]]] for entry in committed
        ]

    def node_id(self, node):
        return name_of(node[0])

    def edge_of(self, node):
        return node[1]

    def stop(self, state):
        assert {hit.artifact_id for hit in state.results} <= state.visited
        return self.case.enough is not None and len(state.results) >= self.case.enough

    async def to_hits(self, state, committed, store):
        assert {entry.id for entry in committed} <= state.visited
        return [
            None
            if entry.node[0] in self.case.routers
            else SearchHit(entry.id, "node", entry.score, f"text of {entry.id}")
            for entry in committed
        ]


class InColumns(Listed):
    """The same policy in columns."""

    async def seed(self, state, store):
        return np.array(self.case.seeds, np.int32)

    async def score(self, state, nodes, store):
        assert None not in {state.depth_of(id) for id in state.visited}
        return np.array(self.case.scores)[nodes]

    def numbers(self, frontier):
        return zip(frontier.live.tolist(), frontier.nodes[frontier.live].tolist(), strict=True)

    async def expand(self, state, committed, store):
        lists = [self.case.edges[number] for number in committed.nodes.tolist()]
        ends = list(chain.from_iterable(lists))
        sources = np.repeat(committed.nodes, [len(each) for each in lists]).tolist()

        def edges(positions):
            return [edge_between(sources[at], ends[at]) for at in positions.tolist()]

        async def edge_types(positions):
            return [type_of(sources[at], ends[at]) for at in positions.tolist()]

        offsets = np.cumsum([0, *map(len, lists)])
        return Columns(np.array(ends, np.int64), offsets, edges, edge_types if self.case.number % 2 else None)

    async def name_nodes(self, state, numbers, store):
        return [name_of(number) for number in numbers.tolist()]

    async def to_hits(self, state, committed, store):
        ids = [None if number in self.case.routers else name_of(number) for number in committed.nodes.tolist()]
        return HitBatch(ids, "node", committed.scores, [f"text of {id}" for id in committed.ids])


def bounds_of(case):
    return {"max_depth": case.max_depth, "node_budget": case.node_budget, "limits": case.limits}


def outcome_of(walk, hits):
    summary = walk.summary.to_dict()
    del summary["seconds"]
    ranking = walk.ranking and [hit.artifact_id for hit in walk.ranking]
    return [hit.to_dict() for hit in hits], summary, [walk.path(hit) for hit in hits], ranking
