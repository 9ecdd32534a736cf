"""airw has all names of the reference of `ir`, or a row that names the replacement.

Parameters and defaults count, too.
`NAMES` contains the names that the pages of `ir` list. `DIFFERENCES` lists different names and parameters, `ELSEWHERE`
names that are called otherwise: each with its row in docs/migrating_ir.md, the text in backticks at the beginning of
the row. Both tables are exact: an entry that no longer differs must be removed.
"""

import dataclasses
import inspect
import re
from collections.abc import Sized
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

import pytest

import airw
import airw.retrieval

PLACES = (
    airw,
    airw.values,
    airw.indexing,
    airw.sources,
    airw.corpora,
    airw.retrieval,
    airw.links,
    airw.discovery,
    airw.protocols,
    airw.walking,
    airw.policies,
)
MIGRATING = Path(__file__).parents[2] / "docs" / "migrating_ir.md"
ANY = object()
"""The parameter must have a default, whatever its value."""

SUMMARY_KINDS = ("description", "synopsis", "capability", "document")
LEAF_KINDS = ("chunk", "readme_chunk")

SEARCH = "k=10, mode='dense', filter=None, surfaces=None, per_artifact=True"
SELECT = "strategy='conservative', max_k=3, rel=0.9, gap_ratio=0.5, min_score=None"

NAMES = {
    # values
    "Artifact": "(id, raw, metadata={})",
    "Surface": "(artifact_id, kind, text, granularity='document', metadata={})",
    "IndexPlan": "(filter_fields={}, surfaces=[])",
    "Record": "(id, artifact_id, surface_kind, surface_index, text, vector, metadata={})",
    "Record.make_id": "(artifact_id, surface_kind, surface_index)",
    "SearchHit": "(artifact_id, surface_kind, score, text, metadata={}, source=None, surface_index=None)",
    "SearchHit.pointer": "",
    "SearchHit.to_dict": "(self)",
    "Passage": "(artifact_id, surface_kind, score, text, record_ids=(), source=None, surface_index=None)",
    "Passage.to_dict": "(self)",
    # sources and strategies
    "WholeText": "(*, text_key=None, kind='document')",
    "Chunked": "(*, chunk_size=1200, overlap=200, text_key=None, kind='chunk')",
    "Package": "(*, chunk_size=1500, overlap=200)",
    "Skill": "()",
    "IndexingStrategy": "",
    "with_synopsis": "(strategy, *, synthesize=None, synthesizer_id=None, synopsis_kind='synopsis')",
    "make_llm_synthesizer": "(*, summarize=None, prompt=ANY, model=None, synthesizer_id=None, text_key=None)",
    "CorpusSource": "(name, scope, indexing_strategy=ANY, change_signal=ANY, embedder='default', metadata_of=None)",
    "CorpusSource.change_signal": "",
    "CorpusSource.items": "(self)",
    "CorpusSource.from_files": "(root, *, name=None, pattern='.*\\\\.md$', exclude=None, strategy=None)",
    "CorpusSource.from_mapping": "(mapping, *, name, strategy=None)",
    "CorpusSource.from_md_reports": "(*, name='reports', projects_root=None, strategy=None)",
    "CorpusSource.from_packages": "(*, name='packages', manifest=None, readme_chars=20000, strategy=None)",
    "CorpusSource.from_skills": "(*, name='skills', filter=None, fetcher=None, strategy=None)",
    # corpora
    "Corpus": "(name, store, embedder, embedder_id)",
    "Corpus.search": f"(self, query, *, {SEARCH})",
    "CorpusStore": "(meta, vectors, ledger, config, calibration=None, links=None)",
    "CorpusStore.calibration_modes": "",
    "CorpusStore.delete_ledger_entry": "",
    "CorpusStore.delete_links": "",
    "CorpusStore.delete_record": "",
    "CorpusStore.get_calibration": "",
    "CorpusStore.get_config": "",
    "CorpusStore.get_ledger_entry": "",
    "CorpusStore.get_links": "",
    "CorpusStore.get_record": "",
    "CorpusStore.ledger_items": "",
    "CorpusStore.link_items": "",
    "CorpusStore.local": "",
    "CorpusStore.matrix": "",
    "CorpusStore.memory": "",
    "CorpusStore.put_record": "",
    "CorpusStore.record_ids": "",
    "CorpusStore.set_calibration": "",
    "CorpusStore.set_config": "",
    "CorpusStore.set_ledger_entry": "",
    "CorpusStore.set_links": "",
    "build": "(source, *, store=None, embedder=None, full=True, batch_size=256, edge_extractor=None)",
    "open_corpus": "(name, *, embedder=None)",
    "register": "(name, kind, *, embedder='default')",
    "build_corpus": "(name)",
    "corpora": "()",
    "retrievers": "()",
    "retriever_for": "(name)",
    # finding
    "search": f"(corpus, query, *, {SEARCH})",
    "as_retriever": f"(corpus_or_name, *, {SEARCH})",
    "records_for_artifact": "(store_or_corpus, artifact_id, *, surface_kind=None)",
    "fuse_hits": "(hits_by_source, *, rrf_k=60, weights=None, identity=None, k=None)",
    "tag_source": "(hits, source)",
    "make_llm_formulator": "(*, rewriter=None, prompt=ANY, n=3, fallback=None)",
    "select": f"(hits, *, {SELECT})",
    "Selection": "(selected, candidates, abstained, reason, signals={})",
    "Selection.selected_ids": "",
    "Selection.sufficient": "",
    "Selection.to_dict": "(self)",
    "disclose": "(selection, *, level='body', loader=None, store=None, expand=None, corpus=None)",
    "Disclosure": "(artifact_id, level, name, score, summary, body=None, pointer=None, metadata={}, source=None, "
    "passage=None)",
    "Disclosure.to_dict": "(self)",
    "discover": "(corpus, query, *, k=10, mode='hybrid', disclose_level='metadata', filter=None, surfaces=None, "
    f"{SELECT}, merge='rrf', merge_weights=None, merge_rrf_k=None, loader=None, store=None, expand=None)",
    "DiscoveryResult": "(query, mode, strategy, disclose_level, results, abstained, reason, n_retrieved, signals={})",
    "DiscoveryResult.ids": "",
    "DiscoveryResult.to_dict": "(self)",
    "expand": "(hit, corpus, *, policy=None)",
    "sentence_window_policy": "(k=1)",
    "parent_policy": "()",
    # graphs and walks
    "GraphStore": "",
    "CorpusGraph": "(store_or_corpus)",
    "CorpusGraph.edge_types": "(self, node_id)",
    "CorpusGraph.neighbors": "(self, node_id, *, edge_type=None)",
    "CorpusGraph.source": "",
    "canonical_node_id": "(target, *, source)",
    "default_edge_extractor": "(artifact_id, filter_fields)",
    "traverse": "(query, store, *, policy, max_depth=2, node_budget=64, k=10)",
    "WalkPolicy.seed": "",
    "WalkPolicy.score": "",
    "WalkPolicy.select": "",
    "WalkPolicy.expand": "",
    "WalkPolicy.node_id": "",
    "WalkPolicy.stop": "",
    "WalkPolicy.to_hit": "",
    "WalkState": "(query, max_depth, budget, visited=set(), results=[], cache={})",
    "WalkState.query": "",
    "WalkState.max_depth": "",
    "WalkState.budget": "",
    "WalkState.visited": "",
    "WalkState.results": "",
    "WalkState.cache": "",
    "collapsed_tree_policy": f"(*, summary_kinds={SUMMARY_KINDS}, leaf_kinds={LEAF_KINDS}, seed_k=10)",
    "DFLT_LEAF_KINDS": "",
    "DFLT_SUMMARY_KINDS": "",
    "DFLT_MAX_DEPTH": "",
    "DFLT_SEED_K": "",
}
"""Each name with its parameters; without any where only the name is compared: attributes, protocols, constants."""

ELSEWHERE = {
    "CorpusSource.from_files": ("from_files", "CorpusSource.from_files(…)"),
    "CorpusSource.from_mapping": ("from_mapping", "CorpusSource.from_mapping(…)"),
    "CorpusSource.from_md_reports": ("from_md_reports", "CorpusSource.from_md_reports(…)"),
    "CorpusSource.from_packages": ("from_packages", "CorpusSource.from_packages(…)"),
    "CorpusSource.from_skills": ("from_skills", "CorpusSource.from_skills(…)"),
    "DFLT_LEAF_KINDS": ("policies.collapsed_tree.LEAF_KINDS", "traverse.DFLT_LEAF_KINDS"),
    "DFLT_SUMMARY_KINDS": ("policies.collapsed_tree.SUMMARY_KINDS", "traverse.DFLT_SUMMARY_KINDS"),
    "collapsed_tree_policy": ("policies.CollapsedTree", "collapsed_tree_policy(…)"),
    "corpora": ("corpora.list_corpora", "corpora()"),
    "GraphStore": ("links.NeighborStore", "GraphStore"),
    "IndexingStrategy": ("protocols.IndexingStrategy", "IndexingStrategy"),
    "parent_policy": ("discovery.WholeArtifact", "parent_policy()"),
    "sentence_window_policy": ("discovery.SentenceWindow", "sentence_window_policy(…)"),
}
"""What is not where it was: where it is, below `airw`, and its row."""

TRAVERSE = "traverse(query, store, policy=…, max_depth=2, node_budget=64, k=10)"
WALK_STATE = "WalkState(query, max_depth, budget, …)"

DIFFERENCES = {
    "as_retriever(mode)": 'mode="dense"',
    "discover(min_score)": "min_score=None",
    "search(mode)": 'mode="dense"',
    "Corpus(embedder_id)": "Corpus(embedder_id=…)",
    "Corpus.search(mode)": 'mode="dense"',
    "CorpusStore": "CorpusStore(…)",
    "CorpusStore.calibration_modes": "store.calibration_modes()",
    "CorpusStore.delete_ledger_entry": "store.delete_ledger_entry(key)",
    "CorpusStore.delete_links": "store.delete_links(id)",
    "CorpusStore.delete_record": "store.delete_record(id)",
    "CorpusStore.get_calibration": "store.get_calibration(mode)",
    "CorpusStore.get_config": "store.get_config()",
    "CorpusStore.get_ledger_entry": "store.get_ledger_entry(key)",
    "CorpusStore.get_links": "store.get_links(id)",
    "CorpusStore.get_record": "store.get_record(id)",
    "CorpusStore.ledger_items": "store.ledger_items()",
    "CorpusStore.link_items": "store.link_items()",
    "CorpusStore.local": "CorpusStore.local(name)",
    "CorpusStore.matrix": "store.matrix()",
    "CorpusStore.memory": "CorpusStore.memory()",
    "CorpusStore.put_record": "store.put_record(record)",
    "CorpusStore.record_ids": "store.record_ids()",
    "CorpusStore.set_calibration": "store.set_calibration(mode, record)",
    "CorpusStore.set_config": "store.set_config(settings)",
    "CorpusStore.set_ledger_entry": "store.set_ledger_entry(key, entry)",
    "CorpusStore.set_links": "store.set_links(id, edges)",
    "CorpusGraph.edge_types(ids)": "graph.edge_types(id)",
    "CorpusGraph.edge_types(node_id)": "graph.edge_types(id)",
    "CorpusGraph.neighbors(edge_type)": "graph.neighbors(id, edge_type=…)",
    "CorpusGraph.neighbors(ids)": "graph.neighbors(id, edge_type=…)",
    "CorpusGraph.neighbors(node_id)": "graph.neighbors(id, edge_type=…)",
    "DFLT_MAX_DEPTH": "traverse.DFLT_MAX_DEPTH",
    "DFLT_SEED_K": "traverse.DFLT_SEED_K",
    "Record(metadata)": "Record(vector=…)",
    "Record(vector)": "Record(vector=…)",
    "WalkPolicy.to_hit": "WalkPolicy.to_hit",
    "WalkState(_progress)": WALK_STATE,
    "WalkState(_record)": WALK_STATE,
    "WalkState(budget)": WALK_STATE,
    "WalkState(cache)": WALK_STATE,
    "WalkState(limits)": WALK_STATE,
    "WalkState(node_budget)": WALK_STATE,
    "WalkState(results)": WALK_STATE,
    "WalkState(visited)": WALK_STATE,
    "open_corpus(name)": "open_corpus(name=…)",
    "open_corpus(name_or_path)": "open_corpus(name=…)",
    "records_for_artifact(corpus)": "records_for_artifact(store_or_corpus=…)",
    "records_for_artifact(store_or_corpus)": "records_for_artifact(store_or_corpus=…)",
    "traverse(k)": TRAVERSE,
    "traverse(max_depth)": TRAVERSE,
    "traverse(policy)": TRAVERSE,
}
"""Names that differ, or parameters of names, each with its row."""


def resolve_name(name):
    """Return the object of a name in the first module that has it, or `None`."""
    get = attrgetter(ELSEWHERE.get(name, (name,))[0])
    for place in PLACES:
        with suppress(AttributeError):
            return get(place)
        owner, _, field = name.rpartition(".")
        if owner and field in getattr(
            attrgetter(owner)(place) if hasattr(place, owner) else None, "__annotations__", ()
        ):
            return field
    return None


def parse_signature(signature):
    """Return the parameters of a signature that is written as in `NAMES`."""
    made = {}
    exec(f"def made{signature}: pass", {"ANY": ANY}, made)
    return inspect.signature(made["made"]).parameters


def default_of(thing, parameter):
    """Return the value of a parameter that is left out."""
    fields = {each.name: each for each in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else {}
    field = fields.get(parameter.name)
    if field is not None and field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return parameter.default


def is_compatible(thing, ours, theirs):
    """Return whether a parameter accepts the same arguments and has the same default."""
    if ours.kind is not theirs.kind and ours.kind is not ours.POSITIONAL_OR_KEYWORD:
        return False
    left_out = default_of(thing, ours)
    if theirs.default is ANY:
        return left_out is not theirs.empty
    both_empty = (
        isinstance(left_out, Sized) and isinstance(theirs.default, Sized) and not left_out and not theirs.default
    )
    return both_empty or left_out == theirs.default


def find_differences(name):
    """Return the differences of a name: the name itself, or its parameters."""
    thing, signature = resolve_name(name), NAMES[name]
    if thing is None:
        return {name}
    if not signature:
        return set()
    theirs, ours = parse_signature(signature), inspect.signature(thing).parameters
    order = [each.name for each in ours.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    positional = [each.name for each in theirs.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    moved = {one for at, one in enumerate(positional) if order[at : at + 1] != [one]}
    other = {one for one in theirs if one not in ours or not is_compatible(thing, ours[one], theirs[one])}
    named = [each for each in ours.values() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    new = {each.name for each in named if each.name not in theirs and default_of(thing, each) is each.empty}
    return {f"{name}({one})" for one in moved | other | new}


def owner(difference):
    """Return the name that a difference belongs to."""
    return difference.partition("(")[0]


@pytest.fixture(scope="module")
def migration_rows():
    """Return the texts in backticks in the left column of the tables of the page."""
    lines = MIGRATING.read_text(encoding="utf-8").splitlines()
    left = [line.split("|")[1] for line in lines if line.startswith("|")]
    return {text for cell in left for text in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_ir_is_the_same_or_listed_as_different(name):
    assert find_differences(name) == {difference for difference in DIFFERENCES if owner(difference) == name}


@pytest.mark.parametrize("row", sorted({*DIFFERENCES.values(), *(row for _, row in ELSEWHERE.values())}))
def test_a_difference_has_a_row_in_the_page_on_migrating(migration_rows, row):
    assert row in migration_rows


def test_the_tables_list_only_existing_names():
    assert {*map(owner, DIFFERENCES), *ELSEWHERE} <= set(NAMES)
