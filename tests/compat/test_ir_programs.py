"""Programs written for `ir`, run by `ir` and by `airw.compat.ir`, with equal results.

The two runs differ only in the imports of the program. A program leaves its results in `found`. docs/migrating_ir.md
lists the differences that are on purpose. So these programs do not read record ids, versions, BM25 scores, or the
vectors of the light embedder.
"""

import hashlib
import re

import numpy as np
import pytest

pytest.importorskip("ir")

TEXTS = {
    "keys.md": "Rotate the signing keys every year.\n\nKeep the old key until its tokens are gone.",
    "bread.md": "Bake a loaf of bread.\n\nKnead the dough, and wait until it has risen.",
    "deploy.md": "Deploy the app to the server.\n\nSign the build with the signing key before.",
    "garden.md": "Plant the beans in May.\n\nWater the garden in the evening.",
}


def embed(texts, input_type="document"):
    """Embed each word as a direction of its own; both libraries get the same vectors."""
    rows = []
    for text in texts:
        row = np.zeros(64)
        for word in re.findall(r"\w+", text.lower()):
            row += np.random.default_rng(int(hashlib.md5(word.encode()).hexdigest()[:8], 16)).normal(size=64)
        rows.append(row / (np.linalg.norm(row) or 1))
    return np.array(rows, np.float32)


def replace_imports(program):
    """Return a program with imports of `airw.compat.ir`, otherwise unchanged."""
    program = re.sub(r"^import ir$", "import airw.compat.ir as ir", program, flags=re.MULTILINE)
    return re.sub(r"^from ir([. ])", r"from airw.compat.ir\1", program, flags=re.MULTILINE)


@pytest.fixture
def run_both(tmp_path, monkeypatch):
    """Return a function that runs a program with both libraries and returns both results."""

    def run(program):
        founds = []
        for name, text in (("ir", program), ("airw", replace_imports(program))):
            home = tmp_path / name
            home.mkdir()
            for kind in ("CONFIG", "DATA", "CACHE"):
                monkeypatch.setenv(f"IR_{kind}_DIR", str(home / kind))
            monkeypatch.setenv("AIRW_HOME", str(home))
            notes = home / "notes"
            notes.mkdir()
            for file, body in TEXTS.items():
                (notes / file).write_text(body, encoding="utf-8")
            names = {"embed": embed, "texts": dict(TEXTS), "folder": notes}
            exec(compile(text, f"<{name}>", "exec"), names)
            founds.append(names["found"])
        return founds

    return run


def simple(found):
    """Return a result that can be compared: numbers as floats, arrays and tuples as lists."""
    if isinstance(found, dict):
        return {key: simple(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [simple(each) for each in found]
    if isinstance(found, np.ndarray):
        return simple(found.tolist())
    return round(float(found), 4) if isinstance(found, (float, np.floating)) else found


PROGRAMS = {
    "tools for an agent, as in the readme": """
import ir
from ir.store import CorpusStore

tools = [
    {"name": "fetch_url", "description": "Fetch a web page over HTTP and return its text"},
    {"name": "send_email", "description": "Send an email message to a recipient"},
    {"name": "list_files", "description": "List the files in a directory"},
]
source = ir.CorpusSource.from_mcp_tools(tools)  # embeds name + description only
corpus = ir.build(source, store=CorpusStore.memory(), embedder="light")

result = ir.discover(corpus, "fetch the text of a web page", mode="dense")
assert [item.name for item in result.results] == ["fetch_url"]

nothing = ir.discover(corpus, "bake a chocolate cake", mode="dense", min_score=0.3)
assert nothing.abstained  # no tool clears the floor, so the agent is told so

tool = ir.make_search(corpus, name="tools", k=2)
answer = tool("send a message")
named = ir.search_tool("send a message", corpus=corpus, k=2)
assert sorted(named) == sorted(answer)
found = [
    [item.name for item in result.results], nothing.reason, tool.__name__,
    [each["artifact_id"] for each in answer["results"]][:1], tool.__doc__, sorted(answer),
    [each["artifact_id"] for each in named["results"]][:1],
    len(corpus), list(source.scope)
]
""",
    "search, read on, commit": """
import ir
from ir import search, build, Record

corpus = build(
    ir.CorpusSource.from_mapping(
        texts, name="notes", strategy=ir.Chunked(chunk_size=60, overlap=0),
        metadata_of=lambda id, raw: {"size": len(raw)},
    ),
    store=ir.CorpusStore.memory(),
    embedder=embed,
)
hits = search(corpus, "rotate the signing key", k=3)
chunks = corpus.search("rotate the signing key", k=5, per_artifact=False, filter={"size": {"$gt": 75}})
retrieve = ir.as_retriever(corpus, k=2)
records = ir.records_for_artifact(corpus, "keys.md")
assert all(isinstance(record, Record) for record in records)
passage = ir.expand(hits[0], corpus)
whole = ir.expand(hits[0], corpus, policy=ir.parent_policy())
own = ir.expand(hits[0], corpus, policy=lambda hit, siblings: sorted(siblings, key=lambda r: -float(r.vector[0]))[:1])
sel = ir.select(hits, rel=0.5)
payloads = ir.disclose(sel, level="metadata", expand=ir.sentence_window_policy(2), corpus=corpus)
fused = ir.fuse_hits({"a": hits, "b": retrieve("bread")}, k=4)
found = [
    [list(hit.to_dict()) for hit in hits],
    [(hit.artifact_id, hit.text, hit.score, hit.surface_index) for hit in chunks],
    [(hit.artifact_id, hit.text, hit.score, hit.source, hit.metadata["n_chunks"]) for hit in hits],
    [hit.artifact_id for hit in retrieve("bread")],
    [(r.artifact_id, r.surface_kind, r.surface_index, r.text, r.vector, r.metadata["size"]) for r in records],
    passage.text, whole.text, own.text, sel.selected_ids, sel.reason, sel.sufficient,
    [(each.artifact_id, each.passage, each.summary) for each in payloads],
    [(hit.source, hit.artifact_id, hit.score) for hit in fused], len(corpus), retrieve.corpus is corpus,
    sorted(corpus.store.get_config()["embedder_id"]),
]
""",
    "a walk of one's own, which searches on its way": """
import ir
from ir.traverse import DFLT_MAX_DEPTH, WalkState

class Related:
    def seed(self, state, store):
        state.cache["graph"] = ir.CorpusGraph(store)
        return [hit.artifact_id for hit in ir.search(store, state.query, k=1)]
    def score(self, state, node, store):
        return max(float(embed([state.query])[0] @ r.vector) for r in ir.records_for_artifact(store, node))
    def select(self, state, scored):
        return sorted(scored, key=lambda triple: triple[2], reverse=True)
    def expand(self, state, node, store):
        return (each for each in state.cache["graph"].neighbors(node, edge_type="SEE"))
    def node_id(self, node):
        return node
    def stop(self, state):
        return len(state.results) >= state.budget
    def to_hit(self, state, node, score, depth):
        return ir.SearchHit(node, "note", score, "", {"depth": depth, "seen": len(state.visited)})

ring = ["keys.md", "bread.md", "deploy.md", "garden.md"]
def sees(artifact_id, fields):
    return {"SEE": [ring[(ring.index(artifact_id) + 1) % 4]]}

corpus = ir.build(
    ir.CorpusSource.from_mapping(texts, name="ring"), store=ir.CorpusStore.memory(), embedder=embed, edge_extractor=sees
)
assert isinstance(Related(), ir.WalkPolicy)
hits = ir.traverse("rotate the signing keys", corpus, policy=Related())
far = ir.traverse("rotate the signing keys", corpus, policy=Related(), max_depth=9, k=2)
few = ir.traverse("rotate the signing keys", corpus, policy=Related(), max_depth=9, node_budget=3)
graph = ir.CorpusGraph(corpus)
found = [
    [(hit.artifact_id, hit.score, hit.metadata["depth"]) for hit in hits], [hit.artifact_id for hit in far],
    [hit.artifact_id for hit in few], graph.edge_types("keys.md"), [r.text for r in graph["keys.md"]], graph.source,
    DFLT_MAX_DEPTH, WalkState("q", 1, 2).cache, graph.fan_in("keys.md", edge_type="SEE"),
]
""",
    "a strategy of one's own, with synopses to route by": """
import ir

class Lines:
    def __init__(self, skip=0):
        self.skip = skip
    def decompose(self, artifact_id, raw, metadata=None):
        plan = ir.IndexPlan(filter_fields=dict(metadata or {}))
        for line in raw.splitlines()[self.skip:]:
            if line:
                plan.surfaces.append(ir.Surface(artifact_id, "chunk", line, granularity="chunk"))
        return plan

strategy = ir.with_synopsis(Lines(), synthesize=lambda artifact: "About " + artifact.raw[:20], synthesizer_id="start")
source = ir.CorpusSource.from_mapping(texts, name="routed", strategy=strategy)
corpus = ir.build(source, store=ir.CorpusStore.memory(), embedder=embed)
hits = ir.traverse("rotate keys", corpus, policy=ir.collapsed_tree_policy(seed_k=2))
plan = ir.WholeText(kind="page").decompose("a", {"text": "some text"}, {"year": 2026})
thin = ir.make_thin_description_predicate(min_chars=10)
found = [
    [(hit.artifact_id, hit.surface_kind, hit.score, hit.text) for hit in hits],
    [(hit.metadata["walk_depth"], hit.metadata["seed"]) for hit in hits],
    [r.surface_kind for r in ir.records_for_artifact(corpus, "keys.md")],
    [r.text for r in ir.records_for_artifact(corpus, "keys.md", surface_kind="synopsis")],
    plan.filter_fields, [(s.kind, s.text) for s in plan.surfaces], thin(ir.Artifact("a", {"description": "short"})),
    ir.thin_description_predicate(ir.Artifact("a", {"description": "short"})),
]
""",
    "a folder of notes, built, changed and opened again": """
import ir

source = ir.CorpusSource.from_files(folder, name="notes", exclude=lambda path: "garden" in path, strategy=ir.Chunked())
first = ir.build(source, embedder="light")
(folder / "bread.md").unlink()
(folder / "tea.md").write_text("Boil the water for the tea.", encoding="utf-8")
second = ir.build(source, embedder="light")
corpus = ir.open_corpus("notes")
entries = dict(corpus.store.ledger_items())
from ir.base import ledger_key
entry = corpus.store.get_ledger_entry(ledger_key("tea.md"))
[hit] = ir.search("notes", "boil water for tea", k=1)
ids, matrix, metas = corpus.store.matrix()
found = [
    len(second), len(corpus), sorted(each["artifact_id"] for each in entries.values()), entry["artifact_id"],
    len(entry["record_ids"]), hit.artifact_id, hit.source, hit.metadata["filename"], len(ids), len(matrix),
    sorted({meta["artifact_id"] for meta in metas}), corpus.store.get_record(ids[0]).id == ids[0],
    sorted(source.scope), corpus.store.get_ledger_entry("none"), corpus.name,
    corpus.embedder(["a text"]).shape == corpus.embedder(["a text"], input_type="query").shape,
]
""",
    "models in its seams, and several corpora": """
import ir
from ir.select import make_llm_selector

notes = ir.build(ir.CorpusSource.from_mapping(texts, name="notes"), store=ir.CorpusStore.memory(), embedder=embed)
tips = ir.build(
    ir.CorpusSource.from_mapping({"tip": "Rotate signing keys twice.", "soup": "Salt the soup."}, name="tips"),
    store=ir.CorpusStore.memory(), embedder=embed,
)
formulate = ir.make_llm_formulator(rewriter=lambda query: ["rotate keys"])
assert list(formulate("how often?")) == ["rotate keys"]
rewritten = ir.search(notes, "how often?", formulate=formulate, k=2)
def longest(query, segments):
    return [len(segment["text"]) for segment in segments]
longest.rerank_id = "longest"
reranked = ir.search(notes, "signing keys", rerank=longest, k=2)
boosted = ir.search(notes, "signing keys", k=1, dep_boost=lambda hit: 5.0 if hit.artifact_id == "garden.md" else 0.0)
selector = make_llm_selector("bread", chooser=lambda query, candidates: ["bread.md"])
hits = ir.search(notes, "bread", k=3)
chosen = ir.select(hits, strategy=selector)
asked = ir.discover(notes, "bread", strategy=selector, mode="dense")
body = ir.disclose(chosen, loader=lambda metadata: "the whole recipe")
federated = ir.discover([notes, tips], "rotate signing keys", mode="dense", expand=ir.parent_policy(), max_k=2)
found = [
    [(hit.artifact_id, hit.score) for hit in rewritten], [(hit.artifact_id, hit.score) for hit in reranked],
    [(hit.artifact_id, hit.score) for hit in boosted], chosen.selected_ids, asked.ids, [each.body for each in body],
    [(each.source, each.artifact_id, each.passage) for each in federated.results], federated.signals["sources"],
    [(hit.source, hit.artifact_id) for hit in ir.tag_source([ir.SearchHit("a", "k", 1.0, "")], "here")],
]
""",
    "libraries and what depends on them": """
import ir

packages = {
    "pipes": {"name": "pipes", "description": "Pipes", "readme": "Join steps.", "deps": ["Scikit_Learn>=1", "flow"]},
    "flow": {"name": "flow", "description": "Flows", "readme": "Run steps.", "deps": ["scikit-learn", "numpy"]},
    "cake": {"name": "cake", "description": "Cakes", "readme": "Bake.", "deps": ["pipes"]},
}
source = ir.CorpusSource.from_mapping(packages, name="packages", strategy=ir.Package())
corpus = ir.build(
    source, store=ir.CorpusStore.memory(), embedder=embed, edge_extractor=ir.default_edge_extractor
)
graph = ir.CorpusGraph(corpus)
policy = ir.reverse_dependency_policy(seeds=["Scikit-Learn"], fan_in_weight=0.1)
walked = ir.traverse("join steps", corpus, policy=policy)
boost = ir.dependency_evidence_boost({"numpy"}, weight=2.0)
boosted = ir.search(corpus, "cakes", dep_boost=boost, k=1)
found = [
    sorted(graph.neighbors("pipes", edge_type="REF")), graph.edge_types("cake"), graph.neighbors("unknown"),
    sorted(graph.reverse_neighbors("SCIKIT.learn")), graph.fan_in("flow"), graph.max_fan_in(), graph.resolve("Flow"),
    graph.resolve("Scikit_Learn"), graph.resolve(("packages", "pipes")), graph.resolve(["other", "Meshed"]),
    [(hit.artifact_id, hit.metadata["walk_depth"], hit.metadata["seed"], hit.metadata["fan_in"]) for hit in walked],
    boosted[0].artifact_id, isinstance(graph, ir.GraphStore), sorted(dict(corpus.store.link_items())),
    ir.canonical_node_id("dol", source="packages"), corpus.store.get_links("cake"),
]
""",
    "corpora by name, and floors": """
import ir
from ir import eval as ev

ir.register("vault", "files", root=str(folder), embedder="light", strategy=ir.Chunked())
corpus = ir.build_corpus("vault")
registered = ir.corpora()
retrieve = ir.retrievers(mode="dense", k=1)
cases = [
    ev.DiscoveryCase("rotate the signing keys", gold=("keys.md",)),
    ev.DiscoveryCase("knead the dough", gold=("bread.md",)),
    ev.DiscoveryCase("zebra crossing"),
]
ev.save_cases(cases, folder / "cases.jsonl")
calibration = ev.calibrate_min_score(corpus, ev.load_cases(folder / "cases.jsonl"), mode="dense", persist=True)
kept = ev.load_calibration(corpus, "dense")
inside = ir.discover("vault", "rotate the signing keys", mode="dense", min_score="auto")
report = ir.maintain("vault")
found = [
    sorted(registered), registered["vault"]["kind"], [hit.artifact_id for hit in retrieve["vault"]("signing keys")],
    list(retrieve), calibration.reason, kept.min_score == calibration.min_score, inside.ids, inside.abstained,
    corpus.store.calibration_modes(), [(each.name, each.ran) for each in report],
    ir.retriever_for("vault", k=1).corpus.name,
]
""",
    "evaluation of searches and selections": """
import ir
from ir import eval as ev

corpus = ir.build(ir.CorpusSource.from_mapping(texts, name="vault"), store=ir.CorpusStore.memory(), embedder=embed)
cases = [
    ev.DiscoveryCase("rotate the signing keys", ("keys.md",)),
    ev.DiscoveryCase("sign the build", ("deploy.md", "gone")),
    ev.DiscoveryCase("plant bread", ("bread.md", "garden.md")), ev.DiscoveryCase("zebra crossing"),
    ev.DiscoveryCase("the", ("gone",)),
]
reports = [
    ev.evaluate_discovery(corpus, cases, mode="dense", primary_k=k, k_values=(1, 3), abstain_threshold=floor)
    for k, floor in ((2, None), (10, 0.1), (10, 0.9))
]
flat = ev.retrieval_report(corpus, cases, mode="dense", metrics=("mrr", "ndcg"))
selections = [
    ev.evaluate_selection(corpus, cases, mode="dense", strategy=strategy, max_k=max_k, rel=rel)
    for strategy, max_k, rel in (("conservative", 3, 0.9), ("top_k", 2, 0.5), ("score_gap", 3, 0.9))
]
probes = [("signing keys", "deploy.md"), ("bread", "bread.md"), ("water", "gone")]
curve = ev.distractor_robustness_curve(texts, probes, embedder=embed, sizes=(1, 4, 64))
sweep = ev.sweep_selector(corpus, cases, mode="dense", max_k_grid=(1, 2), rel_grid=(0.3, 0.9))
points = sweep.frontier()
found = [
    [(r.primary, dict(r.failure_classes), r.n_gold, r.n_abstention, r.abstention_accuracy) for r in reports],
    [dict(r.retrieval.metrics) for r in reports], dict(reports[1].retrieval.per_query["q00002"]),
    dict(flat.metrics), flat.primary, flat.n_queries, [each.to_dict() for each in selections],
    [(point.params, point.report.to_dict()) for point in sweep.points], sweep.best().params, sweep.n_gold_retrieved,
    sweep.best("mean_selected_size").params, sweep.best("selection_recall", minimize=True).params,
    [point.params for point in points], curve, ev.as_doc_retriever(corpus, mode="dense")("keys", limit=2),
    sorted(ev.corpus_artifact_ids(corpus)), ev.validate_cases(corpus, cases), ev.to_qrels(cases, grade=2.0),
]
""",
    "evaluation of graded cases": """
import ir
from ir import eval as ev

corpus = ir.build(ir.CorpusSource.from_mapping(texts, name="vault"), store=ir.CorpusStore.memory(), embedder=embed)
other = ir.build(
    ir.CorpusSource.from_mapping({**texts, "keys.md": "Water."}, name="other"),
    store=ir.CorpusStore.memory(), embedder=embed,
)
cases = [
    ev.PackageRelevanceCase("keys.md", {"signing": "core"}, thin_description=True),
    ev.PackageRelevanceCase("deploy.md", {"signing": "uses-tools", "food": "none"}, observed={"food": 0.7}),
    ev.PackageRelevanceCase("bread.md", {"food": "strong"}, evidence={"food": "it is"}, observed={"signing": 0.2}),
    ev.PackageRelevanceCase("garden.md", {"food": "tangential"}, is_distractor={"signing": True, "food": False}),
]
ev.save_package_cases(cases, folder / "graded.jsonl", meta={"probes": {"signing": "rotate the signing keys"}})
loaded = ev.load_package_cases(folder / "graded.jsonl")
sets = {theme: ev.derive_named_sets(cases, theme, observed_floor=0.1) for theme in ("signing", "food")}
probes = {"signing": "rotate the signing keys", "food": "bake bread"}
report = ev.evaluate_named_sets(corpus, sets["signing"], probe=probes["signing"], mode="dense", k=2)
compared = ev.compare_indexings(
    {"a": corpus, "b": other, "c": lambda probe, *, k: corpus.search(probe, k=2, mode="dense")}, cases,
    themes=["signing", "food"], probes=probes, named_sets=sets, k=3, mode="dense",
)
row, named = ev.score_ranking(["x", "keys.md", "x", "bread.md"], cases, "signing", k=2, named_sets=sets["signing"])
found = [
    [each.to_dict() for each in loaded] == [each.to_dict() for each in cases], [each.to_dict() for each in loaded],
    ev.read_package_meta(folder / "graded.jsonl"), [each.to_dict() for each in sets.values()], report.to_dict(),
    compared.to_dict()["metrics"], compared.regressions(), compared.regressions(threshold=1, baseline="b"),
    {theme: {id: [c["rank"] for c in e["by_label"].values()] for id, e in entries.items()}
     for theme, entries in compared.deltas.items()},
    row, named, ev.level_histogram(cases, "food"), ev.to_graded_qrels(cases, "signing", probe="keys"),
    ev.fp_rate_on_distractors(["a", "b"], ["b", "b", "c"], k=2), ev.recall_on_hard_positives(["a"], [], k=1),
]
""",
    "generation of cases": """
import ir
from ir import eval_gen as eg

source = ir.CorpusSource.from_mapping(
    {
        "ci-advisor": {"name": "ci-advisor", "description": "The CI advisor explains why a run of the CI failed."},
        "bread": {"text": "Bake a loaf of bread in the oven, and wait until it is brown."},
    },
    name="tools",
)
shown = []

def write(description, *, n):
    shown.append((description, n))
    return ["  why did it fail? ", "ask an advisor about CI", "", f"what is {description[:4]}", "ci_advisor please"]

def invent(*, n, theme):
    return [f"{theme} {number}" for number in range(n + 2)]

cases = eg.build_eval_set(source, k=2, abstention_frac=0.25, query_generator=write, abstention_generator=invent,
                          theme="gardens", corpus_name="tools")
plain = eg.generate_cases(source, query_generator=write, mask_names=False, max_artifacts=1)
found = [
    [each.to_dict() for each in cases], sorted(shown), [each.to_dict() for each in plain],
    [eg.mask_name(text, name) for text, name in [
        ("CI advisor, ci_advisor and ciadvisor; specific", "ci-advisor"), ("a capability", "capability"), ("x y", "x-"),
    ]],
    eg.corpus_signature(source), eg.generate_abstention_cases(0, generator=invent),
]
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_finds_the_same_with_changed_imports(name, run_both):
    theirs, ours = run_both(PROGRAMS[name])
    assert simple(ours) == simple(theirs)
