"""What `discover` commits to, and why.

Also what is revealed of it, the stream of its updates, and walks across several corpora.
"""

import math
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio

import airw
from airw import policies
from airw.discovery import SentenceWindow, SourceAnswered, WholeArtifact
from airw.embedders import HashingEmbedder
from airw.protocols import ArtifactIds, ask
from tests.support.golden_corpora import (
    EACH_WAY,
    EIPS,
    MEMORY,
    SQLITE,
    eip_thirds,
    eips,
    odd,
    odd_documents,
    odd_thirds,
    open_eips,
    open_new,
    run,
)
from tests.support.golden_rows import brief, id_text, make, outcome, present, provenance_of, walk_row

PARTS = ("one", "three-eips", "three-odd", "three-odd-options", "floors", "adapted", "choice", "disclosure")
WAYS = EACH_WAY
QUICK = {
    "one": [],
    "three-eips": [],
    "three-odd": [MEMORY],
    "three-odd-options": [],
    "floors": [MEMORY],
    "adapted": [MEMORY],
    "choice": [MEMORY],
    "disclosure": [SQLITE],
}

EIP_QUERIES = [
    "how do wallets sign typed structured data",
    "gas cost of reading and writing storage",
    "replay protection by chain id",
    "sourdough bread recipe",
    "capital of Mongolia",
    "qzxv wfpl",
    "the of and",
]
ODD_QUERIES = ["rotate the signing keys", "tide", "签名密钥", "spoke of a hub", "qzxv wfpl", "🌹 café"]


def first_and_third(hits):
    """Choose the first and the third hit."""
    return [hits[0], hits[2]] if len(hits) > 2 else []


async def last(hits):
    """Choose the last hit."""
    return hits[-1:]


def shortest(query, texts):
    """Judge a text by its length."""
    return [1 / (1 + len(text)) for text in texts]


def two_queries(query):
    """Ask for the query and for roses."""
    return [query, "rose garden"]


def by_id(hits_by_source):
    """Merge all hits in the order of their ids."""
    return sorted((hit for hits in hits_by_source.values() for hit in hits), key=lambda hit: hit.artifact_id)


def same_kind(hit):
    """Hold hits of the same year for the same thing."""
    return hit.metadata.get("year")


CHOICES = [
    {"strategy": "top_k", "max_k": 5},
    {"strategy": "rel_threshold", "rel": 0.5, "max_k": 6},
    {"strategy": "score_gap", "gap_ratio": 0.8, "max_k": 8},
    {"strategy": "abs_threshold", "min_score": 0.1},
    {"strategy": first_and_third},
    {"strategy": last},
    {"min_score": None},
    {"min_score": 0.17},
    {"min_score": 5.0},
    {"rel": 0.99},
    {"k": 1, "strategy": "top_k"},
    {"k": 40, "strategy": "top_k", "max_k": 12},
    {"mode": "dense"},
    {"mode": "lexical"},
    {"fusion": "scores"},
    {"fusion": "blend"},
    {"fusion": "rrf", "rrf_k": 5},
    {"alpha": 0.9},
    {"rerank": shortest},
    {"formulate": two_queries},
    {"surfaces": ["description"]},
    {"surface_weights": {"description": 2.0}},
    {"walk": True},
    {"walk": "Eager", "node_budget": 5},
    {"walk": "PersonalizedPageRank", "node_budget": 12, "strategy": "top_k"},
]
EIP_CHOICES = [{"filter": {"status": "Final"}}, {"dedup_by": "author", "strategy": "top_k", "max_k": 5}]
MERGES = [
    {"merge": "blend"},
    {"merge": "score", "mode": "dense"},
    {"merge": "score"},
    {"merge": "rrf-by-source"},
    {"merge": by_id},
    {"merge_rrf_k": 3},
    {"merge_weights": {"left": 3.0, "early": 3.0}},
    {"merge": "rrf-by-source", "merge_weights": {"right": 0.1, "late": 0.1}},
    {"identity": "pointer"},
    {"identity": same_kind, "strategy": "top_k", "max_k": 6},
    {"dedup_by": "kind", "strategy": "top_k", "max_k": 6},
    {"min_score": {"left": 9.0, "early": 9.0}},
]


def record(part, way, folder):
    recordings = {
        "one": record_one,
        "three-eips": record_three_eips,
        "three-odd": record_three_odd,
        "three-odd-options": record_options,
        "floors": record_floors,
        "adapted": record_adapted,
        "choice": record_choice,
        "disclosure": record_disclosure,
    }
    return run(recordings[part], way, folder)


def name_of(query, options):
    """Return the name of a row: the call."""
    words = [f"{name}={getattr(value, '__name__', value)!r}" for name, value in options.items()]
    return f"discover {', '.join([repr(query), *words])}"


def result_row(result):
    """Return the facts of a result: what was selected, and why."""
    found = [[f"{each.source} {each.artifact_id}", each.score] for each in result.results]
    facts = [result.reason, result.abstained, result.n_retrieved, result.mode, result.strategy]
    return {"found": found, "facts": facts, "signals": signals_of(result.signals)}


def signals_of(signals):
    """Return the numbers and words of a decision, without times and sentences."""
    untold = ("explanation", "seconds", "error", "per_source", "floor_note", "walk")
    row = {name: value for name, value in present(signals).items() if name not in untold}
    for source, report in signals.get("per_source", {}).items():
        row[f"of {source}"] = signals_of(report)
    if "walk" in signals:
        row["walk"] = present({**signals["walk"], "seconds": 0})
    return row


async def discover_row(corpora, query, options):
    """Return the row of one discovery."""
    if isinstance(options.get("walk"), str):
        options = {**options, "walk": getattr(policies, options["walk"])()}
    return result_row(await airw.discover(corpora, query, **options))


async def record_all(corpora, cases):
    """Return the rows of discoveries; each case is a query and its options."""
    return {name_of(query, options): await outcome(discover_row(corpora, query, options)) for query, options in cases}


async def record_one(way, folder):
    cases = [(query, {}) for query in EIP_QUERIES]
    cases += [(EIP_QUERIES[1], options) for options in CHOICES + EIP_CHOICES]
    cases += [(query, {"mode": mode}) for query in EIP_QUERIES[3:6] for mode in ("dense", "lexical")]
    async with open_eips(way, folder) as corpus:
        rows = await record_all(corpus, cases)
        rows["a list of one"] = result_row(await airw.discover([corpus], EIP_QUERIES[0]))
        rows["a mapping of one"] = result_row(await airw.discover({"other": corpus}, EIP_QUERIES[0]))
        for event in await updates_of(corpus, EIP_QUERIES[0]):
            rows[f"stream of one: {event[0]}"] = event
    return rows


async def updates_of(corpora, query, **options):
    """Return the updates of a stream, without what depends on which answers first."""
    rows = []
    async with airw.discover_stream(corpora, query, **options) as updates:
        async for update in updates:
            if isinstance(update, SourceAnswered):
                rows.append([f"answer of {update.source}", signals_of(update.report), len(update.hits)])
            else:
                rows.append(["result", result_row(update)])
    return rows


async def open_all(stack, way, folder, sources):
    """Open a corpus of each source."""
    return [await stack.enter_async_context(open_new(way, folder, source)) for source in sources]


async def record_three_eips(way, folder):
    cases = [(query, {}) for query in EIP_QUERIES]
    cases += [(EIP_QUERIES[0], options) for options in CHOICES + EIP_CHOICES + MERGES]
    async with AsyncExitStack() as stack:
        corpora = await open_all(stack, way, folder, eip_thirds())
        return {**await record_all(corpora, cases), **floors_of(corpora)}


def floors_of(corpora):
    """Return the floors that the builds measured."""
    return {
        f"floor of {corpus.name}, {mode}": [floor.reason, floor.min_evidence, floor.own_kept, floor.foreign_rejected]
        for corpus in corpora
        for mode, floor in corpus.report.floors.items()
    }


async def record_three_odd(way, folder):
    cases = [(query, {}) for query in ODD_QUERIES]
    cases += [(ODD_QUERIES[0], options) for options in MERGES[::2]]
    cases += [("tide", options) for options in CHOICES[::7]]
    async with AsyncExitStack() as stack:
        corpora = await open_all(stack, way, folder, odd_thirds())
        rows = await record_all(corpora, cases)
        rows |= floors_of(corpora)
        rows |= await record_as_one(corpora)
        rows |= await record_federated(corpora)
        await corpora[1].aclose()
        rows["discover, one of three closed"] = await outcome(discover_row(corpora, "tide", {}))
        rows["discover, only a closed one"] = await outcome(discover_row([corpora[1]], "tide", {}))
        walk = airw.traverse("tide", airw.FederatedCorpus(corpora), policy=make("Eager", {"start_k": 2}), node_budget=6)
        rows["federated walk, one of three closed"] = await outcome(walk_row(walk))
        strict = airw.FederatedCorpus(corpora, on_error="raise")
        walk = airw.traverse("tide", strict, policy=make("Eager", {"start_k": 2}), node_budget=6)
        rows["federated walk, one of three closed, on_error='raise'"] = await outcome(walk_row(walk))
    return rows


async def record_floors(way, folder):
    """Return what the floors of two builds let pass, and the evidence of each query."""
    sources = [eips("short", r"^eip-[1-9]\d?\d?\.md$"), eips("signed", r"^eip-1[0-5]\d\d\.md$")]
    queries = ["replay protection by chain id", "token standard", "typed structured data", *EIP_QUERIES[3:]]
    cases = [(query, {"mode": mode}) for query in queries for mode in ("dense", "lexical", "hybrid")]
    cases += [(queries[0], options) for options in CHOICES[::4] + EIP_CHOICES]
    cases += [(queries[2], {"min_score": floors}) for floors in ({"short": "auto"}, {"short": None, "signed": "auto"})]
    async with AsyncExitStack() as stack:
        corpora = await open_all(stack, way, folder, sources)
        rows = await record_all(corpora, cases)
        alone = await record_all(corpora[0], cases[: len(cases) - 2])
        rows |= {f"short alone: {name}": row for name, row in alone.items()}
        other = {"x": corpora[1], "y": corpora[0]}
        rows["by other names"] = result_row(await airw.discover(other, queries[2], strategy="top_k"))
        return rows | floors_of(corpora)


async def record_options(way, folder):
    """Return discoveries with each option, and whether three corpora answer as one does."""
    cases = [(ODD_QUERIES[0], options) for options in CHOICES] + [("tide", options) for options in MERGES]
    async with AsyncExitStack() as stack:
        corpora = await open_all(stack, way, folder, odd_thirds())
        rows = await record_all(corpora, cases)
        whole = await stack.enter_async_context(open_new(way, folder, odd()))
        for query in ODD_QUERIES:
            options = {"strategy": "top_k", "max_k": 5, "min_score": None}
            one = await airw.discover(whole, query, **options)
            three = await airw.discover(corpora, query, **options)
            same = all(
                math.isclose(a.score, b.score, rel_tol=1e-6) for a, b in zip(one.results, three.results, strict=True)
            )
            rows[f"three corpora as one: {query}"] = [one.ids == three.ids, same, one.ids]
    return rows


async def record_as_one(corpora):
    """Return what does not depend on the order of the corpora nor on that of their answers."""
    rows = {}
    for query in ODD_QUERIES[:3]:
        backwards = await airw.discover(corpora[::-1], query)
        forwards = await airw.discover(corpora, query)
        events = await updates_of(corpora, query)
        answers = sorted(event[0] for event in events[:-1])
        same = events[-1] == ["result", result_row(forwards)]
        rows[f"in any order: {query}"] = [backwards.ids == forwards.ids, answers, same]
    return rows


FEDERATED = [
    ("PathCoverage", {"seed_k": 3}, {"node_budget": 9}),
    ("Eager", {"start_k": 2, "select_k": 9}, {}),
    ("Eager", {"start_k": 2, "select_k": 7, "direction": "out", "types": ["abroad"]}, {}),
    ("Eager", {"start_k": 2, "select_k": 7, "edges": [("kind", "kind")]}, {"node_budget": 8}),
    ("Scored", {"start_k": 2, "select_k": 6}, {}),
    ("Mmr", {"start_k": 3, "select_k": 6}, {}),
    ("Beam", {"seed_k": 2, "width": 2}, {}),
    ("PersonalizedPageRank", {"seed_k": 2}, {"node_budget": 9}),
    ("LinkWalk", {"roots": [("left", "chain-00.md")], "direction": "out", "max_depth": 4}, {}),
    ("LinkWalk", {"roots": [("centre", "hub.md")]}, {"node_budget": 9}),
    ("LinkWalk", {"roots": [("left", "no such note")]}, {}),
    ("LinkWalk", {"start_k": 2, "weighted": True, "max_depth": 1}, {"node_budget": 9}),
    ("CollapsedTree", {"seed_k": 3}, {}),
]


async def record_federated(corpora):
    """Return walks across three corpora, and one graph of them."""
    graph = airw.FederatedCorpus(corpora)
    rows = {}
    for policy, options, bounds in FEDERATED:
        walk = airw.traverse("tide at the quay", graph, policy=make(policy, options), **bounds)
        rows[f"federated walk {policy}({options}), {bounds}"] = await outcome(walk_row(walk))
    whole = airw.links.CorpusGraph(graph)
    path = await whole.path(("left", "blank-0.md"), ("right", "blank-5.md"), direction="out")
    rows["path across corpora"] = [[id_text(node) for node in path.nodes], path.cost, path.left_out]
    hits = await airw.top_k(airw.traverse("tide at the quay", graph, node_budget=9), 4)
    rows["federated provenance"] = [[id_text((hit.source, hit.artifact_id)), provenance_of(hit)] for hit in hits]
    names = ["hub", "blank-0.md", ("left", "hub"), ("centre", "hub"), ("right", "hub.md"), "nothing"]
    rows["resolve across corpora"] = [id_text(found) for found in await whole.resolve(names)]
    rows["fan in across corpora"] = await whole.fan_in([("centre", "hub.md"), ("left", "hub.md"), ("right", "hub.md")])
    rows["counts across corpora"] = sorted(
        [each.type, each.origin, each.state, each.count] for each in await whole.link_counts()
    )
    rows["parts across corpora"] = [len(part) for part in await whole.components()][:6]
    unresolved = [[id_text(each.source), each.state, each.link.target_ref] for each in await whole.unresolved_links()]
    rows["unresolved across corpora"] = unresolved[:10]
    ids = [(corpus.name, sorted(await ask(corpus.store, ArtifactIds()))[5]) for corpus in corpora]
    edges = await whole.neighbors(ids, direction="both")
    rows["neighbors across corpora"] = [
        [[id_text(e.source), id_text(e.target), e.type] for e in found] for found in edges
    ]
    return rows


@dataclass
class Gated:
    """An embedder that waits at its gate, so that the order of answers is known."""

    id: str
    gate: anyio.Event | None = None
    error: Exception | None = None
    dim: int = HashingEmbedder().dim

    async def embed_documents(self, texts):
        return await HashingEmbedder().embed_documents(texts)

    async def embed_query(self, text):
        if self.gate:
            await self.gate.wait()
        if self.gate and self.error:
            await anyio.sleep(0.3)  # meanwhile its corpus has counted the words of the query: those counts stay
            raise self.error
        return await HashingEmbedder().embed_query(text)


ADAPTED = [
    {},
    {"mode": "dense"},
    {"strategy": "top_k", "max_k": 5},
    {"merge": "rrf-by-source"},
    {"filter": {"kind": "note"}},
]


async def record_adapted(way, folder):
    """Return discoveries over functions, and streams whose corpora answer in an order."""
    rows = {}
    documents = {id: text for id, (text, _) in odd_documents().items() if len(text) < 300 and "tide" in text.casefold()}
    parts = {name: dict(list(documents.items())[at::3]) for at, name in enumerate(("first", "second", "third"))}
    corpora = [airw.adapt(search=finder(texts), get=reader(texts), name=name) for name, texts in parts.items()]
    for query in ("tide", "rotate keys", "qzxv"):
        for options in ADAPTED:
            rows[f"adapted: {name_of(query, options)}"] = await outcome(discover_row(corpora, query, options))
            rows[f"adapted, first: {name_of(query, options)}"] = await outcome(discover_row(corpora[0], query, options))
    broken = airw.adapt(search=refuse, name="broken")
    rows["adapted with a broken one"] = await outcome(discover_row([*corpora, broken], "tide", {}))
    rows["adapted, only a broken one"] = await outcome(discover_row([broken], "tide", {}))
    async with AsyncExitStack() as stack:
        mixed = [
            *corpora[:2],
            *await open_all(stack, way, folder, [odd("built", dict(list(odd_documents().items())[:60]))]),
        ]
        for options in ({}, {"merge": "rrf-by-source"}, {"merge": "blend"}, {"mode": "lexical"}):
            rows[f"adapted and built: {name_of('tide', options)}"] = await outcome(discover_row(mixed, "tide", options))
        embedders = [Gated(f"model {name}") for name in parts]
        sources = [
            airw.from_mapping(texts, name=name, embedder=embedder)
            for (name, texts), embedder in zip(parts.items(), embedders, strict=True)
        ]
        gated = await open_all(stack, way, folder, sources)
        for order in ("012", "210", "120"):
            for options in ({}, {"k": 3}, {"fusion": "rrf"}, {"merge": "rrf-by-source"}):
                rows |= await record_gated(gated, embedders, order, options)
    return rows


def finder(texts):
    """Return a search by common words."""

    def find(query, k):
        words = set(query.split())
        found = [(id, len(words & set(text.split()))) for id, text in texts.items()]
        return sorted((pair for pair in found if pair[1]), key=lambda pair: (-pair[1], pair[0]))[:k]

    return find


def reader(texts):
    """Return a function that reads texts."""
    return lambda ids: [texts.get(id) for id in ids]


def refuse(query, k):
    """Fail as a server does."""
    raise OSError("no answer")


async def record_gated(corpora, embedders, order, options):
    """Return the updates of a stream; with a `k`, the second corpus to answer fails.

    A partial ranking depends on how far the other corpora have counted the words of the query. So of each update only
    those hits are told that can no longer change, and they must be the first of the last ranking.
    """
    for embedder in embedders:
        embedder.gate, embedder.error = anyio.Event(), None
    turns = [embedders[int(at)] for at in order]
    if "k" in options:
        turns[1].error = airw.errors.EmbedderError("gone")
    turns.pop(0).gate.set()
    answers, result = [], None
    async with airw.discover_stream(corpora, "tide of the hub", **options) as updates:
        async for update in updates:
            if not isinstance(update, SourceAnswered):
                result = update
                continue
            answers.append(update)
            if turns:
                turns.pop(0).gate.set()
    last = [[f"{hit.source} {hit.artifact_id}", hit.score] for hit in answers[-1].ranking]
    final = [[f"{hit.source} {hit.artifact_id}" for hit in update.final] for update in answers]
    facts = [[each.source, list(each.pending), each.report["status"], len(each.hits)] for each in answers]
    name = f"stream, answers {order}, {options}: "
    return {
        f"{name}answers": facts,
        f"{name}final hits stay": all(found == [id for id, _ in last[: len(found)]] for found in final),
        f"{name}last ranking": [len(final[-1]), last],
        f"{name}result": result_row(result),
    }


SCORES = {
    "falling": [0.9, 0.85, 0.5, 0.45, 0.1],
    "equal": [0.5, 0.5, 0.5, 0.5],
    "zero": [0.0, 0.0],
    "negative": [-0.1, -0.2],
    "nan": [math.nan, 0.4],
    "one": [0.3],
    "none": [],
}
SELECTIONS = [
    {},
    {"strategy": "top_k", "max_k": 2},
    {"strategy": "rel_threshold", "rel": 0.5},
    {"strategy": "score_gap"},
    {"strategy": "score_gap", "gap_ratio": 0.95, "max_k": 9},
    {"strategy": "abs_threshold", "min_score": 0.45, "max_k": 9},
    {"min_score": 0.6},
    {"min_score": 0.95},
    {"max_k": 1},
    {"rel": 1.0},
    {"strategy": first_and_third},
]


async def record_choice(way, folder):
    """Return what `select` keeps of scores, and what `fuse_hits` makes of rankings."""
    rows = {}
    for name, scores in SCORES.items():
        hits = [airw.SearchHit(f"{at}", "document", score, "") for at, score in enumerate(scores)]
        for options in SELECTIONS:
            chosen = airw.select(hits, **options)
            facts = {key: value for key, value in present(chosen.signals).items() if key != "explanation"}
            facts = {
                key: str(value) if isinstance(value, float) and math.isnan(value) else value
                for key, value in facts.items()
            }
            words = {key: getattr(value, "__name__", value) for key, value in options.items()}
            rows[f"select {name} {words}"] = [
                chosen.selected_ids,
                chosen.reason,
                chosen.abstained,
                chosen.sufficient,
                facts,
            ]

    def hit(id, score, source, **fields):
        return airw.SearchHit(id, "document", score, id, fields, source)

    lists = {
        "a": [hit("x", 9.0, "a", path="/1"), hit("y", 8.0, "a", path="/2"), hit("z", 7.0, "a")],
        "b": [hit("y", 0.3, "b", path="/1"), hit("w", 0.2, "b", path="/3"), hit("x", 0.1, "b")],
        "c": [],
    }
    for options in (
        {},
        {"rrf_k": 1},
        {"weights": {"a": 2.0, "b": 0.5}},
        {"identity": "pointer"},
        {"identity": airw.SearchHit.key},
        {"k": 2},
    ):
        try:
            fused = airw.fuse_hits(lists, **options)
        except (airw.AirwError, TypeError) as error:
            rows[f"fuse_hits {sorted(options)}"] = type(error).__name__
            continue
        name = {key: "key" if callable(value) else value for key, value in options.items()}
        rows[f"fuse_hits {name}"] = [
            [f"{found.source} {found.artifact_id}", found.score, found.metadata] for found in fused
        ]
    return rows


def every_other(hit, records):
    """Choose every other record."""
    return records[::2]


def disclosure_row(found, folder):
    """Return the facts of a disclosure; paths below a folder without it."""
    pointer = found.pointer and Path(found.pointer).name
    notes = {name: found.metadata[name] for name in ("disclosure", "expansion") if name in found.metadata}
    texts = [found.body and brief(found.body), found.passage and brief(found.passage), brief(found.summary)]
    return [
        f"{found.source} {found.artifact_id}",
        found.name,
        found.level,
        found.score,
        pointer,
        texts,
        found.truncated,
        list(found.bundle),
        notes,
    ]


async def record_disclosure(way, folder):
    """Return what is disclosure_row of notes and skills, and the passages around hits."""
    skills = folder / "skills"
    for name, text in {"bake": "Bake a loaf of rye", "rotate": "Rotate the signing keys"}.items():
        (skills / name / "parts").mkdir(parents=True)
        (skills / name / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: {text}\n---\n\n# {name}\n\n" + f"{text}. " * 30
        )
        (skills / name / "parts" / "more.md").write_text("more")
        (skills / name / "run.py").write_text("print()")
    (skills / "rotate" / "long.txt").write_text("x" * 30_000)
    rows = {}
    async with AsyncExitStack() as stack:
        eips = airw.from_notes(EIPS, name="few", pattern=r"^eip-(712|155|191|20|1474)\.md$", embedder="light")
        taught = airw.from_skills(roots=[skills], embedder="light")
        notes, abilities = await open_all(stack, way, folder, [eips, taught])
        both, query = [notes, abilities], "rotate the signing keys of typed structured data"
        selection = airw.select(
            [*await airw.search(notes, query, k=2), *await airw.search(abilities, query, k=2)],
            strategy="top_k",
            max_k=4,
        )
        bodies = {
            str(hit.metadata.get("path") or hit.metadata.get("skill_path")): "stored" for hit in selection.selected[:1]
        }
        for name, options in {
            "metadata": {"level": "metadata"},
            "body": {"level": "body", "roots": [EIPS, skills]},
            "body below one root": {"level": "body", "roots": [skills]},
            "bundled": {"level": "bundled", "roots": [EIPS, skills]},
            "loader": {"loader": min},
            "loader that fails": {"loader": lambda metadata: metadata["no such field"]},
            "store": {"store": bodies},
            "no root": {},
            "window": {"level": "metadata", "expand": SentenceWindow(2), "corpus": both},
            "whole": {"level": "metadata", "expand": WholeArtifact(), "corpus": both},
            "whole of one corpus": {"level": "metadata", "expand": WholeArtifact(), "corpus": {"few": notes}},
        }.items():
            answer = await outcome(airw.disclose(selection, **options))
            found = [disclosure_row(each, folder) for each in answer] if isinstance(answer, list) else answer
            rows[f"disclose {name}"] = found
        for level in ("metadata", "body", "bundled"):
            options = {"disclose_level": level, "roots": [EIPS, skills], "strategy": "top_k"}
            result = await airw.discover(both, query, **options)
            rows[f"discover at level {level}"] = [disclosure_row(each, folder) for each in result.results]
        return rows | await record_passages(notes)


async def record_passages(corpus):
    """Return the passages around hits by several policies."""
    rows = {}
    for query in ("tide of the signing key", "rotate"):
        for hit in await airw.search(corpus, query, k=2, surfaces=["chunk"]):
            for name, policy in {
                "default": None,
                "0": SentenceWindow(0),
                "3": SentenceWindow(3),
                "whole": WholeArtifact(),
                "every other": every_other,
                "none": lambda hit, records: [],
            }.items():
                passage = await airw.expand(hit, corpus, policy=policy)
                facts = [len(passage.record_ids), passage.surface_index, passage.score, brief(passage.text)]
                rows[f"expand {hit.artifact_id}.{hit.surface_index} of {corpus.name} by {name}: {query}"] = facts
    lost = airw.SearchHit("no such note", "chunk", 1.0, "", {}, corpus.name, 0)
    rows[f"expand nothing of {corpus.name}"] = await outcome(airw.expand(lost, corpus))
    return rows
