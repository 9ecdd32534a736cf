"""Policies and notes for walks over several corpora."""

from dataclasses import dataclass, replace

from airw.policies import (
    Beam,
    Eager,
    LinkWalk,
    Mmr,
    PersonalizedPageRank,
    ReverseDependency,
    Scope,
    Scored,
    Strategy,
)
from tests.support.artifact_corpora import item, walk_all

TOLD = ("ppr_lower", "ppr_upper", "rank_final", "mmr_score", "redundancy", "fan_in")


def notes(text="8 0 0 0 0 0 0 0", **links):
    """Return artifacts of one text each with these links: `a=["b", ["books", "x"]]`."""
    return {name: item(text, to=to) for name, to in links.items()}


def keys(hits):
    return [hit.key for hit in hits]


def story(hits, walk, pair):
    """Return the facts of each hit of a walk; `pair` makes ids comparable."""
    return [
        (
            pair(hit),
            hit.score,
            hit.text,
            hit.metadata["walk_depth"],
            walk.path(hit),
            hit.metadata["walk_parent"],
            hit.metadata.get("walk_edge"),
            [hit.metadata.get(name) for name in TOLD],
        )
        for hit in hits
    ]


async def parts_story(corpus, policy, query, **options):
    hits, walk = await walk_all(corpus, policy, query, **options)
    both = [story(each, walk, lambda hit: hit.key) for each in (hits, walk.ranking)]
    return both, walk.summary.to_dict() | {"seconds": 0}


async def by_rank(node):
    return node.metadata["rank"]


@dataclass
class Nearest(Strategy):
    def iteration(self, nodes, tracker):
        tracker.select_and_traverse(sorted(nodes, key=lambda node: -node.similarity_score)[:2])


FIELDS = [("tags", "tags"), ("mentions", "$id"), ("$id", "mentions")]


POLICIES = {
    "Eager": lambda roots: Eager(roots=roots, select_k=None, start_k=1, adjacent_k=3, direction="both"),
    "Eager-out": lambda roots: Eager(roots=roots, select_k=6, start_k=2, types=["x"], max_depth=2),
    "Eager-fields": lambda roots: Eager(roots=roots, select_k=9, start_k=1, adjacent_k=3, edges=FIELDS),
    "Eager-scope": lambda roots: Eager(
        roots=roots, select_k=None, scope=Scope(start={"rank": {"$ne": 0}}, cross={"group": {"$ne": 1}})
    ),
    "Scored": lambda roots: Scored(by_rank, roots=roots, select_k=7, start_k=1, direction="both"),
    "Mmr": lambda roots: Mmr(roots=roots, select_k=7, start_k=2, direction="in"),
    "Beam": lambda roots: Beam(width=2, seed_k=1, roots=roots, direction="both"),
    "Beam-fields": lambda roots: Beam(width=3, seed_k=1, roots=roots, edges=FIELDS),
    "PersonalizedPageRank": lambda roots: PersonalizedPageRank(roots=roots, seed_k=2, width=2),
    "PersonalizedPageRank-fields": lambda roots: PersonalizedPageRank(roots=roots, seed_k=1, edges=FIELDS, width=3),
    "LinkWalk": lambda roots: LinkWalk(roots=roots, start_k=1, max_depth=4),
    "LinkWalk-in": lambda roots: LinkWalk(roots=roots, start_k=1, direction="in", exclude=["x"], origins=["derived"]),
    "LinkWalk-weighted": lambda roots: LinkWalk(roots=roots, start_k=1, weighted=True, max_depth=4),
    "ReverseDependency": lambda roots: ReverseDependency(
        seeds=roots or ["n00"], edge_type="x", fan_in_weight=0.5, proximity_weight=1, max_depth=3
    ),
    "Strategy": lambda roots: Nearest(roots=roots, select_k=6, start_k=2, direction="both"),
}


def policy_of(name, roots):
    """Return a policy that starts from a dense search, which parts of a corpus share."""
    policy = POLICIES[name](roots)
    return replace(policy, seeding="dense") if hasattr(policy, "seeding") else policy
