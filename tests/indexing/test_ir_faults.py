"""Faults of `ir` 0.1.61 in its strategies, which airw lacks.

The docstring of a test begins with the number of the fault.
"""

import pytest

from airw.corpora import build
from airw.errors import ArgumentError
from airw.indexing import Chunked, WholeText, identity
from airw.stores import MemoryStore
from airw.values import Artifact, IndexPlan, Surface
from tests.support.small_corpora import notes


def test_chunks_keep_their_size_contain_all_text_and_are_never_inside_another():
    """F33: no useless last chunk, and none beyond the size; invalid windows are refused."""
    for text in ("x" * 2200, "word " * 440, "one\n\n" * 300):
        plan = Chunked(chunk_size=1200, overlap=200).decompose(Artifact("a", text))
        cuts = [(surface.metadata["start"], surface.metadata["end"]) for surface in plan.surfaces]
        assert len(cuts) == 2
        assert all(end - start <= 1200 for start, end in cuts)
        assert cuts[0][1] < cuts[1][1]
        covered = "".join(
            text[max(start, done) : end] for (start, end), done in zip(cuts, (0, cuts[0][1]), strict=True)
        )
        assert "".join(covered.split()) == "".join(text.split())
    for chunk_size, overlap in ((0, 0), (100, 100), (100, -1), (-5, 0)):
        with pytest.raises(ArgumentError):
            Chunked(chunk_size=chunk_size, overlap=overlap)


class Shouting:
    """A custom strategy with slots; its id contains the version of its function."""

    __slots__ = ("change", "version")

    def __init__(self, change, version):
        self.change, self.version = change, version

    @property
    def id(self):
        return f"shouting-{self.version}"

    def decompose(self, artifact):
        return WholeText().decompose(Artifact(artifact.id, self.change(artifact.raw)))


async def test_a_strategy_with_another_id_indexes_again_and_one_without_an_id_is_refused():
    """F35: settings are in the id; attributes are not compared, so slots are allowed."""
    assert Chunked().id != Chunked(overlap=100).id != Chunked(overlap=100, kind="part").id
    store, items = MemoryStore(), {"a": "Text"}
    for strategy, text in ((Shouting(str.upper, 1), "TEXT"), (Shouting(str.lower, 2), "text"), (WholeText(), "Text")):
        corpus = await build(notes(items, strategy=strategy), store=store)
        assert corpus.report.unchanged == 0
        assert [hit.text for hit in await corpus.search("text")] == [text]

    class Nameless:
        def decompose(self, artifact):
            return IndexPlan()

    with pytest.raises(ArgumentError, match="id"):
        await build(notes(items, strategy=Nameless()), store=MemoryStore())


class Slotted:
    """A strategy with a function in a slot; `identity` derives its id from the slots."""

    __slots__ = ("change",)
    id = property(identity)

    def __init__(self, change):
        self.change = change

    def decompose(self, artifact):
        return IndexPlan({}, [Surface(artifact.id, "document", self.change(artifact.raw))])


async def test_a_strategy_with_slots_whose_function_changed_indexes_again():
    """F35: an id from `identity` depends on the function; the same function has the same id."""
    store = MemoryStore()
    for change, updated in ((str.upper, 0), (str.upper, 0), (str.lower, 1), (lambda text: text.lower(), 1)):
        corpus = await build(notes({"a": "Text"}, strategy=Slotted(change)), store=store)
        assert corpus.report.updated == updated
