"""Coverage: what a source has beside what a corpus holds of it."""

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from airw._base.concurrency import in_thread
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.corpora.ingestion.drafts import Recipe, check_id
from airw.corpora.ingestion.pipeline import Pages
from airw.corpora.ingestion.surveys import surveyed
from airw.corpora.opening import CorpusLike
from airw.corpora.registry.file import find
from airw.corpora.searching import reading
from airw.errors import ArgumentError, CorpusNotFound, SourceError
from airw.protocols import Source
from airw.values import Artifact, ItemProblem, LedgerEntry

__all__ = ["Coverage", "coverage"]

_PAGE = 256


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a source has beside what a corpus holds of it; ids are sorted.

    Args:
        name: The source.
        expected: The ids that the source gives.
        indexed: Those of them that the corpus holds.
        missing: Those that it does not hold.
        outdated: Those that it holds as they were, or as another strategy or extractor made them.
        gone: The ids that it holds from this source, which no longer has them.
        problems: What the source could not give, in its order.
        excluded: What lies beside the artifacts and is left out on purpose, by reason.

    Example:
        >>> Coverage("vault", expected=("a", "b"), indexed=("a",), missing=("b",)).ratio
        0.5
    """

    name: str
    expected: tuple[str, ...] = ()
    indexed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    problems: tuple[ItemProblem, ...] = ()
    excluded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Give which part of the expected is indexed; 1.0 where nothing is expected."""
        return len(self.indexed) / len(self.expected) if self.expected else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as JSON; of the expected and the indexed, how many there are."""
        return {
            "name": self.name,
            "expected": len(self.expected),
            "indexed": len(self.indexed),
            "ratio": self.ratio,
            "missing": list(self.missing),
            "outdated": list(self.outdated),
            "gone": list(self.gone),
            "problems": [{"item": each.item, "reason": each.reason, "lost": each.lost} for each in self.problems],
            "excluded": json_clean(self.excluded),
        }


async def coverage(name_or_source: str | Source, *, corpus: CorpusLike | None = None) -> Coverage:
    """Say what of a source is indexed and what is not; nothing is embedded, and nothing is written.

    The source is read as a build reads it. What a build would index again counts as outdated, except that embedders are
    not compared: that could mean loading one.

    Args:
        name_or_source: The name of a registered corpus or of a preset; or a source.
        corpus: An open corpus, or the name or path of one; unless given, the one of that name or of the source's. One
            that is not built yet holds nothing.

    Raises:
        ArgumentError: It is neither a name nor a source.
        CorpusNotFound: The name is neither registered nor a preset, or there is no such `corpus`.
        SourceError: The source is missing or cannot be read.
        StoreError: The corpus cannot be read.

    Example:
        >>> import anyio
        >>> from airw.corpora.building.builder import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "one", "b": "two"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         texts = {"a": "one!", "c": "three"}
        ...         found = await coverage(from_mapping(texts, name="notes"), corpus=corpus)
        ...     return found.missing, found.outdated, found.gone, found.ratio
        >>> anyio.run(main)
        (('c',), ('a',), ('b',), 0.5)
    """
    source = await in_thread(_source, name_or_source)
    config, entries = await _held(corpus, source.name)
    recipe = Recipe(source, config.get("embedder_id", ""), source.edge_extractor, "skip")
    recipe = await surveyed(recipe, source, _PAGE)
    versions, problems = await _given(source, recipe)
    excluded = getattr(source, "excluded", None)
    left_out = {} if excluded is None else await in_thread(excluded)
    return await in_thread(_compared, recipe, versions, entries, problems, left_out)


def _source(given: str | Source) -> Source:
    if isinstance(given, str):
        return find(given).source()
    if isinstance(given, type) or not hasattr(given, "items") or not hasattr(given, "change_signal"):
        raise ArgumentError(f"coverage takes the name of a registered corpus or a source, not {short_repr(given)}")
    return given


async def _held(corpus: CorpusLike | None, name: str) -> tuple[dict[str, Any], list[LedgerEntry]]:
    """Give the settings of a corpus and what it holds; nothing of one that is not built yet."""
    try:
        async with reading(name if corpus is None else corpus) as (_, store):
            return await store.config(), [entry for entry in await store.ledger() if entry is not None]
    except CorpusNotFound:
        if corpus is not None:
            raise
        return {}, []


async def _given(source: Source, recipe: Recipe) -> tuple[dict[str, str], list[ItemProblem]]:
    """Read the source: the version of each artifact by its id, and what it could not give."""
    versions: dict[str, str] = {}
    problems: list[ItemProblem] = []
    async with aclosing(Pages(source, _PAGE)) as pages:
        while page := await pages.next():
            await in_thread(_sort, page, recipe, versions, problems)
    return versions, problems


def _sort(
    page: Iterable[Artifact | ItemProblem], recipe: Recipe, versions: dict[str, str], problems: list[ItemProblem]
) -> None:
    for item in page:
        if isinstance(item, ItemProblem):
            problems.append(item)
            continue
        version = recipe.attempt(_version, item, recipe, versions)
        if isinstance(version, ItemProblem):
            problems.append(version)
        else:
            versions[item.id] = version


def _version(artifact: Artifact, recipe: Recipe, versions: Mapping[str, str]) -> str:
    if check_id(artifact) in versions:
        raise SourceError("the source gives this id twice; ids must differ")
    return recipe.source.change_signal(artifact)


def _compared(
    recipe: Recipe,
    versions: Mapping[str, str],
    entries: Iterable[LedgerEntry],
    problems: Iterable[ItemProblem],
    excluded: Mapping[str, Iterable[str]],
) -> Coverage:
    stored = {entry.artifact_id: entry for entry in entries if recipe.owns(entry)}
    expected = sorted(versions)
    indexed = [each for each in expected if each in stored]
    # What could not be read, or lies below a folder that could not, is not gone: a build keeps it.
    lost = {problem.item for problem in problems if problem.lost}
    unseen = [each for each in sorted(stored) if each not in versions and each not in lost]
    return Coverage(
        recipe.source.name,
        expected=tuple(expected),
        indexed=tuple(indexed),
        missing=tuple(each for each in expected if each not in stored),
        outdated=tuple(each for each in indexed if not recipe.is_current(stored[each], versions[each])),
        gone=tuple(each for each in unseen if lost.isdisjoint(map(str, PurePosixPath(each).parents))),
        problems=tuple(problems),
        excluded={reason: tuple(sorted(excluded[reason])) for reason in sorted(excluded)},
    )
