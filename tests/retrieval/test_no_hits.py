"""A search that found nothing because no record has a kind or a field of that name."""

import warnings

import pytest

from airw.corpora import as_retriever, build, search
from airw.embedders import resolve_embedder
from airw.errors import ArgumentError, UnknownFieldWarning
from airw.retrieval import MODES, SearchQuery, explain_no_hits, retrieve, searching
from airw.sources import from_mapping, from_records
from airw.stores import MemoryStore
from tests.support.asked import Asked, Without

RECORDS = [
    {"id": "keys", "text": "rotate the keys", "status": "Final", "author": {"name": "Ada"}},
    {"id": "bread", "text": "bake a loaf of bread", "status": "Draft"},
]


def corpus_of(records=RECORDS, name="notes"):
    return build(from_records(records, name=name, embedder="light"), store=MemoryStore())


CALLS = {
    "search": search,
    "method": lambda corpus, query, **options: corpus.search(query, **options),
    "retrieve": retrieve,
    "retriever": lambda corpus, query, **options: as_retriever(corpus, **options)(query),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=[*CALLS])
@pytest.mark.parametrize("mode", MODES)
async def test_an_unknown_surface_kind_is_an_error_that_lists_the_kinds(call, mode):
    async with corpus_of() as corpus:
        with pytest.raises(ArgumentError) as refusal:
            await call(corpus, "keys", mode=mode, surfaces=["chunks"])
        assert str(refusal.value) == "surfaces: no record of 'notes' is of the kind 'chunks'; there are: 'chunk'"


async def test_a_kind_among_known_ones_no_kinds_and_an_empty_corpus_are_no_errors():
    async with corpus_of() as corpus, corpus_of([], "empty") as empty:
        assert len(await corpus.search("keys or bread", surfaces=["chunk", "synopsis"])) == 2
        assert await corpus.search("zebra", mode="lexical", surfaces=["chunk", "synopsis"]) == []
        assert await corpus.search("keys", surfaces=[]) == []
        assert await corpus.search("keys", surfaces=["chunks"], k=0) == []
        assert await empty.search("keys", surfaces=["chunks"], filter={"nope": 1}) == []


@pytest.mark.parametrize("call", CALLS.values(), ids=[*CALLS])
@pytest.mark.parametrize("mode", MODES)
async def test_a_filter_on_a_field_that_no_record_has_warns_and_names_similar_fields(call, mode):
    async with corpus_of() as corpus:
        with pytest.warns(UnknownFieldWarning) as caught:
            assert await call(corpus, "keys", mode=mode, filter={"statsu": "Final"}) == []
    [warning] = caught
    assert str(warning.message) == "filter: no record of 'notes' has the field 'statsu'; similar: 'status', 'start'"


async def test_without_similar_fields_the_warning_lists_all():
    async with corpus_of() as corpus:
        with pytest.warns(UnknownFieldWarning, match="no record of 'notes' has the field 'year'; there are: "):
            await corpus.search("keys", filter={"$or": [{"year": {"$gt": 2020}}, {"status": "none"}]})
        async with build(from_mapping({"a": "x"}, name="bare", embedder="light"), store=MemoryStore()) as bare:
            with pytest.warns(UnknownFieldWarning, match="no record of 'bare' has the field 'year'; there are: none"):
                await bare.search("keys", filter={"year": 1})
        with pytest.warns(UnknownFieldWarning, match=r"has the field 'author\.nam'; similar: 'author'"):
            await corpus.search("keys", filter={"author.nam": "Ada"})


@pytest.mark.parametrize(
    "filter",
    [
        {"nope": {"$exists": True}},
        {"status": "none", "nope": {"$ne": 1}},
        {"status": "none", "nope": {"$nin": [1]}},
        {"status": "none", "$not": {"nope": 1}},
        {"author.name": "Bob"},
        {"status": "none"},
    ],
)
async def test_conditions_that_mean_something_for_absent_fields_do_not_warn(filter):
    async with corpus_of() as corpus:
        with warnings.catch_warnings(action="error"):
            assert await corpus.search("keys", filter=filter) == []


class Named:
    def __init__(self, store):
        self.name, self.store, self.embedder = "any", store, resolve_embedder("light")


async def test_a_search_with_hits_asks_for_nothing_more():
    async with corpus_of() as corpus:
        asked = Asked(corpus.store)
        silent = Named(asked)
        options = {"filter": {"$or": [{"status": "Final"}, {"nope": 1}]}, "surfaces": ["chunk", "chunks"]}
        assert len(await retrieve(silent, "keys", **options)) == 1
        assert "Schema" not in asked.calls


async def test_a_store_without_the_capability_finds_nothing_in_silence():
    async with corpus_of() as corpus:
        assert await retrieve(Named(Without(corpus.store, "schema")), "keys", surfaces=["no"], filter={"nope": 1}) == []


async def test_of_several_corpora_one_with_the_name_is_enough():
    async with (
        corpus_of() as notes,
        build(from_mapping({"a": "x"}, name="other", embedder="light"), store=MemoryStore()) as other,
    ):

        def query(**options):
            return SearchQuery.parse("discover", "keys", options)

        await explain_no_hits(query(surfaces=["document"], filter={"status": "none"}), [notes, other])
        with pytest.raises(
            ArgumentError, match="no record of 'notes', 'other' is of the kind 'no'; there are: 'chunk'"
        ):
            await explain_no_hits(query(surfaces=["no"]), [notes, other])
        with pytest.warns(UnknownFieldWarning, match="no record of 'notes', 'other' has the field 'no'"):
            await explain_no_hits(query(filter={"no": 1}), [other, notes])


async def test_the_messages_are_short_whatever_the_names():
    records = [{"id": "a", "text": "x", **{f"{number}" + "field" * 50: 1 for number in range(100)}}]
    async with corpus_of(records) as corpus:
        names = [f"{number}" + "kind\n" * 1_000 for number in range(100)]
        with pytest.raises(ArgumentError) as refusal:
            await corpus.search("x", surfaces=names)
        with pytest.warns(UnknownFieldWarning) as caught:
            await corpus.search("x", filter=dict.fromkeys(names, 1))
    for message in (str(refusal.value), str(caught[0].message)):
        assert len(message) < 1_000
        assert "\n" not in message


@pytest.mark.slow
async def test_warnings_do_not_add_up_in_a_process_that_answers_strangers():
    """Python keeps the text of each warning, and clients choose these texts."""
    async with corpus_of() as corpus:
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("default")
            for at in range(150):
                query = SearchQuery.parse("search", "keys", {"filter": {f"field{at}": 1}})
                await explain_no_hits(query, [corpus])
    assert len(shown) == 150
    assert len(vars(searching)["__warningregistry__"]) < 110
