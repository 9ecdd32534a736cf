"""The policy of random walks, and all that a walk tells."""

from airw.values import Edge, SearchHit
from airw.walking import Policy

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


def bounds_of(case):
    return {"max_depth": case.max_depth, "node_budget": case.node_budget, "limits": case.limits}


def outcome_of(walk, hits):
    summary = walk.summary.to_dict()
    del summary["seconds"]
    ranking = walk.ranking and [hit.artifact_id for hit in walk.ranking]
    return [hit.to_dict() for hit in hits], summary, [walk.path(hit) for hit in hits], ranking
