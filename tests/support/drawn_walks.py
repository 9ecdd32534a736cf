"""Walks drawn at random."""

import re
from dataclasses import dataclass

from airw import Corpus, Limits, traverse
from airw.embedders import HashingEmbedder
from airw.links import INVERSES
from airw.policies import (
    Beam,
    CollapsedTree,
    Eager,
    LinkWalk,
    Mmr,
    PathCoverage,
    PersonalizedPageRank,
    ReverseDependency,
    Scope,
    Scored,
    Strategy,
)
from airw.testing.changes import put
from airw.values import Link

SCOPES = [Scope(), Scope(), Scope(keep={"c": 0}), Scope(cross={"c": {"$ne": 1}}), Scope(start={"c": 1})]
EMBEDDER = HashingEmbedder(dim=8)


@dataclass(kw_only=True)
class NearestTwo(Strategy):
    def iteration(self, nodes, tracker):
        tracker.select_and_traverse(sorted(nodes, key=lambda node: -node.similarity_score)[:2])


def rate(node):
    return node.depth + len(node.content) % 3


def rate_paths(paths):
    return [min(node.similarity_score for node in path.nodes) for path in paths]


def draw_changes(draw):
    count = draw.randint(2, 20)
    names = [f"n{number}" for number in range(count)]
    # The last two do not exist, and some artifacts have no surface.
    ends = [*names, "m", "o"]
    return [
        put(
            name,
            *(" ".join(draw.choices(names, k=4)) for _ in range(draw.choice([0, 1, 1, 1, 2]))),
            kinds=("description", "chunk"),
            metadata={"c": number % 3, "value": number % 4 * 25},
            links=[
                *(Link(end, draw.choice("ab"), weight=draw.choice([1, 0.5])) for end in draw.choices(ends, k=3)),
                *([Link("n1", "a", target_source="else")] if draw.random() < 0.2 else []),
            ],
            dim=8,
        )
        for number, name in enumerate(names)
    ]


def draw_policy(draw):
    choose = draw.choice
    shared = {"scope": choose(SCOPES), "max_depth": choose([None, 1, 3])}
    links = {"direction": choose(["out", "in", "both"]), "types": choose([None, ["a"]]), "roots": choose([(), ["n0"]])}
    options = {**shared, **(links if draw.random() < 0.8 else {"edges": [("c", "c")]})}
    options["seeding"] = choose([None, "dense", "titles"])
    admitting = {
        "select_k": choose([None, 3, 8]),
        "start_k": choose([1, 3]),
        "adjacent_k": choose([None, 2, 5]),
        "max_traverse": choose([None, 3]),
    }
    return choose(
        [
            *(kind(**options, **admitting) for kind in (Eager, Mmr, Scored, NearestTwo)),
            Scored(**options, **admitting, per_iteration_limit=1),
            Scored(scorer=rate, **options, **admitting),
            Scored(path_scorer=rate_paths, **options, **admitting),
            Beam(width=choose([1, 3]), seed_k=2, **options),
            PathCoverage(seed_k=choose([2, 5]), lead_k=choose([1, 3]), **options),
            PersonalizedPageRank(seed_k=2, width=3, weighting=choose(["uniform", "score"]), **options),
            LinkWalk(weighted=choose([True, False]), inverses=choose([None, INVERSES]), start_k=2, **links, **shared),
            ReverseDependency(seeds=["n0", "n1", "m"], edge_type="a", fan_in_weight=choose([0, 1]), **shared),
            CollapsedTree(seed_k=3, **shared),
        ]
    )


def draw_limits(draw):
    choose = draw.choice
    return Limits(
        max_hits=choose([None, 4]),
        max_fanout=choose([1_000, 2]),
        max_edges=choose([1_000, 9]),
        max_frontier=choose([1_000, 6]),
        count_beyond_limits=choose([True, False]),
    )


async def walk_of(policy, store, *, has_events, **options):
    """Return all that a walk tells."""
    async with traverse("n1 n2", Corpus("drawn", store, EMBEDDER), policy=policy, **options) as walk:
        items = [repr(item) async for item in (walk.events() if has_events else walk)]
    summary = {name: value for name, value in walk.summary.to_dict().items() if name != "seconds"}
    items = [re.sub(r"seconds=[-.\de]+", "", item) for item in items]
    return items, summary, [hit.to_dict() for hit in walk.ranking]
