"""Random walks: a graph, a policy on it, and bounds."""

from dataclasses import dataclass
from random import Random

from airw.values import Limits

FORMS = ("list", "lazy", "iterator", "async iterator")


@dataclass(frozen=True)
class Case:
    """A graph, a policy on it, and the bounds of one walk."""

    number: int
    edges: list[list[int]]
    forms: list[str]  # in which form the policy returns the neighbours of each node
    scores: list[float]
    routers: frozenset[int]
    seeds: list[int]
    keeps: bool
    paths: bool
    choice: str
    drops: bool
    enough: int | None
    max_depth: int | None
    node_budget: int
    limits: Limits

    def choose(self, step, waiting):
        """Return the indexes to select and to drop, of waiting `(id, depth, score)`."""
        chance = Random(f"{self.number}/{step}")
        best = sorted(range(len(waiting)), key=lambda index: -waiting[index][2])
        some = chance.sample(best, chance.randint(0, len(best)))
        taken = {
            "all": best,
            "one": best[:1],
            "few": best[:3],
            "any": some or best[:1],
            "picky": some,
            "twice": [*some, *best[:2], *some],
            "ending": best[:2] if step < 3 else [],
        }[self.choice]
        return taken, chance.sample(best, chance.randint(0, len(best))) if self.drops else []


def case_of(number):
    """Return the random case with a number; bounds are often low, so that walks reach them."""
    chance = Random(number)
    nodes, degree = range(chance.choice([5, 8, 12, 16])), chance.choice([1, 2, 4, 6])
    edges = [chance.choices(nodes, k=chance.randint(0, degree)) for _ in nodes]
    limits = {
        "max_fanout": chance.choice([1_000] * 3 + [0, 1, 2, 3]),
        "max_edges": chance.choice([1_000] * 3 + [0, 3, 6, 9]),
        "max_frontier": chance.choice([1_000] * 3 + [1, 2, 4]),
        "max_hits": chance.choice([None] * 3 + [0, 1, 2, 4, 6]),
        "count_beyond_limits": chance.random() < 0.8,
    }
    return Case(
        number=number,
        edges=edges,
        forms=chance.choices(FORMS, k=len(nodes)) if chance.random() < 0.5 else ["list"] * len(nodes),
        scores=[chance.choice([0.0, 1.0, 2.0, 3.0]) for _ in nodes],
        routers=frozenset(chance.sample(nodes, chance.randint(0, 3))),
        seeds=chance.choices(nodes, k=chance.choice([0, 1, 1, 2, 3, 5])),
        keeps=chance.random() < 0.5,
        paths=chance.random() < 0.3,
        choice=chance.choice(["all", "all", "one", "few", "any", "picky", "twice", "ending"]),
        drops=chance.random() < 0.3,
        enough=chance.choice([None] * 3 + [1, 2, 4]),
        max_depth=chance.choice([None, None, 0, 1, 1, 2, 3]),
        node_budget=chance.choice([64, 64, 0, 1, 2, 3, 4, 6]),
        limits=Limits(**limits),
    )
