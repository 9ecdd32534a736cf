"""What walks yield, for each policy and each bound.

Hits with their paths, order and scores, the final ranking, and the summary.
"""

from dataclasses import dataclass, field

import airw
from airw import policies
from airw.walking import EdgeFound, NodeCommitted, StepDone, WalkEnded
from tests.support.golden_corpora import EACH_WAY, MEMORY, odd, open_eips, open_new, run
from tests.support.golden_rows import first_of, id_text, make, outcome, provenance_of, steps_of, summary_of, walk_row

PARTS = ("eips", "odd", "routes", "own", "adapted")
WAYS = EACH_WAY
QUICK = {"eips": [], "odd": [MEMORY], "routes": [], "own": [MEMORY], "adapted": [MEMORY]}

EIP_QUERY = "how do wallets sign typed structured data"
ODD_QUERY = "tide at the quay, spoke of a hub"


def first_line(record):
    """Lead to artifacts with the same value of one field."""
    return [("status", record.metadata.get("status")), ("category", record.metadata.get("category"))]


def same_day(record):
    """Lead to artifacts of the same year, and of the one after it."""
    return [("year", record.metadata["year"]), ("year", record.metadata["year"] + 1)]


def by_created(node):
    """Prefer the newest."""
    return float(str(node.metadata.get("created", node.metadata.get("date", "0")))[:4]) + node.similarity_score


async def by_length(node):
    """Prefer short texts."""
    return 1 / (1 + len(node.content))


def weakest(paths):
    """Score a path by its weakest node."""
    return [min(node.similarity_score for node in path.nodes) - len(path.edges) / 100 for path in paths]


ONE = {"start_k": 1, "seeding": "hybrid"}
EIP_WALKS = [
    ("PathCoverage", {}),
    ("PathCoverage", {"seed_k": 3}),
    ("PathCoverage", {"seed_k": 4, "lead_k": 2, "coverage": 1.0, "max_depth": 2}),
    ("PathCoverage", {"seed_k": 3, "direction": "out", "types": ["requires"], "names": 0.0}),
    ("Eager", {}),
    ("Eager", {**ONE, "select_k": 8, "direction": "both"}),
    ("Eager", {**ONE, "select_k": 8, "edges": [("category", "category")]}),
    ("Eager", {**ONE, "select_k": 6, "edges": first_line}),
    ("Eager", {"start_k": 0, "roots": ["eip-712.md", "eip-1153.md"], "select_k": 7, "adjacent_k": 3}),
    ("Scored", {"start_k": 2, "select_k": 6, "per_iteration_limit": 2, "scorer": by_created}),
    ("Scored", {**ONE, "select_k": 6, "path_scorer": weakest}),
    ("Mmr", {"start_k": 3, "select_k": 6, "lambda_mult": 0.3}),
    ("Mmr", {"start_k": 3, "select_k": 6, "lambda_mult": 0.9, "direction": "out"}),
    ("Beam", {}),
    ("Beam", {"width": 2, "seed_k": 2, "seeding": "dense", "max_depth": 2}),
    ("PersonalizedPageRank", {}),
    ("PersonalizedPageRank", {"seed_k": 3, "restart": 0.2, "weighting": "score", "degree_exponent": 0.5}),
    ("PersonalizedPageRank", {"seed_k": 3, "width": 2, "certify_k": 3, "search_weight": 0.5, "title_weight": 1.0}),
    ("LinkWalk", {"roots": ["eip-712.md"], "direction": "out"}),
    ("LinkWalk", {"roots": ["eip-712.md", "eip-20.md"], "types": ["requires"], "direction": "in"}),
    ("LinkWalk", {"start_k": 2, "seeding": "lexical", "weighted": True, "max_depth": 1}),
    ("CollapsedTree", {}),
    ("CollapsedTree", {"seed_k": 3, "leaf_kinds": ("chunk",), "summary_kinds": ("description",)}),
    ("ReverseDependency", {"seeds": ["eip-2718.md"], "edge_type": "requires"}),
]

ROUTES = [  # options that policies over links share
    {},
    {"direction": "out"},
    {"direction": "in"},
    {"types": ["related", "next"]},
    {"seeding": "dense"},
    {"seeding": "lexical"},
    {"seeding": ("titles", "hybrid")},
    {"roots": ["hub.md", "chain-03.md"]},
    {"edges": [("kind", "kind"), ("$id", "seed")]},
    {"edges": same_day},
    {"scope": {"start": {"kind": {"$in": ["spoke", "note"]}}}},
    {"scope": {"cross": {"n": {"$lt": 150}}}},
    {"scope": {"keep": {"$or": [{"draft": True}, {"kind": "hub.md"}]}}},
    {"max_depth": 0},
    {"max_depth": 1},
]
FEW = {"Eager": {"start_k": 3}, "Mmr": {"start_k": 3}, "Scored": {"start_k": 2}, "LinkWalk": {"start_k": 2}}
FEW |= {"Beam": {"seed_k": 2, "width": 3}, "PathCoverage": {"seed_k": 4}, "PersonalizedPageRank": {"seed_k": 2}}
ODD_WALKS = [
    ("Eager", {"start_k": 2, "select_k": None, "max_traverse": 4}),
    ("Eager", {"start_k": 3, "select_k": 9, "adjacent_k": 2}),
    ("Scored", {"start_k": 3, "select_k": 9, "scorer": by_length}),
    ("Scored", {"start_k": 3, "select_k": 9, "path_scorer": weakest, "max_depth": 3}),
    ("Mmr", {"start_k": 5, "select_k": 9, "lambda_mult": 0.0}),
    ("Mmr", {"start_k": 5, "select_k": 9, "min_mmr_score": 0.02}),
    ("Beam", {"seed_k": 1, "width": 1, "max_depth": 5}),
    ("LinkWalk", {"roots": ["heavy.md"], "weighted": True, "max_depth": 4}),
    ("LinkWalk", {"roots": ["heavy.md"], "direction": "out", "max_depth": None}),
    ("LinkWalk", {"roots": ["hub.md"], "exclude": ["part-of"], "max_depth": 1}),
    ("LinkWalk", {"roots": ["bridge.md"], "origins": ["typed"]}),
    ("LinkWalk", {"roots": ["hub.md"], "types": ["has-part"]}),
    ("LinkWalk", {"roots": ["chain-00.md"], "direction": "out", "max_depth": None}),
    ("LinkWalk", {"roots": ["cycle-0.md"], "max_depth": None}),
    ("LinkWalk", {"roots": ["self.md", "self.md"]}),
    ("LinkWalk", {"roots": ["no such note"]}),
    ("LinkWalk", {}),
    ("PersonalizedPageRank", {"roots": ["hub.md"], "seed_k": 0, "restart": 0.9}),
    ("CollapsedTree", {"seed_k": 4}),
    ("CollapsedTree", {"seed_k": 2, "scope": {"keep": {"draft": True}}}),
    ("CollapsedTree", {"seed_k": 3, "max_depth": 0}),
    ("ReverseDependency", {"seeds": ["hub.md"], "edge_type": "part-of"}),
    ("ReverseDependency", {"seeds": ["hub", "no such note"], "edge_type": "related", "fan_in_weight": 0.5}),
    ("ReverseDependency", {"seeds": ["chain-09.md"], "edge_type": "next", "proximity_weight": 1.0, "max_depth": 4}),
]
LIMITS = [
    {"node_budget": 1},
    {"node_budget": 5},
    {"timeout": 0},
    {"max_depth": 0},
    {"max_depth": None, "node_budget": 25},
    {"limits": {"max_hits": 3}},
    {"limits": {"max_hits": 3, "count_beyond_limits": True}},
    {"limits": {"max_fanout": 2}},
    {"limits": {"max_edges": 7}},
    {"limits": {"max_frontier": 3}},
    {"limits": {"max_concurrency": 1}},
    {"node_budget": 6, "limits": {"count_beyond_limits": True}},
    {"max_depth": 1, "limits": {"count_beyond_limits": True, "max_fanout": 4}},
]
LIMITED = [
    ("LinkWalk", {"roots": ["hub.md"]}),
    ("LinkWalk", {"roots": ["hub.md"], "scope": {"keep": {"draft": True}}}),
    ("Eager", {"start_k": 3, "select_k": None}),
    ("PersonalizedPageRank", {"seed_k": 2}),
    ("PathCoverage", {"seed_k": 3}),
    ("CollapsedTree", {"seed_k": 3}),
]
REACHED = ("LinkWalk", {"roots": ["bridge.md"]})
EXTENSIONS = [
    ({"node_budget": 3}, {"node_budget": 8}),
    ({"max_depth": 1}, {"max_depth": 2}),
    ({"timeout": 0}, {"timeout": 60}),
    ({"max_depth": 1, "node_budget": 4}, {"max_depth": 3, "node_budget": 12}),
    ({"node_budget": 3}, {"node_budget": 2}),
    ({"limits": {"max_hits": 2}}, {"node_budget": 90}),
    ({"node_budget": 90}, {"node_budget": 99}),
]


def record(part, way, folder):
    recordings = {
        "eips": record_eips,
        "odd": record_odd,
        "routes": record_routes,
        "own": record_own,
        "adapted": record_adapted,
    }
    return run(recordings[part], way, folder)


def begin(query, corpus, policy, bounds):
    """Return a walk that has not begun."""
    limits = {"limits": airw.Limits(**bounds["limits"])} if "limits" in bounds else {}
    return airw.traverse(query, corpus, policy=policy, **{**bounds, **limits})


def name_of(kind, policy, options, bounds):
    """Return the name of a row: the policy, its options and the bounds."""
    words = [", ".join(f"{name}={getattr(value, '__name__', value)}" for name, value in options.items())]
    return f"{kind} {policy}({words[0]})" + "".join(f", {name}={value}" for name, value in bounds.items())


async def record_walks(corpus, query, cases):
    """Return the rows of walks; each case is a policy, its options and the bounds."""
    return {
        name_of("walk", policy, options, bounds): await outcome(walk_row_of(corpus, query, policy, options, bounds))
        for policy, options, bounds in cases
    }


async def walk_row_of(corpus, query, policy, options, bounds):
    return await walk_row(begin(query, corpus, make(policy, options), bounds))


async def record_eips(way, folder):
    cases = [(policy, options, {"node_budget": 12}) for policy, options in EIP_WALKS]
    async with open_eips(way, folder) as corpus:
        rows = await record_walks(corpus, EIP_QUERY, cases)
        rows["walk by default"] = await walk_row(airw.traverse(EIP_QUERY, corpus, node_budget=12))
        question = "Which protection against replay has EIP-712, and which one EIP-155?"
        titles = [
            ("Eager", {"seeding": "titles", "select_k": 4}, {}),
            ("PathCoverage", {"seeding": ("titles", "hybrid")}, {}),
        ]
        found = await record_walks(
            corpus, question, [(policy, options, {"node_budget": 10}) for policy, options, _ in titles]
        )
        rows |= {f"{name}: {question}": row for name, row in found.items()}
        rows |= await record_provenance(corpus, EIP_QUERY)
    return rows


NAMED_QUERY = "Which tide has Merge of Tides, and which road has Atlas or bridge.md?"
NAMED_WALKS = [
    ("PathCoverage", {}),
    ("PathCoverage", {"seed_k": 4}),
    ("PathCoverage", {"seed_k": 6, "coverage": 1.0, "lead_k": 2}),
    ("PathCoverage", {"seed_k": 4, "names": 0.0, "max_depth": 2}),
    ("PathCoverage", {"seed_k": 3, "roots": ["hub.md"], "direction": "in"}),
    ("Eager", {"start_k": 3, "seeding": "titles"}),
    ("LinkWalk", {"start_k": 2, "seeding": ("titles", "lexical"), "max_depth": 1}),
]


async def record_routes(way, folder):
    """Return walks of each policy by each route, and of some within each bound."""
    cases = [(policy, {**few, **route}, {"node_budget": 9}) for policy, few in FEW.items() for route in ROUTES]
    cases = [case for case in cases if case[0] != "LinkWalk" or "edges" not in case[1]]
    cases += [(policy, options, bounds) for policy, options in LIMITED for bounds in LIMITS]
    async with open_new(way, folder, odd()) as corpus:
        return await record_walks(corpus, ODD_QUERY, cases)


async def record_odd(way, folder):
    cases = [(policy, options, {"node_budget": 16}) for policy, options in ODD_WALKS]
    cases += [(policy, few, {"node_budget": 7}) for policy, few in FEW.items()]
    cases += [("Eager", {"start_k": 2, **route}, {"node_budget": 7}) for route in ROUTES]
    cases += [(*REACHED, bounds) for bounds in LIMITS]
    cases += [("LinkWalk", {"roots": ["note-200.md"], "max_depth": None}, {})]
    async with open_new(way, folder, odd()) as corpus:
        rows = await record_walks(corpus, ODD_QUERY, cases)
        named = await record_walks(corpus, NAMED_QUERY, [(*walk, {"node_budget": 12}) for walk in NAMED_WALKS])
        rows |= {f"{name}, by names": row for name, row in named.items()}
        rows |= await record_provenance(corpus, ODD_QUERY)
        rows |= await record_extensions(corpus)
        rows |= await record_readings(corpus)
        for query in ("", "签名密钥", "qzxv wfpl"):
            rows[f"walk by default, node_budget=6: {query!r}"] = await outcome(walk_row_by_default(query, corpus))
    return rows


async def walk_row_by_default(query, corpus):
    return await walk_row(airw.traverse(query, corpus, node_budget=6))


async def record_provenance(corpus, query):
    """Return what the metadata of hits say of the walk, for each policy."""
    rows = {}
    for policy, options in FEW.items():
        walk = begin(query, corpus, make(policy, options), {"node_budget": 7})
        rows[f"provenance by {policy}"] = [[hit.artifact_id, provenance_of(hit)] for hit in await airw.top_k(walk, 5)]
    return rows


async def record_extensions(corpus):
    """Return what walks yield that go on after their end."""
    rows = {}
    for policy, options in [REACHED, ("PersonalizedPageRank", {"seed_k": 2}), ("Beam", {"seed_k": 2})]:
        for bounds, more in EXTENSIONS:
            name = f"{name_of('extend', policy, options, bounds)} to {more}"
            rows[name] = await outcome(extension_row(corpus, policy, options, bounds, more))
    return rows


async def extension_row(corpus, policy, options, bounds, more):
    walk = begin(ODD_QUERY, corpus, make(policy, options), bounds)
    first = [hit.artifact_id async for hit in walk]
    stop = walk.summary.stop
    further = steps_of(walk, [hit async for hit in walk.extend(**more)])
    return [first, stop, first_of(further, 14), summary_of(walk)]


def event_text(event):
    """Return an event in one line."""
    match event:
        case NodeCommitted(id=id, depth=depth, hit=hit):
            return f"{'hit' if hit else 'router'} {id_text(id)} {depth}"
        case EdgeFound(source=source, target=target, type=kind, known=known):
            return f"{id_text(source)} -{kind}-> {id_text(target)}{' again' if known else ''}"
        case StepDone(step=step, committed=committed, edges=edges, waiting=waiting):
            return f"step {step}: {committed} of it, {edges} edges, {waiting} wait"
        case WalkEnded(summary=summary):
            return f"end {summary.stop} {summary.emitted}"


async def record_readings(corpus):
    """Return walks that are read as events, with others, ahead, or in part."""
    routed = ("LinkWalk", {"roots": ["bridge.md"], "scope": {"keep": {"draft": True}}})
    kinds = [
        REACHED,
        routed,
        ("Eager", {"start_k": 2}),
        ("Beam", {"seed_k": 2, "width": 2}),
        ("PathCoverage", {"seed_k": 2}),
    ]
    bounds = {"node_budget": 7}
    rows = {}
    for policy, options in kinds:
        walk = begin(ODD_QUERY, corpus, make(policy, options), bounds)
        rows[name_of("events of", policy, options, bounds)] = [event_text(event) async for event in walk.events()][:40]
        walk = begin(ODD_QUERY, corpus, make(policy, options), bounds)
        best = await airw.top_k(walk, k=3)
        rows[name_of("top_k of", policy, options, bounds)] = [[hit.artifact_id, hit.score] for hit in best]
        walk = begin(ODD_QUERY, corpus, make(policy, options), bounds)
        async with airw.prefetch(walk, buffer=2) as hits:
            ahead = [hit.artifact_id async for hit in hits]
        rows[name_of("prefetch of", policy, options, bounds)] = [ahead, walk.summary.stop]
        async with begin(ODD_QUERY, corpus, make(policy, options), bounds) as walk:
            async for hit in walk:
                if walk.path(hit) and hit.metadata["walk_depth"] > 0:
                    break
        rows[name_of("left at depth 1 of", policy, options, bounds)] = [hit.artifact_id, summary_of(walk)]
    walks = [begin(ODD_QUERY, corpus, make(policy, options), bounds) for policy, options in kinds]
    async with airw.merge(*walks, order="turns") as pairs:
        rows["merge of five walks in turns"] = [[walks.index(walk), hit.artifact_id] async for walk, hit in pairs]
    return rows


@dataclass(frozen=True)
class Halves(airw.Policy):
    """Walk from numbers to halves and neighbours, which come again; thirds are no hits."""

    start: tuple = (40, 7)
    enough: int = 0
    wide: int = 3
    best_last: bool = False
    keeps_frontier: bool = False
    scores_paths: bool = False
    rescores_committed: bool = False

    async def seed(self, state, store):
        return list(self.start)

    async def score(self, state, nodes, store):
        return [-abs(node - 10) / 10 for node in nodes]

    async def expand(self, state, committed, store):
        return [[entry.node // 2, entry.node + 1, entry.node, entry.node - 3] for entry in committed]

    def select(self, state, frontier):
        return list(frontier.best_first()[: self.wide])

    def stop(self, state):
        return 0 < self.enough <= len(state.results)

    def rank(self, state, hits):
        return sorted(hits, key=lambda hit: hit.score, reverse=not self.best_last)

    async def to_hits(self, state, committed, store):
        return [
            None if entry.node % 3 == 0 else airw.SearchHit(str(entry.node), "number", entry.score, "")
            for entry in committed
        ]


@dataclass
class Longest(policies.Strategy):
    """Continue from the longest text seen so far."""

    seen: list = field(default_factory=list)

    def iteration(self, nodes, tracker):
        self.seen += nodes
        self.seen.sort(key=lambda node: (-len(node.content), node.id))
        tracker.select_and_traverse([self.seen.pop(0)] if self.seen else [])


class Doubles:
    """A policy that handles one node at a time."""

    def seed(self, state, store):
        return [1, 3]

    async def score(self, state, node, store):
        return 1 / node

    def expand(self, state, node, store):
        return [2 * node, 2 * node + 1]

    def node_id(self, node):
        return node

    def to_hit(self, state, node, score, depth):
        return airw.SearchHit(str(node), "number", score, "", {"walk_depth": depth})


OWN_OPTIONS = [
    {},
    {"enough": 4},
    {"wide": 1},
    {"wide": 0},
    {"best_last": True},
    {"start": ()},
    {"start": (40, 40, 7, 40)},
    {"wide": 1, "keeps_frontier": True},
    {"wide": 2, "keeps_frontier": True, "scores_paths": True},
    {"wide": 2, "keeps_frontier": True, "scores_paths": True, "rescores_committed": True},
    {"enough": 3, "keeps_frontier": True},
]
OWN_BOUNDS = [
    {"node_budget": 10},
    {"max_depth": 2},
    {"max_depth": 2, "limits": {"count_beyond_limits": True}},
    {"node_budget": 4, "limits": {"count_beyond_limits": True}},
    {"limits": {"max_hits": 4, "max_fanout": 3}},
    {"node_budget": 12, "limits": {"max_frontier": 3}},
    {"node_budget": 12, "limits": {"max_edges": 14}},
]


async def record_own(way, folder):
    """Return walks of policies that are written here, some without a store."""
    rows = {}
    for options in OWN_OPTIONS:
        for bounds in OWN_BOUNDS:
            name = name_of("walk", "Halves", options, bounds)
            rows[name] = await outcome(walk_row(begin("", None, Halves(**options), bounds)))
    for bounds in ({}, {"max_depth": 3}, {"node_budget": 6}, {"limits": {"max_frontier": 2}}):
        rows[name_of("walk", "per_node(Doubles())", {}, bounds)] = await walk_row(
            begin("", None, policies.per_node(Doubles()), bounds)
        )
    async with open_new(way, folder, odd()) as corpus:
        for options in ({}, {"start_k": 2, "select_k": 3}, {"roots": ["hub.md"], "start_k": 0, "max_depth": 1}):
            rows[name_of("walk", "Longest", options, {})] = await walk_row(
                begin(ODD_QUERY, corpus, Longest(**options), {"node_budget": 12})
            )
    return rows


PAGES = {
    "home": ("the home of all tides", [("keys", "menu"), ("plan", "menu")]),
    "keys": ("rotate the keys at the quay", [("plan", "see"), ("vault", "see"), ("ghost", "see")]),
    "plan": ("the plan of the hub", [("home", "next"), ("team", "next"), ("vault", "see")]),
    "vault": ("the vault keeps keys", [("keys", "see"), ("vault", "see")]),
    "team": ("nobody", []),
}


def find(query, k):
    """Search by common words."""
    words = set(query.split())
    found = [(id, len(words & set(text.split()))) for id, (text, _) in PAGES.items()]
    return sorted((pair for pair in found if pair[1]), key=lambda pair: (-pair[1], pair[0]))[:k]


async def read(ids):
    """Return texts and fields; none of an unknown page."""
    return [{"text": PAGES[id][0], "size": len(PAGES[id][1])} if id in PAGES else None for id in ids]


def follow(ids):
    """Return pairs of target and type."""
    return [PAGES[id][1] if id in PAGES else [] for id in ids]


ADAPTED = {"search, get and neighbors": {"search": find, "get": read, "neighbors": follow}}
ADAPTED |= {
    "get and neighbors": {"get": read, "neighbors": follow},
    "search": {"search": find},
    "neighbors": {"neighbors": follow},
}
ADAPTED_WALKS = [
    ("PathCoverage", {}),
    ("Eager", {"start_k": 1, "direction": "out"}),
    ("Eager", {"start_k": 0, "roots": ["home"], "direction": "out"}),
    ("Mmr", {"start_k": 2, "direction": "out"}),
    ("Beam", {"seed_k": 1, "direction": "out"}),
    ("LinkWalk", {"roots": ["home"], "direction": "out"}),
    ("LinkWalk", {"roots": ["keys"], "direction": "out", "types": ["see"], "scope": {"keep": {"size": {"$gt": 0}}}}),
    ("LinkWalk", {"roots": ["keys"], "direction": "in"}),
    ("PersonalizedPageRank", {"seed_k": 2, "direction": "out"}),
    ("CollapsedTree", {}),
]


async def record_adapted(way, folder):
    """Return walks over corpora that are made of functions."""
    rows = {}
    for name, functions in ADAPTED.items():
        corpus = airw.adapt(**functions, name="pages")
        cases = [(policy, options, {}) for policy, options in ADAPTED_WALKS]
        found = await record_walks(corpus, "rotate the keys of the home", cases)
        rows |= {f"{row} over {name}": value for row, value in found.items()}
        rows[f"search over {name}"] = await outcome(search_row(corpus))
    return rows


async def search_row(corpus):
    return [[hit.artifact_id, hit.score, hit.text] for hit in await airw.search(corpus, "rotate the keys", k=3)]
