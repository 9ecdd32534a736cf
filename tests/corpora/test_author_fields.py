"""Fields of documents keep their values, whatever words the library writes beside them."""

import pytest

import airw
from airw import build, discover, policies, search, traverse
from airw.discovery import SourceAnswered, WholeArtifact, disclose, discover_stream, expand
from airw.retrieval import fuse_hits
from airw.sources import from_files, from_notes, from_records
from airw.stores import MemoryStore
from tests.support.reading import read, write

FACTS = {
    *("dense_score", "lexical_score", "lexical_share", "retrieval_score", "source_score", "source_rank"),
    *("fused_sources", "rank_final", "walk_depth", "walk_parent", "walk_path", "walk_edge", "seed", "fan_in"),
}
OWN = {name: f"the author's {name}" for name in FACTS}


async def in_memory(records, **options):
    return await build(from_records(records, embedder="light", **{"name": "events", **options}), store=MemoryStore())


async def link_events():
    see = airw.links.extractor_from(lambda _, fields: {"see": fields["next"]}, id="see")
    records = [
        {"id": "a", "text": "book fair", "next": ["b"], **OWN},
        {"id": "b", "text": "boat race", "next": [], **OWN},
    ]
    return await in_memory(records, edge_extractor=see)


def check_fields(hits):
    assert hits
    for hit in hits:
        assert {name: hit.metadata[name] for name in OWN} == OWN


async def test_dates_of_events_are_not_replaced_by_offsets_of_chunks():
    events = [
        {"id": "fair", "text": "book fair", "start": 20240105, "end": 20240107, "chunk_index": "x", "n_chunks": None},
        {"id": "gala", "text": "book gala", "start": 20230301, "end": 20230302},
    ]
    async with await in_memory(events) as corpus:
        assert [hit.artifact_id for hit in await search(corpus, "book", filter={"start": 20240105})] == ["fair"]
        assert [hit.artifact_id for hit in await search(corpus, "book", filter={"end": {"$lt": 20240000}})] == ["gala"]
        [hit] = await search(corpus, "fair", filter={"start": 20240105})
        assert (hit.metadata["chunk_index"], hit.metadata["n_chunks"]) == ("x", None)


@pytest.mark.parametrize("fields", [{}, {"start": 1}, {"start": "2024-01-05", "end": "2024-01-07"}])
async def test_chunks_are_joined_without_their_overlap_although_the_document_has_dates(fields):
    text = " ".join(f"word{number}" for number in range(600))
    async with await in_memory([{"id": "a", "text": text, **fields}]) as corpus:
        [hit, *_] = await search(corpus, "word300", surfaces=["chunk"])
        assert (await expand(hit, corpus, policy=WholeArtifact())).text == text
        assert hit.metadata.get("start") == fields["start"] if fields else hit.metadata["end"] > 0
        assert ("end" in hit.metadata) == (fields.keys() != {"start"})


async def test_a_note_keeps_its_path_and_its_file_is_still_disclosed(tmp_path):
    text = "---\npath: hall 3\nfilename: poster.png\n---\nThe book fair."
    write(tmp_path, {"fair.md": text})
    async with await build(from_notes(tmp_path, name="n", embedder="light"), store=MemoryStore()) as corpus:
        hits = await search(corpus, "book fair")
        assert {(hit.metadata["path"], hit.metadata["filename"]) for hit in hits} == {("hall 3", "poster.png")}
        [disclosed] = await disclose(airw.select(hits[:1]), roots=[tmp_path])
        assert (disclosed.pointer, disclosed.body) == (str(tmp_path / "fair.md"), text)


async def test_files_without_such_fields_have_their_path_as_before(tmp_path):
    write(tmp_path, {"a.md": "alpha"})
    for source in (from_files(tmp_path), from_notes(tmp_path)):
        [item] = await read(source)
        assert (item.metadata["path"], item.metadata["filename"]) == (str(tmp_path / "a.md"), "a.md")
        assert "airw_path" not in item.metadata


@pytest.mark.parametrize("options", [{"mode": "lexical"}, {"mode": "dense"}, {}, {"fusion": "ranks"}])
async def test_hits_of_a_search_have_the_fields_of_their_documents(options):
    async with await link_events() as corpus:
        hits = await search(corpus, "book fair", rerank=lambda _, texts: [len(text) for text in texts], **options)
        check_fields(hits)
        check_fields(fuse_hits({"x": hits, "y": hits[:1]}))
        assert hits[0].metadata["airw_facts"]["retrieval_score"] > 0


@pytest.mark.parametrize(
    "policy",
    [
        None,
        policies.LinkWalk(),
        policies.ReverseDependency(seeds=["b"], edge_type="see"),
        policies.PersonalizedPageRank(),
        policies.Beam(),
        policies.PathCoverage(),
        policies.Mmr(),
    ],
)
async def test_hits_of_a_walk_have_the_fields_of_their_documents(policy):
    async with await link_events() as corpus, traverse("book fair", corpus, policy=policy) as walk:
        hits = [hit async for hit in walk]
        check_fields([*hits, *walk.ranking])
        assert [hit.metadata["airw_facts"]["walk_path"] for hit in hits] == [walk.path(hit) for hit in hits]


async def test_hits_of_a_discovery_have_the_fields_of_their_documents():
    async with await link_events() as one, await in_memory([{"id": "c", "text": "book", **OWN}], name="more") as other:
        answer = await discover([one, other], "book fair", min_score=None)
        check_fields(answer.results)


async def test_an_answer_of_a_stream_is_final_although_documents_have_such_a_field():
    async with await link_events() as one:
        async with discover_stream([one], "book fair", min_score=None) as stream:
            answers = [item async for item in stream if isinstance(item, SourceAnswered)]
        check_fields(answers[-1].ranking)
        assert answers[-1].final == answers[-1].ranking
