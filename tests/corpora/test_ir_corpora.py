"""Corpora are built, changed, read and searched as in `ir`.

`ir` is the published package, used as an oracle with the same texts and vectors.
"""

import ir
import pytest

import airw
from airw.corpora import as_retriever, records_for_artifact
from airw.discovery import SentenceWindow, WholeArtifact
from airw.indexing import Chunked, with_synopsis
from airw.policies import CollapsedTree
from airw.protocols import ArtifactIds, Counts, Vectors, ask
from airw.values import IndexPlan, Surface
from tests.support.ir_twins import DEFAULTS, TEXTS, WIDTH, embed, our_corpus, simple, their_corpus

pytestmark = pytest.mark.slow

CUT = {"chunk_size": 60, "overlap": 0}
DENSE = {**DEFAULTS, "mode": "dense"}


def size_of(id, raw):
    return {"size": len(raw)}


@pytest.fixture
async def corpora():
    """A corpus of chunks in `ir`, and the same in airw."""
    theirs = their_corpus(TEXTS, strategy=ir.Chunked(**CUT), metadata_of=size_of)
    async with our_corpus(TEXTS, strategy=Chunked(**CUT), metadata_of=size_of) as ours:
        yield theirs, ours


async def test_an_artifact_has_the_records_of_ir(corpora):
    theirs, ours = corpora
    for id in ("keys.md", "deploy.md", "garden.md"):  # the other one is cut at another place, to fill its chunks
        records = await records_for_artifact(ours, id)
        rows = await ask(ours.store, Vectors([record.id for record in records]))
        expected = ir.records_for_artifact(theirs, id)
        assert simple([(r.surface_kind, r.surface_index, r.text, r.metadata["size"]) for r in records]) == simple(
            [(r.surface_kind, r.surface_index, r.text, r.metadata["size"]) for r in expected]
        )
        assert simple(rows) == simple([r.vector for r in expected])


@pytest.mark.parametrize(
    "options",
    [
        {"k": 3},
        {"k": 5, "per_artifact": False},
        {"k": 5, "per_artifact": False, "filter": {"size": {"$gt": 75}}},
        {"k": 2, "surfaces": ["chunk"]},
    ],
)
async def test_searches_and_retrievers_find_the_hits_of_ir(corpora, options):
    theirs, ours = corpora

    def fields(hits):
        return simple([
            (hit.artifact_id, hit.text, hit.score, hit.surface_index, hit.source, hit.metadata["n_chunks"])
            for hit in hits
        ])  # fmt: skip

    expected = fields(ir.search(theirs, "rotate the signing key", **options))
    assert fields(await airw.search(ours, "rotate the signing key", **options, **DENSE)) == expected
    assert fields(await as_retriever(ours, **options, **DENSE)("rotate the signing key")) == expected


@pytest.mark.parametrize(
    ("ours_policy", "their_policy"),
    [(None, None), (SentenceWindow(2), ir.sentence_window_policy(2)), (WholeArtifact(), ir.parent_policy())],
    ids=["default", "window", "whole"],
)
async def test_hits_are_expanded_and_disclosed_as_in_ir(corpora, ours_policy, their_policy):
    theirs, ours = corpora
    hits = ir.search(theirs, "rotate the signing key", k=3)
    mine = await airw.search(ours, "rotate the signing key", k=3, **DENSE)
    for hit, other in zip(mine, hits, strict=True):
        expected = ir.expand(other, theirs, policy=their_policy)
        assert (await airw.expand(hit, ours, policy=ours_policy)).text == expected.text
    if ours_policy is not None:
        expected = ir.disclose(ir.select(hits, rel=0.5), level="metadata", expand=their_policy, corpus=theirs)
        found = await airw.disclose(airw.select(mine, rel=0.5), level="metadata", expand=ours_policy, corpus=ours)
        assert [(each.artifact_id, each.passage, each.summary) for each in found] == [
            (each.artifact_id, each.passage, each.summary) for each in expected
        ]


class TheirLines:
    """A strategy written for `ir`: a surface for each line."""

    def decompose(self, artifact_id, raw, metadata=None):
        lines = [line for line in raw.splitlines() if line]
        surfaces = [ir.Surface(artifact_id, "chunk", line, granularity="chunk") for line in lines]
        return ir.IndexPlan(dict(metadata or {}), surfaces)


class Lines:
    """The same strategy for airw."""

    id = "lines"

    def decompose(self, artifact):
        lines = [line for line in artifact.raw.splitlines() if line]
        return IndexPlan({}, [Surface(artifact.id, "chunk", line, granularity="chunk") for line in lines])


async def test_a_walk_through_synopses_finds_the_parts_of_ir():
    def start(artifact):
        return "About " + artifact.raw[:20]

    options = {"synthesize": start, "synthesizer_id": "start"}
    theirs = their_corpus(TEXTS, strategy=ir.with_synopsis(TheirLines(), **options))
    expected = ir.traverse("rotate keys", theirs, policy=ir.collapsed_tree_policy(seed_k=2))
    async with our_corpus(TEXTS, strategy=with_synopsis(Lines(), **options)) as ours:
        walk = airw.traverse("rotate keys", ours, policy=CollapsedTree(seed_k=2))
        hits = await airw.top_k(walk, 10)
    fields = [
        [
            (hit.artifact_id, hit.surface_kind, hit.score, hit.text, hit.metadata["walk_depth"], hit.metadata["seed"])
            for hit in each
        ]
        for each in (hits, expected)
    ]
    assert simple(fields[0]) == simple(fields[1])


@pytest.mark.asyncio_only
async def test_a_folder_that_changed_is_built_and_opened_as_in_ir(tmp_path, monkeypatch):
    for kind in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.setenv(f"IR_{kind}_DIR", str(tmp_path / kind))
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")

    def has_garden(path):
        return "garden" in path

    embedder = airw.embedder_from(embed, id="words", dim=WIDTH)
    mine = airw.from_files(folder, name="notes", exclude=has_garden, strategy=Chunked(), embedder=embedder)
    theirs = ir.CorpusSource.from_files(folder, name="notes", exclude=has_garden, strategy=ir.Chunked())
    counts = []
    for _ in range(2):
        async with airw.build(mine) as corpus:
            counts.append(((await ask(corpus.store, Counts()))["records"], len(ir.build(theirs, embedder=embed))))
        (folder / "bread.md").unlink(missing_ok=True)
        (folder / "tea.md").write_text("Boil the water for the tea.", encoding="utf-8")
    assert [ours for ours, _ in counts] == [theirs for _, theirs in counts]
    async with airw.open_corpus("notes", embedder=embedder) as corpus:
        [hit] = await corpus.search("boil water for tea", k=1, **DENSE)
        ids = await ask(corpus.store, ArtifactIds())
    opened = ir.open_corpus("notes", embedder=embed)
    [other] = opened.search("boil water for tea", k=1)
    assert (hit.artifact_id, hit.source, hit.metadata["filename"]) == (
        other.artifact_id,
        other.source,
        other.metadata["filename"],
    )
    assert ids == sorted(theirs.scope) == ["deploy.md", "keys.md", "tea.md"]
