"""Slips of people who are new to airw: the error says what would do."""

import pytest

import airw
from airw.errors import ArgumentError, SourceError, StoreError
from airw.policies import Eager
from airw.stores import MemoryStore

PAGES = {"rota": "Rotate the signing keys each month.", "vault": "The keys lie in the vault."}


def search(query, k):
    return [(id, 1.0) for id, text in PAGES.items() if query in text][:k]


def get(ids):
    return [PAGES.get(id) for id in ids]


corpus = airw.adapt(search=search, get=get)


class Files:
    """A store that is no corpus yet."""

    async def neighbors(self, ids, **_):
        return [[] for _ in ids]


async def walk(store, policy=None, query="keys"):
    return [hit async for hit in airw.traverse(query, store, policy=policy)]


MISTAKES = {
    "the query first": (lambda: airw.search("keys", corpus), "not a corpus; the orders are search(corpus, query)"),
    "the corpus first": (lambda: walk("keys", query=corpus), "not a corpus; the orders are search(corpus, query)"),
    "the query before a list": (lambda: airw.discover("keys", ["notes", "drafts"]), "query must be a string, not"),
    "a name to walk": (lambda: walk("notes"), "open it with open_corpus('notes')"),
    "a name to walk with a policy": (lambda: walk("notes", Eager()), "open it with open_corpus('notes')"),
    "an address with a password": (lambda: walk("postgresql://a:hush@h/db#n", Eager()), "postgresql://a@h/db#n"),
    "a list to walk": (lambda: walk([corpus, corpus]), "FederatedCorpus([...]) joins open ones"),
    "a list to search": (lambda: airw.search([corpus], "keys"), "discover asks several corpora"),
    "a store to walk": (lambda: walk(Files(), Eager()), "Corpus(name, store, embedder)"),
    "an embedder by name": (lambda: airw.Corpus("notes", Files(), "light"), "resolve_embedder('light')"),
    "a class as store": (
        lambda: airw.build(airw.from_mapping({}, name="n"), store=MemoryStore),
        "pass MemoryStore(...)",
    ),
}


@pytest.mark.parametrize(("act", "advice"), MISTAKES.values(), ids=MISTAKES)
async def test_a_wrong_argument_is_named_with_what_would_do(act, advice):
    with pytest.raises(ArgumentError) as caught:
        await act()
    assert advice in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda opening: airw.search(opening, "keys"), ArgumentError),
        (walk, ArgumentError),
        (lambda opening: opening.search("keys"), AttributeError),
    ],
    ids=["search", "traverse", "method"],
)
async def test_a_forgotten_await_is_named(act, error):
    opening = airw.open_corpus("notes")
    with pytest.raises(error, match="await"):
        await act(opening)
    opening.__await__().close()  # else Python warns that nobody awaited it


async def test_an_id_that_is_no_text_is_named_with_its_type():
    source = airw.from_mapping({1: "text"}, name="notes", embedder="light")
    with pytest.raises(SourceError, match="'notes': an id must be a non-empty string, not the int '1'"):
        await airw.build(source, store=MemoryStore())


@pytest.mark.parametrize(
    ("functions", "call"),
    [
        ({"search": search, "get": PAGES.get}, "get(ids)"),
        ({"search": lambda query: search(query, 1), "get": get}, "search(query, k)"),
    ],
    ids=["get", "search"],
)
async def test_a_function_with_other_parameters_learns_how_it_is_called(functions, call):
    with pytest.raises(StoreError) as caught:
        await walk(airw.adapt(**functions))
    assert f"it is called as {call}" in str(caught.value)
