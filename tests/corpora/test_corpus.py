"""Names and paths of corpora, open corpora and retrievers."""

import asyncio
import os
import re
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

import airw
from airw import corpora as naming
from airw.corpora import (
    Corpus,
    Opening,
    as_retriever,
    build,
    corpus_names,
    corpus_path,
    is_corpus_name,
    open_corpus,
    records_for_artifact,
    search,
)
from airw.embedders import HashingEmbedder, embedder_from, resolve_embedder
from airw.errors import (
    ArgumentError,
    CorpusNotFound,
    EmbedderMismatch,
    EmbedderUnavailable,
    FilterError,
    NoLedgerEntry,
    StoreCorrupt,
    StoreError,
)
from airw.indexing import Chunked
from airw.policies import Eager
from airw.protocols import ArtifactIds, Change, Config, Counts, ask
from airw.retrieval import MODES
from airw.sources import from_files, from_mapping
from airw.stores import MemoryStore, SqliteStore

TEXTS = {"a": "rotate the signing keys", "b": "bake a loaf of bread", "c": "change the locks"}


def notes(name="notes", items=TEXTS, **options):
    return from_mapping(items, **{"name": name, "embedder": "light", **options})


def custom(id="mine-v1", dim=2):
    return embedder_from(lambda texts: [[float(len(text)), *[1.0] * (dim - 1)] for text in texts], id=id, dim=dim)


def listing(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_home_is_airw_home_then_the_xdg_data_folder_then_that_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert naming.home() == tmp_path / "own"
    monkeypatch.setenv("AIRW_HOME", "")
    assert naming.home() == tmp_path / "data" / "airw"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert naming.home() == tmp_path / ".local" / "share" / "airw"


@pytest.mark.parametrize("name", ["notes", "a", "0", "A.b_c-d", "x" * 100, "airw"])
def test_a_name_is_one_file_in_the_home_folder(name, home):
    assert is_corpus_name(name)
    assert corpus_path(name) == home / "corpora" / f"{name}.airw"


@pytest.mark.parametrize(
    "path", ["./notes", "a/b", "/tmp/notes", "../notes", "notes.airw", Path("notes"), Path("a/b.db")]
)
def test_a_string_with_a_separator_or_the_suffix_or_a_path_object_is_a_path(path):
    assert not is_corpus_name(path)
    assert corpus_path(path) == Path(path)


@pytest.mark.parametrize("name", ["", "..", ".hidden", "-x", "_x", "a b", "ä", "x" * 101, "a:b", "a\n", "a\0", "ⅷ"])
def test_an_invalid_name_is_refused(name, home):
    with pytest.raises(ArgumentError, match="cannot name a corpus") as caught:
        corpus_path(name)
    assert "\n" not in str(caught.value)
    assert not home.exists()


@pytest.mark.parametrize("thing", [None, 7, b"notes", ["notes"]])
def test_a_corpus_is_named_by_a_string_or_a_path(thing):
    with pytest.raises(ArgumentError, match="string or a path"):
        corpus_path(thing)


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_names_compare_without_case_and_different_names_are_different_corpora(home):
    async with build(notes("Notes")):
        pass
    async with build(notes("notes", {"z": "omega"})) as corpus:
        assert corpus.name == "Notes"
        assert corpus.report.removed == 3
    for name in ("a.b", "a_b", "a-b"):
        async with build(notes(name, {name: "text"})):
            pass
    assert corpus_names() == ["Notes", "a-b", "a.b", "a_b"]
    for name in ("a.b", "a_b", "a-b", "NOTES"):
        async with open_corpus(name) as corpus:
            assert await ask(corpus.store, ArtifactIds()) == [name if name != "NOTES" else "z"]


def test_there_are_no_corpora_without_a_home(home):
    assert corpus_names() == []
    assert not home.exists()


@pytest.mark.asyncio_only
@pytest.mark.parametrize("mode", MODES)
async def test_a_corpus_opened_by_name_or_path_finds_the_same_as_the_built_one(mode, home, tmp_path):
    async with build(notes()) as built:
        hits = await built.search("signing keys", mode=mode)
    assert hits[0].artifact_id == "a"
    assert hits[0].source == "notes"
    async with open_corpus("notes") as opened:
        assert await opened.search("signing keys", mode=mode) == hits
        assert (opened.name, opened.report, opened.embedder_id) == ("notes", None, built.embedder_id)
    assert await search("notes", "signing keys", mode=mode) == hits
    assert await search(home / "corpora" / "notes.airw", "signing keys", mode=mode) == hits
    async with build(notes(), store=tmp_path / "deep" / "other.airw") as elsewhere:
        assert await search(elsewhere, "signing keys", mode=mode) == hits
    assert await search(str(tmp_path / "deep" / "other.airw"), "signing keys", mode=mode) == hits


@pytest.mark.asyncio_only
async def test_the_keywords_of_search_are_those_of_retrieve():
    async with build(notes(metadata_of=lambda name, _: {"id": name}), store="words") as corpus:
        options = {"k": 2, "mode": "hybrid", "filter": {"id": {"$ne": "a"}}, "surfaces": ["document"]}
        options |= {"per_artifact": False, "fetch_k": 2, "fusion": "rrf", "alpha": 0.5, "rrf_k": 1}
        hits = await corpus.search("loaf of bread or locks", **options)
        assert [hit.score for hit in hits] == [1 / 2 + 1 / 2, 1 / 3 + 1 / 3]
    assert await search("words", "loaf of bread or locks", **options) == hits


@pytest.mark.asyncio_only
async def test_an_unknown_name_is_an_error_that_names_near_ones_and_leaves_no_trace(home):
    for call in (open_corpus("nots"), search("nots", "query"), records_for_artifact("nots", "a")):
        with pytest.raises(CorpusNotFound, match="and no other corpus"):
            await call
    assert not home.exists()
    async with build(notes()):
        pass
    before = listing(home)
    for call in (open_corpus("nots"), search("nots", "query"), records_for_artifact("nots", "a")):
        with pytest.raises(CorpusNotFound, match="known: notes") as caught:
            await call
    assert isinstance(caught.value, KeyError)
    assert listing(home) == before


@pytest.mark.asyncio_only
async def test_an_unknown_path_is_an_error_that_leaves_no_trace(tmp_path):
    for path in (tmp_path / "no.airw", tmp_path / "no" / "no.airw", tmp_path):
        with pytest.raises(CorpusNotFound, match=re.escape(repr(str(path)))):
            await open_corpus(path)
    assert listing(tmp_path) == []


@pytest.mark.asyncio_only
async def test_a_file_that_is_no_corpus_is_an_error_and_stays_as_it_is(tmp_path):
    path = tmp_path / "letter.airw"
    path.write_text("Dear reader, " * 100)
    for opening in (open_corpus(path), build(notes(), store=path)):
        with pytest.raises(StoreCorrupt):
            await opening
    assert path.read_text() == "Dear reader, " * 100


@pytest.mark.asyncio_only
async def test_a_build_interrupted_before_its_first_write_leaves_no_corpus(home):
    (home / "corpora").mkdir(parents=True)
    async with await SqliteStore.open(home / "corpora" / "early.airw", create=True):
        pass
    with pytest.raises(CorpusNotFound, match="build it again"):
        await open_corpus("early")
    async with build(notes("early")) as corpus:
        assert corpus.report.added == 3


@pytest.mark.asyncio_only
async def test_an_embedder_passed_as_an_object_must_be_passed_again():
    async with build(notes(embedder=custom())) as corpus:
        hits = await corpus.search("keys")
    async with open_corpus("notes") as corpus:
        assert corpus.embedder_id == "mine-v1"
        with pytest.raises(
            EmbedderUnavailable, match=r"'mine-v1'.*pass embedder=\.\.\., or search with mode='lexical'"
        ):
            await corpus.search("keys", mode="dense")
    for other in (custom("other-v1"), custom(dim=3), "light"):
        with pytest.raises(EmbedderMismatch, match="notes"):
            await open_corpus("notes", embedder=other)
    async with open_corpus("notes", embedder=custom()) as corpus:
        assert await corpus.search("keys") == hits
    assert len(await records_for_artifact("notes", "a")) == 1


@pytest.mark.asyncio_only
@pytest.mark.parametrize("embedder", ["light", HashingEmbedder()])
async def test_an_embedder_with_a_specification_is_found_again(embedder):
    async with build(notes(embedder=embedder)):
        pass
    async with build(notes(embedder=HashingEmbedder())) as corpus:
        assert corpus.report.unchanged == 3
        assert (await ask(corpus.store, Config()))["embedder"] == (embedder if isinstance(embedder, str) else "light")
    async with open_corpus("notes") as corpus:
        assert corpus.embedder == HashingEmbedder()


@pytest.mark.asyncio_only
async def test_a_corpus_of_another_specification_is_a_mismatch():
    async with build(notes()):
        pass
    with pytest.raises(EmbedderMismatch, match="notes"):
        await open_corpus("notes", embedder=HashingEmbedder(dim=64))


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_opening_counting_and_a_lexical_search_load_no_model(home):
    async with build(notes()):
        pass
    async with await SqliteStore.open(home / "corpora" / "notes.airw") as store:
        model = {"embedder": "default", "embedder_id": resolve_embedder("default").id}
        await store.apply(Change(config={**await ask(store, Config()), **model}))
    code = """
    import sys, anyio
    from airw.corpora import open_corpus
    from airw.protocols import Counts, ask
    async def main():
        async with open_corpus("notes") as corpus:
            assert (await ask(corpus.store, Counts()))["artifacts"] == 3
            assert [hit.artifact_id for hit in await corpus.search("keys", mode="lexical")] == ["a"]
    anyio.run(main)
    assert not {"torch", "sentence_transformers", "transformers"} & sys.modules.keys()
    """
    await anyio.run_process([sys.executable, "-c", textwrap.dedent(code)])


@pytest.mark.asyncio_only
async def test_a_corpus_closes_its_own_store_and_closing_twice_is_harmless():
    corpus = await build(notes())
    await corpus.aclose()
    await corpus.aclose()
    with pytest.raises(StoreError, match="closed"):
        await corpus.search("keys")
    opened = await open_corpus("notes")
    async with opened:
        await opened.search("keys")
    with pytest.raises(StoreError, match="closed"):
        await opened.search("keys")


async def test_a_store_of_the_caller_stays_open():
    store = MemoryStore()
    async with build(notes(), store=store) as corpus:
        assert isinstance(corpus, Corpus)
    async with Corpus("again", store, HashingEmbedder()) as corpus:
        assert (await corpus.search("keys", k=1))[0].source == "again"
    assert await ask(store, ArtifactIds()) == ["a", "b", "c"]


async def test_an_opening_can_be_awaited_or_entered_and_an_error_inside_closes_it():
    closed = []

    class Door:
        async def aclose(self):
            closed.append(self)

    async def opening():
        return Door()

    door = await Opening(opening())
    assert closed == []
    with pytest.raises(LookupError):
        async with Opening(opening()) as other:
            raise LookupError
    assert closed == [other]
    assert other is not door


@pytest.mark.asyncio_only
async def test_what_runs_coroutines_opens_corpora(home):
    await (await build(notes())).aclose()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(open_corpus("notes")) for _ in range(2)]
    gathered = await asyncio.gather(open_corpus("notes"), asyncio.wait_for(open_corpus("notes"), 30))
    for corpus in (*gathered, *(task.result() for task in tasks)):
        async with corpus:
            assert (await corpus.search("keys", k=1))[0].source == "notes"


@pytest.mark.asyncio_only
async def test_a_task_that_opens_is_cancelled_as_any_other():
    ended = []

    async def opening():
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("cancelled")

    task = asyncio.create_task(Opening(opening()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cancelled"]


def test_a_program_may_run_a_build_and_give_one_up(home):
    assert asyncio.run(build(notes(), store=MemoryStore())).report.added == 3
    build(notes()).close()  # without a warning that it was never awaited


@pytest.mark.asyncio_only
async def test_a_forgotten_await_warns():
    with pytest.warns(RuntimeWarning, match="never awaited"):
        del [open_corpus("notes")][0]


async def test_a_corpus_file_on_trio_is_an_error_that_names_the_store_to_use(anyio_backend, home):
    if anyio_backend == "trio":
        with pytest.raises(StoreError, match=r"asyncio only.*MemoryStore"):
            await build(notes())
    else:
        async with build(notes()) as corpus:
            assert corpus.report.added == 3


async def test_the_records_of_an_artifact_are_in_plan_order_and_selected_by_kind():
    text = "one one\n\ntwo two\n\nthree"
    chunked = {"strategy": Chunked(chunk_size=8, overlap=0)}
    async with build(
        notes(items={"a": text, "": "x"} | TEXTS, **chunked), store=MemoryStore(), on_error="skip"
    ) as corpus:
        records = await records_for_artifact(corpus, "a")
        assert [record.surface_index for record in records] == list(range(len(records)))
        assert await records_for_artifact(corpus, "a", surface_kind="chunk") == records
        assert await records_for_artifact(corpus, "a", surface_kind="other") == []
        with pytest.raises(NoLedgerEntry, match="'zebra'") as caught:
            await records_for_artifact(corpus, "zebra")
    assert isinstance(caught.value, KeyError)


@pytest.mark.asyncio_only
async def test_the_records_of_an_artifact_are_found_by_name():
    async with build(notes()) as corpus:
        records = await records_for_artifact(corpus, "a")
    assert await records_for_artifact("notes", "a") == records
    with pytest.raises(NoLedgerEntry, match="'notes' contains no artifact 'zebra'"):
        await records_for_artifact("notes", "zebra")


async def test_a_value_that_is_no_corpus_is_refused():
    for call in (search(None, "query"), records_for_artifact(7, "a")):
        with pytest.raises(ArgumentError, match="expected an open corpus"):
            await call


@pytest.mark.asyncio_only
async def test_a_first_build_of_a_missing_folder_creates_no_file(home, tmp_path):
    with pytest.raises(Exception, match="does not exist"):
        await build(from_files(tmp_path / "no", embedder="light"))
    assert not home.exists()
    with pytest.raises(ArgumentError, match=r"store=Path"):
        build(notes("notes.airw"))
    assert not home.exists()


@pytest.mark.asyncio_only
async def test_a_folder_that_cannot_be_created_is_a_store_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AIRW_HOME", os.fspath(tmp_path / "file"))
    with pytest.raises(StoreError, match="cannot be made"):
        await build(notes())


@pytest.mark.asyncio_only
async def test_an_open_reader_sees_a_rebuild_at_its_next_query():
    async with build(notes()), open_corpus("notes") as reader:
        assert [hit.artifact_id for hit in await reader.search("omega", mode="lexical")] == []
        async with build(notes(items={**TEXTS, "z": "omega"})):
            assert [hit.artifact_id for hit in await reader.search("omega", mode="lexical")] == ["z"]
            assert (await reader.search("omega", k=1))[0].artifact_id == "z"


def model_folder(folder, weights=b"weights"):
    """Write the files of a model from which its id and width are read."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 4}')
    (folder / "model.safetensors").write_bytes(weights)
    return folder


async def build_with_model(folder, file, spec):
    """Build a corpus whose settings name a model folder; a function makes the vectors."""
    vectors = embedder_from(lambda texts: [[1.0, 0.0, 0.0, 0.0] for _ in texts], id=resolve_embedder(folder).id, dim=4)
    async with build(from_mapping({"a": "text"}, name="notes"), store=file, embedder=vectors) as corpus:
        await corpus.store.apply(Change(config=await ask(corpus.store, Config()) | {"embedder": spec}))


@pytest.mark.asyncio_only
async def test_a_corpus_built_with_a_model_folder_opens_if_the_model_is_in_another_folder(tmp_path, monkeypatch):
    there, here, other = (model_folder(tmp_path / name, name[:4].encode()) for name in ("mini", "mini copy", "swapped"))
    await build_with_model(there, tmp_path / "notes.airw", str(tmp_path / "another machine"))
    for elsewhere in (None, other):
        if elsewhere is not None:
            monkeypatch.setenv("AIRW_MODEL_DIR", str(elsewhere))
        async with open_corpus(tmp_path / "notes.airw") as corpus:
            with pytest.raises(EmbedderUnavailable, match=r"no model folder '.*another machine'; .*AIRW_MODEL_DIR"):
                await corpus.search("text", mode="dense")
    with pytest.raises(EmbedderMismatch, match="was built with embedder 'bert-4@"):
        await open_corpus(tmp_path / "notes.airw", embedder=other)
    monkeypatch.setenv("AIRW_MODEL_DIR", str(here))
    for given in (None, here, str(there)):
        async with open_corpus(tmp_path / "notes.airw", embedder=given) as corpus:
            assert corpus.embedder_id == resolve_embedder(there).id


@pytest.mark.asyncio_only
async def test_replaced_weights_in_the_same_folder_are_noticed_before_they_are_used(tmp_path, monkeypatch):
    folder = model_folder(tmp_path / "mini")
    monkeypatch.setenv("AIRW_ALLOWED_FOLDERS", str(tmp_path))
    await build_with_model(folder, tmp_path / "notes.airw", str(folder))
    async with open_corpus(tmp_path / "notes.airw") as corpus:
        assert corpus.embedder_id == resolve_embedder(folder).id
    (folder / "model.safetensors").write_bytes(b"other weights")
    async with open_corpus(tmp_path / "notes.airw") as corpus:
        with pytest.raises(EmbedderMismatch, match=r"was built with embedder 'bert-4@.*, not 'bert-4@"):
            await corpus.search("text", mode="dense")


@pytest.mark.parametrize("given", ["models/mini", "./models/mini", Path("models", "mini")])
async def test_a_model_folder_is_remembered_by_its_absolute_path(tmp_path, given, monkeypatch):
    """Otherwise a corpus would open only from the working folder of its build."""
    folder = model_folder(tmp_path / "models" / "mini")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("airw.corpora.building.resolve_embedder", lambda spec: HashingEmbedder())
    for spec, kept in ((given, str(folder)), ("org/model-on-the-hub", "org/model-on-the-hub")):
        async with build(notes(), store=MemoryStore(), embedder=spec) as corpus:
            assert (await ask(corpus.store, Config()))["embedder"] == kept


# Retrievers


def ids(hits):
    return [hit.artifact_id for hit in hits]


async def test_a_retriever_searches_with_its_bound_options_and_a_call_may_override_them():
    async with build(notes(), store=MemoryStore()) as corpus:
        retriever = as_retriever(corpus, mode="lexical", k=1)
        assert ids(await retriever("the keys")) == ["a"]
        assert await retriever("the keys", k=2) == await corpus.search("the keys", mode="lexical", k=2)
        assert await retriever("keys", mode="dense") == await corpus.search("keys", mode="dense", k=1)
        assert retriever.corpus is corpus
        assert repr(retriever) == "CorpusRetriever('notes', mode='lexical', k=1)"
        await retriever.aclose()
        assert ids(await retriever("keys")) == ["a"], "a corpus given open stays the caller's"


async def test_bound_options_are_read_once_and_later_changes_of_them_do_not_matter():
    filter = {"name": {"$ne": "a"}}
    async with build(notes(metadata_of=lambda name, _: {"name": name}), store=MemoryStore()) as corpus:
        retriever = as_retriever(corpus, surfaces=iter(["document"]), filter=filter, fetch_k=None)
        filter["name"] = "nobody"
        question = "keys, bread, locks"
        found = ids(await retriever(question))
        assert sorted(found) == sorted(ids(await retriever(question, mode="hybrid"))) == ["b", "c"]
        assert len(await retriever(question, filter=None, surfaces=None)) == 3


@pytest.mark.slow
async def test_an_option_bound_to_none_keeps_its_meaning_in_a_call_with_another_k():
    offered = []

    def rerank(query, texts):
        offered.append(len(texts))
        return [0.0] * len(texts)

    async with build(notes(items={f"n{at:02}": f"keys {at}" for at in range(70)}), store=MemoryStore()) as corpus:
        retriever = as_retriever(corpus, fetch_k=None, rerank=rerank)
        await retriever("keys")
        await retriever("keys", k=12)
    assert offered == [50, 60]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mode": "fuzzy"}, ArgumentError),
        ({"k": -1}, ArgumentError),
        ({"filter": {"a": {"$regex": "x"}}}, FilterError),
        ({"rerank": "bm25"}, ArgumentError),
        ({"dep_boost": None}, TypeError),
    ],
)
def test_an_option_that_cannot_be_bound_is_an_error_at_once(options, error):
    with pytest.raises(error):
        as_retriever("notes", **options)


@pytest.mark.parametrize("thing", [None, 7, "", "no name"])
def test_a_value_that_is_neither_corpus_nor_name_has_no_retriever(thing):
    with pytest.raises(ArgumentError):
        as_retriever(thing)


@pytest.mark.asyncio_only
async def test_a_retriever_opens_a_name_once_at_its_first_call_and_keeps_it_open(home, monkeypatch):
    async with build(notes()):
        pass
    opened = []
    plain = SqliteStore.open

    async def open_and_note(path, **options):
        opened.append(path)
        await anyio.sleep(0.01)
        return await plain(path, **options)

    monkeypatch.setattr(SqliteStore, "open", open_and_note)
    found = []
    async with as_retriever("notes", mode="lexical") as retriever:
        assert (retriever.corpus, opened) == ("notes", [])

        async def ask(query):
            found.extend(await retriever(query))

        async with anyio.create_task_group() as group:
            for query in ("bread", "keys", "locks"):
                group.start_soon(ask, query)
        assert sorted(ids(found)) == ["a", "b", "c"]
        assert opened == [home / "corpora" / "notes.airw"]
        assert retriever.corpus.name == "notes"
        assert ids(await retriever("bread")) == ["b"]
    assert len(opened) == 1
    await retriever.aclose()
    with pytest.raises(StoreError, match=r"the retriever is closed; create another with as_retriever\('notes'\)"):
        await retriever("bread")


@pytest.mark.asyncio_only
async def test_a_retriever_whose_opening_failed_or_was_cancelled_tries_again(home):
    async with as_retriever("notes", mode="lexical") as retriever:
        with pytest.raises(CorpusNotFound):
            await retriever("bread")
        async with build(notes()):
            pass
        with anyio.CancelScope() as scope:
            scope.cancel()
            await retriever("bread")
        assert ids(await retriever("bread")) == ["b"]


@pytest.mark.asyncio_only
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_retriever_that_is_closed_while_it_opens_leaves_nothing_open(home, monkeypatch, cancelled):
    async with build(notes()):
        pass
    opened, opening, plain = [], anyio.Event(), SqliteStore.open

    async def slow(path, **options):
        opening.set()
        await anyio.sleep(0.02)
        opened.append(await plain(path, **options))
        return opened[0]

    async def search():
        with suppress(StoreError):  # it may be closed before the call, or answer
            await retriever("bread")

    monkeypatch.setattr(SqliteStore, "open", slow)
    retriever = as_retriever("notes", mode="lexical")
    async with anyio.create_task_group() as group:
        group.start_soon(search)
        await opening.wait()
        with anyio.CancelScope() as scope:
            if cancelled:
                scope.cancel()
            await retriever.aclose()
        with pytest.raises(StoreError, match="closed"):
            await ask(opened[0], Counts())


@pytest.mark.asyncio_only
async def test_a_retriever_that_is_forgotten_warns(home):
    async with build(notes()):
        pass
    held = [as_retriever("notes", mode="lexical")]
    assert ids(await held[0]("bread")) == ["b"]
    with pytest.warns(ResourceWarning):
        held.clear()
    await anyio.sleep(0.05)  # the threads of its store end without another warning


@pytest.mark.parametrize("arguments", [{"artifact_id": 1}, {"artifact_id": ["a"]}, {"surface_kind": 1}])
async def test_an_id_or_a_kind_that_is_not_a_string_is_an_argument_error(arguments):
    async with build(from_mapping({"a": "text"}, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        with pytest.raises(ArgumentError, match=f"{next(iter(arguments))} must be a string"):
            await records_for_artifact(corpus, **{"artifact_id": "a", **arguments})
        with pytest.raises(NoLedgerEntry) as missing:
            await records_for_artifact(corpus, "x" * 10_000)
    assert len(str(missing.value)) < 300


async def test_a_timeout_beyond_every_clock_is_an_argument_error():
    async with build(from_mapping({"a": "text"}, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        for timeout in (10**400, 10**5_000, float("nan")):
            with pytest.raises(ArgumentError, match="timeout must be a number of seconds") as refusal:
                airw.traverse("keys", corpus, policy=Eager(), timeout=timeout)
            assert len(str(refusal.value)) < 500
