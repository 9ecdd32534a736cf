"""`adapt`: a corpus made of functions, searched, walked and joined with others."""

import threading

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import airw
from airw.errors import AirwError, ArgumentError, NoLedgerEntry, StoreError
from airw.policies import Beam, Eager, LinkWalk, Mmr, PersonalizedPageRank, Scored
from airw.protocols import Edges, ask
from airw.stores import MemoryStore
from airw.values import Artifact, Edge, LinkFilter, Record, SearchHit

PAGES = {
    "rota": "Rotate the signing keys.",
    "vault": "The keys are in the vault.",
    "door": "The vault has two doors.",
    "cake": "Bake a cake.",
}
LINKS = {"rota": ["vault", "nowhere"], "vault": ["door", "rota"]}
QUERY = "rotate signing keys"


def find(query, k):
    words = query.lower().split()
    counts = {id: sum(word in text.lower() for word in words) for id, text in PAGES.items()}
    return sorted(((id, count) for id, count in counts.items() if count), key=lambda row: -row[1])[:k]


def read(ids):
    return [PAGES.get(id) for id in ids]


def follow(ids):
    return [LINKS.get(id) for id in ids]


async def find_later(query, k):
    await anyio.lowlevel.checkpoint()
    return find(query, k)


async def read_later(ids):
    await anyio.lowlevel.checkpoint()
    return read(ids)


async def follow_later(ids):
    await anyio.lowlevel.checkpoint()
    return follow(ids)


FUNCTIONS = {
    "sync": {"search": find, "get": read, "neighbors": follow},
    "async": {"search": find_later, "get": read_later, "neighbors": follow_later},
}


async def walk_ids(corpus, policy=None, query=QUERY):
    return [hit.artifact_id async for hit in airw.traverse(query, corpus, policy=policy)]


@pytest.mark.parametrize("kind", FUNCTIONS)
async def test_a_search_keeps_the_order_and_the_scores_of_the_function(kind):
    corpus = airw.adapt(**FUNCTIONS[kind], name="wiki")
    hits = await airw.search(corpus, QUERY)
    assert [(hit.artifact_id, hit.score, hit.text, hit.source) for hit in hits] == [
        ("rota", 3.0, PAGES["rota"], "wiki"),
        ("vault", 1.0, PAGES["vault"], "wiki"),
    ]


@pytest.mark.parametrize("kind", FUNCTIONS)
async def test_a_walk_starts_from_the_search_and_follows_the_neighbours(kind):
    corpus = airw.adapt(**FUNCTIONS[kind])
    walk = airw.traverse(QUERY, corpus, policy=Eager(start_k=1))
    paths = [hit.metadata["walk_path"] async for hit in walk]
    assert paths == [["rota"], ["rota", "vault"], ["rota", "vault", "door"]]


@pytest.mark.parametrize(
    "policy",
    [
        None, Mmr(start_k=1), Scored(start_k=1), Beam(seed_k=1), PersonalizedPageRank(seed_k=1),
        LinkWalk(start_k=1), LinkWalk(roots=["rota"]), Eager(start_k=0, roots=["rota"]),
    ],
    ids=repr,
)  # fmt: skip
async def test_every_policy_of_links_reaches_what_the_neighbours_lead_to(policy):
    corpus = airw.adapt(**FUNCTIONS["sync"])
    assert set(await walk_ids(corpus, policy)) == {"rota", "vault", "door"}


async def test_each_function_is_called_once_for_a_thousand_ids():
    ids, calls = [f"n{number}" for number in range(1_000)], []

    def note(name, answer):
        def function(asked):
            calls.append((name, len(asked)))
            return answer(asked)

        return function

    corpus = airw.adapt(
        search=lambda query, k: ["hub"],
        get=note("get", lambda asked: dict.fromkeys(asked, "text")),
        neighbors=note("neighbors", lambda asked: {id: ids if id == "hub" else [] for id in asked}),
    )
    policy, limits = Eager(start_k=1, select_k=None, adjacent_k=None), airw.Limits(max_fanout=2_000)
    walk = airw.traverse("hub", corpus, policy=policy, node_budget=2_000, limits=limits)
    hits = [hit async for hit in walk]
    assert len(hits) == 1_001
    # Hits are made 512 at a time.
    assert [call for call in calls if call[0] == "neighbors"] == [("neighbors", 1), ("neighbors", 1_000)]
    assert ("get", 1_000) in calls
    assert len(calls) <= 8


async def test_sync_functions_run_outside_of_the_event_loop():
    threads = set()

    def note(query, k):
        threads.add(threading.current_thread())
        return []

    await airw.search(airw.adapt(search=note), "keys")
    assert threading.current_thread() not in threads
    assert len(threads) == 1


async def test_search_alone_has_hits_with_what_it_returned():
    def search(query, k):
        return [{"id": "a", "score": np.float32(0.5), "text": "keys", "lang": "en", "metadata": {"tags": ("x",)}}]

    corpus = airw.adapt(search=search)
    [hit] = await airw.search(corpus, "keys")
    assert (hit.text, hit.score, hit.metadata) == ("keys", 0.5, {"lang": "en", "tags": ["x"]})
    assert await walk_ids(corpus, query="keys") == ["a"]


async def test_without_get_a_neighbour_is_a_hit_without_text():
    corpus = airw.adapt(search=find, neighbors=follow)
    walk = airw.traverse(QUERY, corpus, policy=LinkWalk(start_k=1))
    assert {hit.artifact_id: hit.text async for hit in walk} == dict.fromkeys(["rota", "vault", "nowhere", "door"], "")


async def test_searches_at_the_same_time_have_the_texts_that_each_has_found():
    started = []

    async def search(query, k):
        started.append(query)
        while len(started) < 20:
            await anyio.lowlevel.checkpoint()
        return [{"id": "a", "text": f"snippet for {query}"}]

    corpus, texts = airw.adapt(search=search), {}

    async def ask(query):
        [hit] = await airw.search(corpus, query)
        texts[query] = hit.text

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(ask, f"q{number}")
    assert texts == {f"q{number}": f"snippet for q{number}" for number in range(20)}


async def test_a_walk_has_the_texts_that_its_own_search_has_found():
    started = []

    async def search(query, k):
        started.append(query)
        while len(started) < 20:
            await anyio.lowlevel.checkpoint()
        return [{"id": id, "text": f"{id} for {query}"} for id in "ab"]

    corpus, texts = airw.adapt(search=search, neighbors=lambda ids: {}), {}

    async def ask(query):
        walk = airw.traverse(query, corpus, policy=Eager(start_k=2))
        texts[query] = {hit.text async for hit in walk}

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(ask, f"question {number}")
    assert texts == {query: {f"a for {query}", f"b for {query}"} for query in started}


async def test_an_id_alone_keeps_the_text_that_a_search_has_found_before():
    answers = {
        "long": [{"id": "a", "text": "signing keys", "lang": "en"}],
        "alone": ["a"],
        "new": [{"id": "a", "x": 1}],
    }
    corpus = airw.adapt(search=lambda query, k: answers[query])
    hits = [hit for query in answers for hit in await airw.search(corpus, query)]
    assert [hit.text for hit in hits] == ["signing keys"] * 3
    assert [hit.metadata for hit in hits] == [{"lang": "en"}, {"lang": "en"}, {"x": 1}]
    [hit] = [hit async for hit in airw.traverse("alone", corpus)]
    assert (hit.artifact_id, hit.text) == ("a", "signing keys")


FOUND = {
    "ids alone": (["a", "b"], [1.0, 0.5]),
    "pairs": ([("a", 9), ("b", 9)], [9.0, 9.0]),
    "pairs from JSON": ([["a", 9], ["b", 8.5]], [9.0, 8.5]),
    "dicts": ([{"id": "a"}, {"id": "b"}], [1.0, 0.5]),
    "records": ([(Record("r", "a", "chunk", 0, "t"), 2), (Record("s", "b", "chunk", 0, "t"), 1)], [2.0, 1.0]),
    "hits": ([SearchHit("a", "document", 0.3, "t"), SearchHit("b", "document", -0.1, "t")], [0.3, -0.1]),
    "artifacts": ([Artifact("a", "t"), Artifact("b", {"text": "t"}, {"x": 1})], [1.0, 0.5]),
}


@pytest.mark.parametrize("kind", FOUND)
async def test_search_may_return(kind):
    answer, scores = FOUND[kind]
    hits = await airw.search(airw.adapt(search=lambda query, k: answer), "keys")
    assert [(hit.artifact_id, hit.score) for hit in hits] == list(zip("ab", scores, strict=True))


ITEMS = {
    "texts": ["text", None],
    "a dict": {"a": "text"},
    "fields": [{"text": "text", "id": "a"}, None],
    "records": [Record("r", "a", "document", 0, "text"), None],
    "artifacts": [Artifact("a", "text"), None],
}


@pytest.mark.parametrize("kind", ITEMS)
async def test_get_may_return(kind):
    corpus = airw.adapt(search=lambda query, k: ["a", "b"], get=lambda ids: ITEMS[kind])
    assert [(hit.artifact_id, hit.text) for hit in await airw.search(corpus, "keys")] == [("a", "text")]


async def test_neighbours_may_have_types():
    edges = {"a": ["d", ("c", "cites"), Edge("a", "b", "cites", "typed", 0.5), "a", "d"]}
    corpus = airw.adapt(neighbors=lambda ids: [edges.get(id, []) for id in ids])
    assert await walk_ids(corpus, LinkWalk(roots=["a"])) == ["a", "b", "c", "d"]
    assert await walk_ids(corpus, LinkWalk(roots=["a"], types=["cites"])) == ["a", "b", "c"]
    assert await walk_ids(airw.adapt(neighbors=lambda ids: [[["b", "cites"]]] * len(ids)), LinkWalk(roots=["a"])) == [
        "a",
        "b",
    ]
    [own] = await ask(corpus.store, Edges(["a"], links=LinkFilter(origins=["typed"])))
    assert own == [Edge("a", "b", "cites", "typed", 0.5)]


class BadNumber:
    """Something that looks like a number."""

    def __float__(self):
        raise ValueError("no")

    def __repr__(self):
        return "BadNumber()"


LOOP = {"id": "a"}
LOOP["self"] = LOOP

WRONG = {
    "search: None": ({"search": None}, "search returned None; return a list of (id, score) pairs, best first"),
    "search: a dict": ({"search": {"a": 1}}, "search returned {'a': 1}; return a list"),
    "search: NaN": ({"search": [("a", float("nan"))]}, "search returned the score nan for 'a'; return finite scores"),
    "search: twice": ({"search": ["a", "b", "a"]}, "search returned 'a' twice"),
    "search: distances": (
        {"search": [("a", 0.1), ("b", 0.7)]},
        "the score 0.7 of 'b' after 0.1; return the best first",
    ),
    "search: numbers": ({"search": [3]}, "search returned 3; return ids that are texts, (id, score) pairs"),
    "search: a score as text": ({"search": [("a", "1")]}, "search returned the score '1' for 'a'; return numbers"),
    "search: an array": ({"search": [("a", np.ones(2))]}, "the score array([1., 1.]) for 'a' (TypeError: only "),
    "search: too large": ({"search": [("a", 10**400)]}, "(OverflowError: int too large to convert to float); return "),
    "search: no number": ({"search": [("a", BadNumber())]}, "BadNumber() for 'a' (ValueError: no); return numbers"),
    "search: a circle": ({"search": [LOOP]}, "search returned metadata of 'a' that are not JSON (RecursionError: "),
    "get: a circle": ({"get": [LOOP]}, "get returned metadata of 'a' that are not JSON (RecursionError: "),
    "search: some scores": ({"search": [("a", 1), "b"]}, "search returned 'b'; return all with scores, or all without"),
    "get: None": ({"get": None}, "get returned None for 1 ids; return a list with a text"),
    "get: too many": ({"get": ["x", "y"]}, "get returned 2 items for 1 ids"),
    "get: another id": ({"get": {"b": "x"}}, "get returned 'b', which it was not called with"),
    "get: another record": ({"get": [{"id": "b"}]}, "get returned 'b' in the place of 'a'"),
    "get: bytes": ({"get": [b"x"]}, "get returned b'x' for 'a'; return a text, or a dict with 'text'"),
    "neighbors: None": ({"neighbors": None}, "neighbors returned None for 1 ids; return a list with a list of ids"),
    "neighbors: flat": ({"neighbors": ["bcd"]}, "neighbors returned 'bcd' for 'a'"),
    "neighbors: numbers": ({"neighbors": [[1]]}, "neighbors returned 1 for 'a'; return ids, (id, type) pairs"),
    "neighbors: too few": ({"neighbors": []}, "neighbors returned 0 items for 1 ids"),
    "neighbors: another start": ({"neighbors": [[Edge("b", "c", "x")]]}, "for 'a'; return ids, (id, type) pairs"),
}


@pytest.mark.parametrize("fault", WRONG)
async def test_a_wrong_answer_is_an_error_of_one_line_that_names_function_and_answer(fault):
    answers, message = WRONG[fault]
    answers = {"search": ["a"], "get": ["text"], "neighbors": [[]]} | answers
    corpus = airw.adapt(
        search=lambda query, k: answers["search"],
        get=lambda ids: answers["get"],
        neighbors=lambda ids: answers["neighbors"],
    )
    with pytest.raises(StoreError) as caught:
        await walk_ids(corpus, Eager(start_k=3), "keys")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


async def test_a_score_that_cannot_be_read_keeps_its_cause():
    with pytest.raises(StoreError, match=r"ValueError: no") as caught:
        await airw.search(airw.adapt(search=lambda query, k: [("a", BadNumber())]), "keys")
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_function_that_fails_is_a_store_error_with_its_cause():
    def fail(query, k):
        raise OSError("no\nroute")

    with pytest.raises(StoreError, match=r"^search failed: OSError: no route$") as caught:
        await airw.search(airw.adapt(search=fail), "keys")
    assert isinstance(caught.value.__cause__, OSError)


MISSING = {
    "search": ({"get": read, "neighbors": follow}, lambda corpus: airw.search(corpus, QUERY), "search=..."),
    "default": ({"get": read, "neighbors": follow}, walk_ids, "search=..."),
    "seeds": ({"get": read, "neighbors": follow}, lambda corpus: walk_ids(corpus, Eager()), "search=..."),
    "Eager": ({"search": find}, lambda corpus: walk_ids(corpus, Eager()), "neighbors=..."),
    "Mmr": ({"search": find, "get": read}, lambda corpus: walk_ids(corpus, Mmr()), "neighbors=..."),
    "PageRank": ({"search": find}, lambda corpus: walk_ids(corpus, PersonalizedPageRank()), "neighbors=..."),
    "LinkWalk": ({"search": find}, lambda corpus: walk_ids(corpus, LinkWalk(roots=["rota"])), "neighbors=..."),
    "dense": (FUNCTIONS["sync"], lambda corpus: airw.search(corpus, QUERY, mode="dense"), "without a mode"),
    "filter": (FUNCTIONS["sync"], lambda corpus: airw.search(corpus, QUERY, filter={"x": 1}), "filter"),
    "backlinks": (FUNCTIONS["sync"], lambda corpus: walk_ids(corpus, Eager(direction="in")), "direction"),
}


@pytest.mark.parametrize("need", MISSING)
async def test_what_needs_a_function_that_is_missing_is_an_error_that_names_it(need):
    functions, call, named = MISSING[need]
    with pytest.raises(ArgumentError) as caught:
        await call(airw.adapt(**functions))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "adapt needs a function"),
        ({"search": "find"}, "search must be a function, not 'find'"),
        ({"get": read, "name": "a/b"}, "'a/b' cannot name a corpus"),
    ],
)
def test_unusable_arguments_are_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        airw.adapt(**arguments)


async def test_a_root_that_get_does_not_know_is_an_error():
    corpus = airw.adapt(get=read, neighbors=follow)
    with pytest.raises(NoLedgerEntry, match="no artifact 'nobody'"):
        await walk_ids(corpus, Eager(start_k=0, roots=["nobody"]))


async def test_discovery_abstains_or_commits_by_the_scores_of_the_function():
    corpus = airw.adapt(**FUNCTIONS["sync"])
    result = await airw.discover(corpus, QUERY)
    assert [(item.artifact_id, item.score) for item in result.results] == [("rota", 3.0)]
    assert (await airw.discover(corpus, "zebra")).abstained


@pytest.fixture
async def docs():
    source = airw.from_mapping({"keys": "signing keys of the harbour"}, name="docs", embedder="light")
    async with airw.build(source, store=MemoryStore()) as corpus:
        yield corpus


@pytest.mark.parametrize("merge", ["rrf", "rrf-by-source"])
async def test_it_is_one_source_of_a_discovery_over_several(docs, merge):
    result = await airw.discover([docs, airw.adapt(**FUNCTIONS["sync"], name="wiki")], QUERY, merge=merge)
    assert {("docs", "keys"), ("wiki", "rota")} <= {(item.source, item.artifact_id) for item in result.results}
    assert {report["status"] for report in result.signals["per_source"].values()} == {"ok"}


@pytest.mark.parametrize("functions", [FUNCTIONS["sync"], {"search": find, "get": read}], ids=["all", "no links"])
async def test_it_is_a_member_of_a_federated_corpus(docs, functions):
    both = airw.FederatedCorpus([docs, airw.adapt(**functions, name="wiki")])
    for policy in (None, Eager(start_k=2)):
        walk = airw.traverse(QUERY, both, policy=policy)
        found = {hit.key async for hit in walk}
        assert {("docs", "keys"), ("wiki", "rota")} <= found
        assert walk.summary.lost == ()
    assert {hit.key for hit in await airw.search(both, QUERY)} >= {("docs", "keys"), ("wiki", "rota")}


async def test_cancelling_a_walk_cancels_the_function():
    started, ended = anyio.Event(), []

    async def search(query, k):
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(query)

    async with anyio.create_task_group() as group:
        group.start_soon(airw.search, airw.adapt(search=search), "keys")
        await started.wait()
        group.cancel_scope.cancel()
    assert ended == ["keys"]


async def test_an_error_of_the_library_inside_a_function_is_raised_as_it_is():
    def fail(query, k):
        raise AirwError("mine")

    with pytest.raises(AirwError, match=r"^mine$"):
        await airw.search(airw.adapt(search=fail), "keys")


async def test_a_discovery_by_walks_starts_from_the_function():
    result = await airw.discover(airw.adapt(**FUNCTIONS["sync"]), QUERY, walk=True)
    assert "rota" in {item.artifact_id for item in result.results}
