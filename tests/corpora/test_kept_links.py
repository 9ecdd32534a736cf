"""Links of records: read from the field `links`, and kept by later builds."""

import json

import pytest

from airw import build, traverse
from airw.corpora import coverage
from airw.errors import SourceError
from airw.links import CorpusGraph, MarkdownLinks, extractor_from
from airw.protocols import ArtifactIds, ask
from airw.sources import CorpusSource, from_jsonl, from_mapping, from_records
from airw.stores import MemoryStore
from airw.values import Artifact

RECORDS = [{"id": "a", "text": "alpha", "links": ["b"]}, {"id": "b", "text": "beta", "links": []}]


def records(items, **options):
    return from_records(items, name="ex", embedder="light", **options)


async def edges_of(corpus):
    ids = sorted(await ask(corpus.store, ArtifactIds()))
    return [
        (edge.source, edge.type, edge.target) for group in await CorpusGraph(corpus).neighbors(ids) for edge in group
    ]


async def test_every_source_of_records_reads_the_field_links(tmp_path):
    (tmp_path / "ex.jsonl").write_text("\n".join(map(json.dumps, RECORDS)))
    mapping = {each["id"]: each for each in RECORDS}

    def pages():
        yield [Artifact(id, raw) for id, raw in mapping.items()]

    for source in (
        records(RECORDS),
        records(RECORDS, metadata_keys=[]),
        from_mapping(mapping, name="ex", embedder="light"),
        from_jsonl(tmp_path / "ex.jsonl", embedder="light"),
        CorpusSource("ex", pages, embedder="light"),
    ):
        async with await build(source, store=MemoryStore()) as corpus:
            assert await edges_of(corpus) == [("a", "related", "b")]
            walked = [hit.artifact_id async for hit in traverse("alpha", corpus)]
            assert sorted(walked) == ["a", "b"]
            await corpus.upsert({"c": {"text": "gamma", "links": {"cites": "a"}}})
            assert await edges_of(corpus) == [("a", "related", "b"), ("c", "cites", "a")]


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        (["b", 7, "a"], [("related", "7"), ("related", "b")]),
        ({"cites": ["b"], "part of": 7}, [("cites", "b"), ("part of", "7")]),
        ([{"id": "b", "type": "cites"}, {"id": 7}], [("cites", "b"), ("related", "7")]),
        ({"id": "b", "type": "cites"}, [("cites", "b")]),
        (["https://example.org/b"], []),
        ("b and 7", []),
        (None, []),
        (3, []),
    ],
)
async def test_links_are_ids_alone_or_by_type(links, expected):
    items = [{"id": "a", "text": "alpha", "links": links}, {"id": "b", "text": "b"}, {"id": 7, "text": "7"}]
    async with await build(records(items), store=MemoryStore()) as corpus:
        assert sorted((type_, target) for _, type_, target in await edges_of(corpus)) == expected
        assert not corpus.report.problems


@pytest.mark.parametrize("links", [[True], ["b", None], [{"href": "b"}], {"cites": [["x", "y", "z"]]}, {"": "b"}])
async def test_entries_that_are_no_ids_are_reported_once_and_the_record_is_indexed(links):
    items = [{"id": "a", "text": "alpha", "links": links}, {"id": "b", "text": "b"}]
    async with await build(records(items), store=MemoryStore()) as corpus:
        [problem] = corpus.report.problems
        assert (problem.item, problem.lost, corpus.report.added) == ("a", False, 2)


async def test_an_extractor_of_the_caller_replaces_the_field():
    none = extractor_from(lambda _id, _fields: {}, id="none")
    async with await build(records(RECORDS, edge_extractor=none), store=MemoryStore()) as corpus:
        assert await edges_of(corpus) == []


async def test_a_later_build_without_an_extractor_uses_that_of_the_settings():
    store = MemoryStore()
    notes = {"a": "See [[b]].", "b": "beta"}
    source = from_mapping(notes, name="ex", embedder="light")
    await build(source, store=store, edge_extractor=MarkdownLinks(inline_type="see"))
    corpus = await build(from_mapping({**notes, "c": "[[a]]"}, name="ex", embedder="light"), store=store)
    assert await edges_of(corpus) == [("a", "see", "b"), ("c", "see", "a")]


async def test_a_later_build_keeps_links_of_an_extractor_that_it_cannot_make():
    see = extractor_from(lambda _id, fields: {"see": fields["links"]}, id="see")
    store = MemoryStore()
    await build(records(RECORDS, edge_extractor=see), store=store)
    kept = [("a", "see", "b")]
    corpus = await build(records(RECORDS), store=store)
    assert await edges_of(corpus) == kept
    assert (await coverage(records(RECORDS), corpus=corpus)).outdated == ()

    more = [*RECORDS, {"id": "c", "text": "gamma", "links": ["a"]}]
    with pytest.raises(SourceError, match=r"links of 'c' need edge_extractor=see.*force=True"):
        await build(records(more), store=store)
    corpus = await build(records([{**RECORDS[0], "text": "changed"}, *more[1:]]), store=store, on_error="skip")
    assert (await edges_of(corpus), [problem.item for problem in corpus.report.problems]) == (kept, ["a", "c"])

    corpus = await build(records(more, edge_extractor=see), store=store)
    assert await edges_of(corpus) == [*kept, ("c", "see", "a")]
    corpus = await build(records(more), store=store, force=True)
    assert await edges_of(corpus) == [("a", "related", "b"), ("c", "related", "a")]
