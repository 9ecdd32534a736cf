"""What links say: neighbours, trees, paths and cycles.

Also links that lead nowhere, diagnoses, and bundles for a model.
"""

import airw
from airw.links import CorpusGraph, FollowedLinks, Inverses, SharedNames, TitleMentions
from airw.values import LinkFilter
from airw.views import (
    bundle,
    bundle_document,
    describe,
    list_links,
    path_dict,
    path_records,
    path_text,
    read_tree,
    tree_dot,
    tree_records,
    tree_text,
    unresolved_dict,
    walk_links,
)
from tests.support.golden_corpora import EACH_WAY, MEMORY, SQLITE, odd, open_eips, open_new, run
from tests.support.golden_rows import brief, digest, first_of, id_text, outcome, present

PARTS = ("eips", "odd", "mentions")
WAYS = EACH_WAY
QUICK = {"eips": [], "odd": [SQLITE], "mentions": [MEMORY]}

IDS = {
    "eips": ["eip-712.md", "eip-20.md", "eip-1.md", "eip-2929.md"],
    "odd": [
        "hub.md",
        "bridge.md",
        "twice.md",
        "abroad.md",
        "self.md",
        "heavy.md",
        "asks.md",
        "blank-0.md",
        "no such note",
    ],
}
FOLLOWED = [
    {},
    {"direction": "in"},
    {"direction": "both"},
    {"direction": "both", "limit": 2},
    {"types": ["related"]},
    {"exclude": ["related"], "direction": "both"},
    {"origins": ["typed"], "direction": "both"},
]
TREES = {
    "eips": [
        (["eip-712.md"], {"max_hops": 1}),
        (["eip-712.md"], {"max_hops": 2, "direction": "out"}),
        (["eip-1153.md", "eip-20.md"], {"max_hops": 2, "types": ["requires"]}),
        (["eip-2929.md"], {"max_hops": 2, "max_nodes": 12}),
        (["eip-2929.md"], {"max_hops": 2, "max_edges": 20}),
        (["eip-2929.md"], {"max_hops": 1, "max_fanout": 5, "direction": "in"}),
        (["eip-1.md"], {"max_hops": None, "direction": "out", "max_nodes": 20}),
    ],
    "odd": [
        (["hub.md"], {}),
        (["hub.md"], {"max_hops": 1, "direction": "in"}),
        (["hub.md"], {"types": ["has-part"], "max_hops": 2}),
        (["hub.md"], {"exclude": ["part-of"], "max_hops": 1}),
        (["bridge.md"], {"max_hops": 2, "direction": "out"}),
        (["bridge.md"], {"origins": ["typed"], "max_nodes": 6}),
        (["heavy.md"], {"weighted": True, "max_hops": 3}),
        (["heavy.md"], {"max_hops": 3, "max_edges": 3}),
        (["chain-00.md"], {"max_hops": None, "direction": "out"}),
        (["cycle-0.md", "cycle-3.md"], {"max_hops": 4, "direction": "out"}),
        (["self.md"], {"max_hops": 1}),
        (["nowhere.md"], {}),
        (["cycle-0.md"], {"inverses": Inverses({"next": "previous"}), "max_hops": 1}),
        (["cycle-0.md"], {"inverses": None, "max_hops": 1}),
        (["hub.md"], {"max_hops": 0}),
        (["no such note"], {}),
        ([], {}),
    ],
}
PATHS = {
    "eips": [
        ("eip-712.md", "eip-4337.md", {}),
        ("eip-712.md", "eip-1.md", {"direction": "out"}),
        ("eip-20.md", "eip-4844.md", {}),
        ("eip-20.md", "eip-4844.md", {"weighted": True}),
        ("eip-20.md", "eip-4844.md", {"max_hops": 1}),
        ("eip-20.md", "eip-4844.md", {"max_nodes": 5}),
        ("eip-1153.md", "eip-2929.md", {"types": ["requires"]}),
        ("eip-7702.md", "eip-155.md", {"direction": "in"}),
    ],
    "odd": [
        ("heavy.md", "tides.md", {}),
        ("heavy.md", "tides.md", {"weighted": True}),
        ("heavy.md", "bridge.md", {"weighted": True}),
        ("heavy.md", "hub.md", {"weighted": True, "direction": "out"}),
        ("heavy.md", "hub.md", {"weighted": True, "max_hops": 1}),
        ("chain-00.md", "chain-09.md", {}),
        ("chain-00.md", "chain-14.md", {}),
        ("chain-00.md", "chain-14.md", {"max_hops": None}),
        ("chain-00.md", "chain-14.md", {"max_hops": 14, "direction": "out"}),
        ("chain-14.md", "chain-00.md", {"max_hops": None, "direction": "out"}),
        ("cycle-0.md", "cycle-3.md", {}),
        ("cycle-0.md", "cycle-3.md", {"direction": "out"}),
        ("spoke-1.md", "spoke-9.md", {}),
        ("spoke-1.md", "spoke-9.md", {"types": ["part-of"]}),
        ("spoke-1.md", "spoke-9.md", {"types": ["has-part"]}),
        ("spoke-1.md", "spoke-9.md", {"exclude": ["related", "part-of"]}),
        ("spoke-1.md", "spoke-9.md", {"max_edges": 2}),
        ("spoke-1.md", "chain-05.md", {"max_fanout": 3}),
        ("spoke-1.md", "chain-05.md", {"max_nodes": 3}),
        ("hub.md", "hub.md", {}),
        ("hub.md", "blank-0.md", {}),
        ("hub.md", "no such note", {}),
    ],
}
BUNDLES = {
    "eips": [
        {"notes": ["eip-712.md", "eip-191.md"], "max_chars": 3000},
        {"walk": ["eip-712.md"], "max_chars": 4000},
        {"walk": ["eip-712.md"], "max_tokens": 800},
        {"query": "how do wallets sign typed structured data", "k": 3, "max_chars": 2500},
        {"query": "gas cost of storage", "mode": "lexical", "k": 4, "max_chars": 1000, "form": "records"},
        {
            "notes": ["eip-20.md"],
            "walk": ["eip-712.md"],
            "query": "replay protection",
            "max_chars": 9000,
            "form": "json",
        },
    ],
    "odd": [
        {"notes": ["hub.md", "twice.md", "blank-0.md", "hub.md"]},
        {"notes": ["long-0.md", "hub.md"], "max_chars": 600},
        {"notes": ["hub.md"], "max_chars": 20},
        {"notes": ["hub.md"], "max_tokens": 30, "max_chars": 400},
        {"walk": ["bridge.md"], "max_chars": 500},
        {
            "walk": ["bridge.md"],
            "edges": FollowedLinks(direction="out", filter=LinkFilter(exclude=["next"])),
            "max_chars": 900,
        },
        {"walk": ["heavy.md"], "query": "tide", "k": 4, "max_chars": 1200, "form": "records"},
        {"query": "rotate the signing keys", "k": 3, "max_chars": 1500, "form": "json"},
        {"query": "签名 🌹", "k": 3, "mode": "lexical", "max_tokens": 60},
        {"query": "qzxv wfpl", "mode": "lexical"},
        {"notes": ["no such note"]},
    ],
}


def record(part, way, folder):
    return run({"eips": record_eips, "odd": record_odd, "mentions": record_mentions}[part], way, folder)


def name_of(kind, *arguments):
    """Return the name of a row: the call."""
    return f"{kind} {', '.join(str(argument) for argument in arguments)}"


def edge_text(edge):
    """Return an edge on one line."""
    return f"{id_text(edge.source)} -{edge.type}-> {id_text(edge.target)} {edge.origin} {edge.weight:g}"


async def record_eips(way, folder):
    async with open_eips(way, folder) as corpus:
        return await record_graph(corpus, "eips")


async def record_odd(way, folder):
    async with open_new(way, folder, odd()) as corpus:
        rows = await record_graph(corpus, "odd")
        return rows | await record_changes(corpus)


async def record_graph(corpus, which):
    """Return the rows of one corpus."""
    graph = CorpusGraph(corpus)
    rows = {}
    for options in FOLLOWED:
        found = await graph.neighbors(IDS[which], **options)
        for id, edges in zip(IDS[which], found, strict=True):
            rows[name_of("neighbors", id, options)] = first_of([[edge_text(edge)] for edge in edges], 12)
    rows |= await record_structure(graph, which)
    for roots, options in TREES[which]:
        rows |= await record_tree(corpus, roots, options)
    for start, end, options in PATHS[which]:
        rows[name_of("path", start, end, options)] = await outcome(path_row(corpus, graph, start, end, options))
    for options in BUNDLES[which]:
        name = {key: value for key, value in options.items() if key != "edges"}
        rows[name_of("bundle", name, *(["edges"] if "edges" in options else []))] = await outcome(
            bundle_row(corpus, options)
        )
    for id in IDS[which][:6]:
        rows |= await record_listing(corpus, graph, id)
    return rows


async def record_structure(graph, which):
    """Return measures of the whole graph."""
    ids = IDS[which]
    rows = {
        "edge types": await graph.edge_types(ids),
        "reverse neighbors": [sorted(found)[:12] for found in await graph.reverse_neighbors(ids)],
        "reverse neighbors by requires": [
            sorted(found)[:12] for found in await graph.reverse_neighbors(ids, types=["requires"])
        ],
        "fan in": [await graph.fan_in(ids), await graph.fan_in(ids, types=["related"]), await graph.max_fan_in()],
        "resolve": await graph.resolve(
            ["hub", "HUB.MD", "same", "p/same", "712", "eip-20", "Atlas", "nothing", "", "\uff48ub"]
        ),
        "surface order": [[edge_text(edge) for edge in found][:4] for found in await graph.surface_order(ids[:2])],
        "records": [found and [len(found), brief(found[-1].text)] for found in await graph.records_of(ids)],
    }
    for count in await graph.link_counts():
        rows[f"count of links {count.type} {count.origin} {count.state}"] = count.count
    unresolved = await graph.unresolved_links()
    rows["unresolved"] = [len(unresolved), digest([str(unresolved_dict(found)) for found in unresolved])]
    for at, found in enumerate(unresolved[:30]):
        rows[f"unresolved link {at}"] = unresolved_dict(found)
    for name, options in {
        "": {},
        " without related": {"exclude": ["related"]},
        " of typed": {"origins": ["typed"]},
    }.items():
        parts = await graph.components(**options)
        rows[f"components{name}"] = [len(parts), [[len(part), part[0]] for part in parts[:8]]]
        cycles = await graph.cycles(**options)
        rows[f"cycles{name}"] = [[len(cycle.members), list(cycle.nodes)] for cycle in cycles[:8]]
    rows |= {f"diagnosis: {name}": value for name, value in diagnosis_of(await graph.diagnose()).items()}
    pairs = await graph.diagnose(gold=[ids[:2], ids[1:4]])
    rows["diagnosis with gold"] = [pairs.gold_pairs, pairs.gold_linked, pairs.gold_near]
    return rows


def diagnosis_of(diagnosis):
    """Return the measures of a diagnosis, without its sentences and counts of links."""
    values = {name: value for name, value in diagnosis.to_dict().items() if name not in ("links", "findings")}
    return {**values, "findings": [[found.name, found.value, found.is_good] for found in diagnosis.findings]}


async def record_tree(corpus, roots, options):
    """Return a tree of links in all its forms."""
    inverses = {"inverses": options["inverses"]} if "inverses" in options else {}
    shown = {name: value for name, value in options.items() if name != "inverses"}
    name = name_of(
        "tree", roots, shown, *(["own inverses" if options["inverses"] else "no inverses"] if inverses else [])
    )
    tree = await outcome(tree_of(corpus, roots, options, inverses))
    if isinstance(tree, dict):
        return {name: tree}
    whole = tree.to_dict()
    facts = {key: value for key, value in whole.items() if key not in ("nodes", "edges", "spanning_tree")}
    lists = {
        key: [len(whole[key]), digest([str(item) for item in whole[key]])]
        for key in ("nodes", "edges", "spanning_tree")
    }
    return {
        name: {**present(facts), **lists},
        f"{name}, its nodes": [node["id"] for node in whole["nodes"]][:40],
        f"{name}, its branches": [f"{link.source} {link.type} {link.target}" for link in tree.spanning_tree][:30],
        f"{name}, as text": tree_text(tree).splitlines()[:12],
        f"{name}, other forms": [digest(tree_text(tree)), digest(tree_records(tree)), digest(tree_dot(tree))],
        f"{name}, as records of 300": tree_records(tree, max_chars=300).splitlines(),
    }


async def tree_of(corpus, roots, options, inverses):
    return await read_tree(walk_links(corpus, roots, **options), **inverses)


async def path_row(corpus, graph, start, end, options):
    """Return a path with its edges and costs, or what hides one."""
    path = await graph.path(start, end, **options)
    nodes = await describe(corpus, path.nodes)
    texts = [digest(path_text(path, nodes)), digest(path_records(path, nodes)), sorted(path_dict(path, nodes))]
    edges = [edge_text(edge) for edge in path.edges]
    return [path.found, path.cost, edges, path.max_hops, path.visited, dict(path.left_out), list(path.at_least), texts]


async def bundle_row(corpus, options):
    """Return what a bundle holds, and what it left out."""
    walk = {"walk": walk_links(corpus, options["walk"], max_hops=2)} if "walk" in options else {}
    stream = bundle(corpus, **{**options, **walk})
    async with stream as notes:
        held = [
            [
                id_text(note.node.id),
                note.via,
                note.hop,
                note.is_passage,
                brief(note.content),
                [link.type for link in note.links][:9],
            ]
            async for note in notes
        ]
    whole = notes.bundle
    text = bundle_document(whole, options.get("form", "text"))
    left = present(
        {
            "left_out": dict(whole.left_out),
            "at_least": whole.at_least,
            "unknown": whole.unknown,
            "omitted": whole.omitted[:5],
        }
    )
    return [first_of(held, 6), left, len(text), digest(text)]


async def record_listing(corpus, graph, id):
    """Return the list of links of one note, as a person sees it."""
    [out], [into] = await graph.neighbors([id]), await graph.neighbors([id], direction="in")
    edges = [(edge, edge.type) for edge in [*out, *into]]
    unresolved = await graph.unresolved_links([id])
    ends = sorted({end for edge, _ in edges for end in (edge.source, edge.target)})
    nodes = dict(zip(ends, await describe(corpus, ends), strict=True))
    links = list_links(id, edges, unresolved, nodes)
    return {f"links of {id}": [link.text for link in links][:14]}


async def record_changes(corpus):
    """Return how links change when notes come and go, and names get a second meaning."""
    graph = CorpusGraph(corpus)
    rows = {}
    for name, change in {
        "a target that was missing": lambda: corpus.upsert({"gone.md": "it is here now", "nobody.md": "[[nowhere]]"}),
        "a second note of the same name": lambda: corpus.upsert({"z/hub.md": "another hub"}),
        "a deletion of the hub": lambda: corpus.delete(["hub.md"]),
        "a deletion of the second note": lambda: corpus.delete(["z/hub.md"]),
    }.items():
        await change()
        edges = await graph.neighbors(["nowhere.md", "twice.md", "bridge.md", "spoke-0.md", "nobody.md"])
        counts = sorted([count.type, count.origin, count.state, count.count] for count in await graph.link_counts())
        found = [[edge_text(edge) for edge in found] for found in edges]
        rows[f"after {name}"] = [found, await graph.fan_in(["hub.md", "z/hub.md", "gone.md"]), digest(str(counts))]
    return rows


TEXTS = {
    "Merge sort.md": "# Merge sort\n\nSplits a list, sorts both halves and merges them.",
    "Hedy.md": "# Hedy Lamarr\n\nHedy Lamarr patented a radio that hops. She knew merge sort.",
    "radio.md": "---\naliases: [Wireless]\n---\n# Radio of Lamarr\n\nA radio by Hedy Lamarr and George Antheil.",
    "film.md": "Algiers made Hedy Lamarr famous. Music was by George Antheil, not by wireless.",
    "paris.md": "# Paris Agreement\n\nSigned in Paris (city) by many.",
    "city.md": "# Paris (city)\n\nA city on a river. The Paris Agreement was signed here, a paris agreement.",
    "point.md": "# Point\n\nA data point says little. Loss Function or loss function?",
    "loss.md": "# Loss Function\n\nMinimised at each point; see [[Point]].",
    "apple.md": "# Apple\n\nApple sells an apple. Apple and Point.",
}


async def record_mentions(way, folder):
    """Return the links that are found without being written: by titles and by shared names."""
    rows = {}
    for name, extractor in {
        "titles": TitleMentions(),
        "titles in any case": TitleMentions(cased=False, min_chars=3, max_share=0.9),
        "names": SharedNames(),
        "names and titles": SharedNames(inner=TitleMentions(), rare=3, weight=0.5),
    }.items():
        source = airw.from_mapping(TEXTS, name=name.replace(" ", "-"), embedder="light", edge_extractor=extractor)
        async with open_new(way, folder, source) as corpus:
            found = await CorpusGraph(corpus).neighbors(sorted(TEXTS))
            for id, edges in zip(sorted(TEXTS), found, strict=True):
                rows[f"{name}: {id}"] = [edge_text(edge) for edge in edges]
            rows[f"{name}: share of named"] = (await CorpusGraph(corpus).diagnose()).named
    return rows
