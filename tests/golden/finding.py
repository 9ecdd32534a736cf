"""What `search` finds: hits, order and scores in each mode and fusion.

With filters, surfaces, judges and formulas.
"""

import airw
from airw.indexing import Chunked, Notes, Package, Skill, WholeText, with_synopsis
from airw.protocols import ArtifactIds, ask
from tests.support.golden_corpora import EACH_WAY, MEMORY, SQLITE, odd, open_eips, open_new, run
from tests.support.golden_rows import brief, outcome, ranking_row

PARTS = ("eips", "odd", "strategies")
WAYS = EACH_WAY
QUICK = {"eips": [], "odd": [SQLITE], "strategies": [MEMORY]}

MODES = [{"mode": "dense"}, {"mode": "lexical"}, {}]
FUSIONS = [
    {"fusion": "ranks"},
    {"fusion": "ranks", "rrf_k": 2},
    {"fusion": "rrf"},
    {"fusion": "rrf", "rrf_k": 5},
    {"fusion": "rrf", "alpha": 0.8},
    {"rrf_k": 3},
    {"fusion": "blend"},
    {"fusion": "blend", "alpha": 0.3, "bm25_sat_k": 2},
    {"alpha": 0.7},
    {"fusion": "scores", "alpha": 0},
    {"fusion": "scores", "alpha": 0.5},
    {"fusion": "scores", "alpha": 1},
]
SIZES = [{"k": 1}, {"k": 5}, {"k": 100}, {"k": 0}, {"k": 3, "fetch_k": 3}, {"k": 3, "fetch_k": 500}]

EIP_QUERIES = [
    "how do wallets sign typed structured data",
    "account abstraction without a new transaction type",
    "gas cost of reading and writing storage",
    "replay protection by chain id",
    "EIP-1559 base fee",
    "ecrecover",
    "transact transactions transacting",
    "the of and which",
    "sourdough bread recipe",
    "签名 🌹 qzxv",
]
ODD_QUERIES = [
    "rotate the signing keys",
    "rose garden after rain",
    "tide",
    "the of",
    "straße",
    "ROTATIONS",
    "签名密钥",
    "ばら パン",
    "키",
    "กุหลาบ",
    "गुलाब",
    "مفاتيح التوقيع",
    "κλειδιά",
    "café",
    "cafe\u0301",
    "office flour",
    "🌹",
    "2021-03-05",
    "0x1f 3.14159",
    "camelCaseName snake_case_name",
    "bell\x07rings",
    "100%",
    "' OR 1=1 -- \" AND NEAR(* ",
    " ".join(f"word{n} tide" for n in range(80)),
]
QUESTION, OTHER = "rotate the signing keys", "rose garden after rain"

EIP_FILTERS = [
    {"status": "Final"},
    {"eip": {"$gte": 4000, "$lt": 7000}},
    {"category": {"$in": ["Interface", "ERC"]}, "status": {"$ne": "Final"}},
    {"title": {"$contains": "sign"}},
    {"requires": {"$exists": False}, "created": {"$lt": "2019"}},
    {"$or": [{"eip": 712}, {"$not": {"type": "Standards Track"}}]},
]
ODD_FILTERS = [
    {},
    {"kind": "note"},
    {"n": {"$gt": 100, "$lte": 200}},
    {"n": {"$gt": "1"}},
    {"ratio": {"$gte": 0.5, "$lt": 12.125}},
    {"date": {"$gte": "2010-01-01"}},
    {"tags": {"$contains": "b"}},
    {"tags": ["a", "b"]},
    {"tags": {"$in": ["a"]}},
    {"tags": {"$nin": ["a", "b"]}},
    {"draft": True},
    {"draft": None},
    {"draft": {"$ne": True}},
    {"draft": {"$exists": True}},
    {"mixed": 1},
    {"mixed": "1"},
    {"mixed": {"$in": [None, ""]}},
    {"mixed": {"$eq": {"a": 1}}},
    {"mixed.a": 1},
    {"nested.deep.er": {"$in": [1, 2]}},
    {"nested.list": {"$contains": 1}},
    {"big": {"$gt": 2**70}},
    {"big": 2**70},
    {"tiny": {"$gt": 0}},
    {"dotted.name": {"$gte": 0}},
    {"with space": "ü"},
    {"start": {"$lte": -15}},
    {"path": {"$contains": "author"}},
    {"$and": [{"kind": "note"}, {"$or": [{"year": 2003}, {"year": {"$gt": 2020}}]}]},
    {"$not": {"kind": "note"}},
    {"kind": "no such kind"},
    {"no_such_field": 1},
    {"kind": {"$like": "n"}},
]
SURFACES = [["description"], ["chunk"], ["chunk", "description"], ["chunk", "none"], ["none"]]


def record(part, way, folder):
    return run({"eips": record_eips, "odd": record_odd, "strategies": record_strategies}[part], way, folder)


def eip_cases():
    yield from ((query, options) for query in EIP_QUERIES for options in MODES)
    yield from ((query, options) for query in EIP_QUERIES[:2] for options in FUSIONS + SIZES)
    yield from ((EIP_QUERIES[0], {"filter": filter, "k": 5}) for filter in EIP_FILTERS)
    yield from ((EIP_QUERIES[3], {**mode, "per_artifact": False, "k": 8}) for mode in MODES)
    yield from ((EIP_QUERIES[2], {**stage, "k": 6}) for stage in STAGES)


def odd_cases():
    yield from ((query, options) for query in ODD_QUERIES for options in MODES)
    yield from ((query, options) for query in (QUESTION, "tide", "签名密钥") for options in FUSIONS)
    yield from ((query, options) for query in (QUESTION,) for options in SIZES)
    yield from ((OTHER, {"filter": filter, "k": 5, "mode": "dense"}) for filter in ODD_FILTERS)
    yield from ((OTHER, {"filter": filter, "k": 3}) for filter in ODD_FILTERS[1:8])
    yield from ((OTHER, {"filter": filter, "k": 4, "mode": "lexical"}) for filter in ODD_FILTERS[1:8])
    yield from ((QUESTION, {"surfaces": kinds, "k": 5, **mode}) for kinds in SURFACES for mode in MODES)
    yield from ((query, {**mode, "per_artifact": False, "k": 8}) for query in (OTHER, "hub tides") for mode in MODES)
    yield from ((QUESTION, {**stage, **mode, "k": 6}) for stage in STAGES for mode in MODES)


def shortest(query, texts):
    """Judge a text by its length, a deterministic stand-in for a model."""
    return [1 / (1 + len(text)) for text in texts]


def nameless(query, texts):
    """Judge no text at all."""
    return [float("nan") if index % 2 else 0.5 for index, _ in enumerate(texts)]


def two_queries(query):
    """Ask for the query and for roses."""
    return [query, "rose garden"]


def other_query(query):
    """Ask for the last word only."""
    return query.split()[-1]


def by_number(hit):
    """Prefer artifacts with a large number in their id."""
    return sum(map(int, filter(str.isdigit, hit.artifact_id))) / 100


async def id_of(corpus, record):
    """Return another text for a judge."""
    return record.artifact_id


STAGES = [
    {"rerank": shortest},
    {"rerank": shortest, "fetch_k": 4},
    {"rerank": shortest, "rerank_text": "artifact", "rerank_max_chars": 150},
    {"rerank": shortest, "rerank_text": id_of},
    {"rerank": nameless},
    {"boost": by_number},
    {"formulate": two_queries},
    {"formulate": other_query},
    {"surface_weights": {"description": 3.0}},
    {"surface_weights": {"chunk": 0.0}},
]


def name_of(query, options):
    """Return the name of a row: the call."""
    words = [f"{name}={getattr(value, '__name__', value)!r}" for name, value in options.items()]
    return f"search {', '.join([repr(brief(query)), *words])}"


async def search_row(corpus, query, options):
    """Return the row of one search."""
    fields = ["retrieval_score"] if "rerank" in options else []
    if "mode" not in options:
        fields += ["dense_score", "lexical_score"]
    if options.get("fusion") in ("scores", "ranks"):
        fields += ["lexical_share", "dense_weight", "lexical_weight"]
    hits = await airw.search(corpus, query, **options)
    return ranking_row(hits, *fields)


async def record_all(corpus, cases):
    """Return the rows of all cases."""
    return {name_of(query, options): await outcome(search_row(corpus, query, options)) for query, options in cases}


async def record_eips(way, folder):
    async with open_eips(way, folder) as corpus:
        return await record_all(corpus, eip_cases())


async def record_odd(way, folder):
    async with open_new(way, folder, odd()) as corpus:
        rows = await record_all(corpus, odd_cases())
        rows |= await record_hits(corpus)
        rows |= await record_changes(corpus)
        return rows


async def record_hits(corpus):
    """Return whole hits: their text and all fields, which authors name as they like."""
    rows = {}
    for query, options in [("tide storm", {"k": 3}), ("rose", {"k": 3, "mode": "lexical"}), ("🌹", {"k": 2})]:
        for at, hit in enumerate(await airw.search(corpus, query, **options)):
            rows[f"hit {at} of {name_of(query, options)}"] = [hit.source, brief(hit.text), hit.metadata]
    authored = await airw.search(corpus, OTHER, filter={"seed": "rose"}, k=2, mode="dense")
    for at, hit in enumerate(authored):
        rows[f"hit {at} with authors' fields start, end, path, seed, score, walk_depth"] = hit.metadata
    return rows


async def record_changes(corpus):
    """Return what a search finds after upserts and deletions."""
    rows = {}
    for name, change in {
        "an upsert of two": corpus.upsert({"new.md": "a zeppelin over the garden", "hub.md": "a zeppelin at the hub"}),
        "the same upsert": corpus.upsert({"new.md": "a zeppelin over the garden"}),
        "a deletion of one and of none": corpus.delete(["hub.md", "not there"]),
    }.items():
        report = await change
        found = [
            ranking_row(await airw.search(corpus, query, k=3), "dense_score", "lexical_score")
            for query in ("zeppelin", "tide")
        ]
        counts = report if isinstance(report, int) else [report.added, report.updated, report.unchanged, report.removed]
        rows[f"after {name}"] = [counts, *found]
    return rows


async def write_synopsis(artifact):
    """Write a synopsis without a model; none of an artifact with an odd length."""
    text = artifact.raw["text"]
    return f"about {text.split()[0]}" if len(text) % 2 == 0 else ""


RAWS = {
    "loaf": {
        "text": "Knead the dough. " * 20 + "\n\n" + "Bake the loaf at noon. " * 15,
        "name": "Loaf",
        "description": "How to bake a loaf",
        "parent": "bakery",
        "deps": ["flour>=1.2", "water"],
        "summary": "bread, baked",
        "readme": "# Loaf\n\nBread for all.\n\n" + "More on flour. " * 120,
    },
    "key": {"text": "Rotate the signing key twice a year", "name": "Key", "description": "Rotates keys", "deps": []},
    "empty": {"text": "", "name": "", "description": None},
    "wide": {"text": "词" * 450 + " แป้งและเกลือ " * 30, "description": "Wide letters"},
    "lines": {"text": "\n".join(f"line {at} about tides" for at in range(60))},
}
STRATEGIES = {
    "whole": WholeText(text_key="text"),
    "chunked": Chunked(chunk_size=120, overlap=30, text_key="text"),
    "chunked-without-overlap": Chunked(chunk_size=50, overlap=0, text_key="text", kind="part"),
    "skill": Skill(),
    "package": Package(chunk_size=300, overlap=50),
    "package-with-deps": Package(embed_deps=True),
    "synopsis": with_synopsis(
        Chunked(chunk_size=200, overlap=0, text_key="text"), synthesize=write_synopsis, synthesizer_id="first word"
    ),
}
NOTES = {
    "plain.md": "# Plain\n\nFirst paragraph with *marks*.\n\n" + "Second paragraph, which is longer. " * 20,
    "front.md": "---\ntitle: Front\ndescription: Said in front\ntags: [a, b]\n---\nBody of it.",
    "code.md": "```python\nprint('# not a title')\n```\n\n| a | b |\n|---|---|\n\nText after a table.",
    "broken.md": "---\ntitle: [unclosed\n---\nBody after a broken front.",
}


async def record_strategies(way, folder):
    """Return the surfaces that each strategy makes, and what is found in them."""
    rows = {}
    sources = [airw.from_mapping(RAWS, name=name, strategy=made, embedder="light") for name, made in STRATEGIES.items()]
    sources.append(airw.from_mapping(NOTES, name="notes", strategy=Notes(chunk_size=200, overlap=40), embedder="light"))
    for source in sources:
        async with open_new(way, folder, source) as corpus:
            for id in sorted(await ask(corpus.store, ArtifactIds())):
                records = await airw.corpora.records_for_artifact(corpus, id)
                rows[f"surfaces of {id} by {source.name}"] = [
                    [f"{record.surface_kind}.{record.surface_index}", brief(record.text)] for record in records[:12]
                ]
                if records:
                    rows[f"fields of the last surface of {id} by {source.name}"] = records[-1].metadata
            for query in ("bake a loaf", "tides", "paragraph"):
                hits = await airw.search(corpus, query, per_artifact=False, k=5)
                rows[f"{query!r} in surfaces by {source.name}"] = ranking_row(hits)
    return rows
