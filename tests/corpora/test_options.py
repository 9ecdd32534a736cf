"""Each verb shows its options with their defaults and refuses others under its name."""

import inspect
import pydoc
import re

import pytest

import airw
from airw.corpora import BuildOptions, retriever_for, retrievers
from airw.discovery import DiscoverOptions
from airw.embedders import resolve_embedder
from airw.errors import ArgumentError
from airw.evaluation import MinScoreCalibration, calibrate_min_score, load_calibration
from airw.retrieval import SearchOptions, retrieve
from airw.stores import MemoryStore, OwnStore


def notes(items):
    return airw.from_mapping(items, name="notes", embedder="light")


SEARCHING = [airw.search, airw.Corpus.search, retrieve, airw.as_retriever, retriever_for, retrievers]
DISCOVERING = [airw.discover, airw.discover_stream]
BUILDING = [airw.build, airw.build_corpus]
VERBS = (
    [(verb, SearchOptions) for verb in SEARCHING]
    + [(verb, DiscoverOptions) for verb in DISCOVERING]
    + [(verb, BuildOptions) for verb in BUILDING]
)


def options_of(verb):
    parameters = inspect.signature(verb).parameters.values()
    return {each.name: each for each in parameters if each.kind is each.KEYWORD_ONLY}


@pytest.mark.parametrize(("verb", "options"), VERBS, ids=lambda each: getattr(each, "__qualname__", None))
def test_a_verb_shows_each_option_with_its_type_and_its_default(verb, options):
    shown = options_of(verb)
    assert {name: each.annotation for name, each in shown.items()} == options.__annotations__
    assert inspect.Parameter.empty not in [each.default for each in shown.values()]
    help_text = re.sub(r"\s+", " ", pydoc.plain(pydoc.render_doc(verb)))
    for name, each in shown.items():
        assert re.search(rf"\b{name}: .*{re.escape(repr(each.default))}", help_text)


def test_related_verbs_have_the_same_defaults():
    for verbs in (SEARCHING, DISCOVERING, BUILDING):
        first, *others = [{name: each.default for name, each in options_of(verb).items()} for verb in verbs]
        assert all(other == first for other in others)
    search, discover = options_of(airw.search), options_of(airw.discover)
    shared = {name: (search[name].default, discover[name].default) for name in search if name in discover}
    assert {name: pair for name, pair in shared.items() if pair[0] != pair[1]} == {"fusion": ("scores", "ranks")}
    assert search.keys() - shared.keys() == {"per_artifact"}


CALLS = {
    "search": lambda corpus, **options: airw.search(corpus, "keys", **options),
    "Corpus.search": lambda corpus, **options: corpus.search("keys", **options),
    "retrieve": lambda corpus, **options: retrieve(corpus, "keys", **options),
    "as_retriever": airw.as_retriever,
    "retriever": lambda corpus, **options: airw.as_retriever(corpus)("keys", **options),
    "retriever_for": lambda corpus, **options: retriever_for("notes", **options),
    "retrievers": lambda corpus, **options: retrievers(**options),
    "discover": lambda corpus, **options: airw.discover(corpus, "keys", **options),
    "discover_stream": lambda corpus, **options: airw.discover_stream(corpus, "keys", **options),
    "calibrate_min_score": lambda corpus, **options: calibrate_min_score(corpus, [], **options),
    "load_calibration": load_calibration,
    "build": lambda corpus, **options: airw.build(notes({}), **options),
    "build_corpus": lambda corpus, **options: airw.build_corpus("notes", **options),
    "prepare_ingest": lambda corpus, **options: airw.corpora.prepare_ingest(notes({}), **options),
}


async def outcome(called):
    return await called if inspect.isawaitable(called) else called


@pytest.mark.parametrize("verb", CALLS)
async def test_a_misspelt_option_is_refused_under_the_name_of_the_verb(verb, monkeypatch):
    monkeypatch.setattr("airw.corpora.registry.corpus_names", lambda: ["notes"])
    async with airw.build(notes({"a": "keys"}), store=MemoryStore()) as corpus:
        with pytest.raises(TypeError) as caught:
            await outcome(CALLS[verb](corpus, mood="dense"))
    name = verb.rpartition(".")[2]
    assert str(caught.value).startswith(f"{name}() got ")
    assert "'mood'" in str(caught.value)
    if "build" not in verb and verb != "prepare_ingest":
        assert str(caught.value).endswith("; did you mean 'mode'?")


class Empty(OwnStore):
    """A store that can only rank by vectors."""

    capabilities = frozenset({"dense"})

    async def rank(self, request):
        return []


LACKING = {
    "search": (lambda corpus: airw.search(corpus, "keys", mode="lexical"), "Rank", "lexical"),
    "discover": (lambda corpus: airw.discover(corpus, "keys", mode="lexical"), "Rank", "lexical"),
    "upsert": (lambda corpus: corpus.upsert({"a": "keys"}), "upsert()", "writing"),
    "delete": (lambda corpus: corpus.delete(["a"]), "delete()", "writing"),
    "records_for_artifact": (lambda corpus: airw.corpora.records_for_artifact(corpus, "a"), "RecordsOf", "records"),
    "expand": (lambda corpus: airw.expand(airw.SearchHit("a", "document", 1.0, ""), corpus), "RecordsOf", "records"),
    "load_calibration": (lambda corpus: load_calibration(corpus, "dense"), "Calibrations", "settings"),
    "save": (lambda corpus: MinScoreCalibration(0.5).save(corpus), "apply()", "writing"),
    "coverage": (lambda corpus: airw.corpora.coverage(notes({}), corpus=corpus), "coverage()", "settings"),
}


@pytest.mark.parametrize("verb", LACKING)
async def test_the_error_for_a_store_without_a_capability_names_it_and_those_that_it_has(verb):
    call, name, capability = LACKING[verb]
    corpus = airw.Corpus("mine", Empty(), resolve_embedder("light"))
    with pytest.raises(ArgumentError) as caught:
        await call(corpus)
    assert str(caught.value) == f"{name} needs a store with the capability {capability!r}; Empty offers dense"


async def test_what_is_no_store_is_refused_at_once():
    for wrong in ({"a": "keys"}, None, "notes.airw", MemoryStore):
        with pytest.raises(ArgumentError, match=r"is not a store: derive its class from airw\.stores\.OwnStore"):
            airw.Corpus("mine", wrong, resolve_embedder("light"))
