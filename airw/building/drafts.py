"""What becomes of one artifact, and what can be wrong with it: pure, no I/O."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, TypeGuard, TypeVar

from airw.errors import SourceError
from airw.protocols import EdgeExtractor, IndexingStrategy, Source
from airw.values import Artifact, Extraction, ItemProblem, LedgerEntry, Record, json_clean

__all__ = ["Draft", "OnError", "Recipe", "brief", "check_id", "is_text"]

OnError: TypeAlias = Literal["raise", "skip"]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that will be stored of one artifact, without its vectors."""

    entry: LedgerEntry
    records: list[Record]
    extraction: Extraction


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what is stored of an artifact, and what happens when it cannot be.

    Args:
        source: Where the artifacts come from.
        embedder_id: The model and weights of the vectors.
        extractor: What finds links; `None` for no links.
        on_error: `"raise"` makes each problem an error, `"skip"` a line of the report.
    """

    source: Source
    embedder_id: str
    extractor: EdgeExtractor | None
    on_error: OnError
    strategy: IndexingStrategy = field(init=False)
    strategy_id: str = field(init=False)
    extractor_id: str = field(init=False)

    def __post_init__(self) -> None:
        """Ask for the ids once: they may be computed from many settings."""
        object.__setattr__(self, "strategy", self.source.indexing_strategy)
        object.__setattr__(self, "strategy_id", self.strategy.id)
        object.__setattr__(self, "extractor_id", self.extractor.id if self.extractor else "")

    def owns(self, entry: LedgerEntry) -> bool:
        """Say whether the artifact came from this source; names are compared without case."""
        return entry.source.casefold() == self.source.name.casefold()

    def stamp(self, artifact: Artifact) -> LedgerEntry:
        """Give the ledger entry of an artifact as of now, without its records."""
        return LedgerEntry(
            artifact_id=artifact.id,
            version=self.source.change_signal(artifact),
            embedder_id=self.embedder_id,
            strategy_id=self.strategy_id,
            extractor_id=self.extractor_id,
            source=self.source.name,
        )

    def is_current(self, stored: LedgerEntry, stamp: LedgerEntry) -> bool:
        """Say whether what is stored of an artifact is what would be stored now."""
        return self.owns(stored) and replace(stored, source=stamp.source, record_ids=()) == stamp

    def draft(self, artifact: Artifact, stamp: LedgerEntry) -> Draft:
        """Decompose an artifact and find its links.

        Raises:
            SourceError: A text in it cannot be stored.
            Exception: Whatever the strategy or the extractor raises.
        """
        plan = self.strategy.decompose(artifact)
        fields = json_clean(plan.filter_fields)
        records = [
            Record(
                id=Record.make_id(artifact.id, surface.kind, index),
                artifact_id=artifact.id,
                surface_kind=surface.kind,
                surface_index=index,
                text=surface.text,
                metadata={**fields, **json_clean(surface.metadata)},
            )
            for index, surface in enumerate(plan.surfaces)
        ]
        extraction = self.extractor.extract(artifact, plan.filter_fields) if self.extractor else Extraction()
        draft = Draft(replace(stamp, record_ids=tuple(record.id for record in records)), records, extraction)
        for text in _texts(draft):
            _check_text(text)
        for key in _keys(draft):
            _check_key(key)
        return draft

    def attempt(self, item: str, make: Callable[[], Made]) -> Made | ItemProblem:
        """Make something of an item; what goes wrong is an error or a problem, as the recipe says.

        Raises:
            SourceError: It went wrong, and problems are errors; the original is its cause.
        """
        try:
            return make()
        except Exception as error:
            reason = str(error) if isinstance(error, SourceError) else f"{type(error).__name__}: {error}"
            problem = ItemProblem(item, " ".join(reason.split()))
            if self.on_error == "raise":
                raise self.error(problem) from error
            return problem

    def complain(self, problem: ItemProblem) -> ItemProblem:
        """Give the problem back when it may be skipped.

        Raises:
            SourceError: The item is lost, and problems are errors.
        """
        if problem.lost and self.on_error == "raise":
            raise self.error(problem)
        return problem

    def error(self, problem: ItemProblem) -> SourceError:
        """Make the error that names the source, the item and the reason."""
        named = problem.reason if brief(problem.item) in problem.reason else f"{brief(problem.item)} {problem.reason}"
        return SourceError(f"source {self.source.name!r}: {named} (on_error='skip' leaves it out)")


def check_id(item: object) -> str:
    """Give the id of what a source gave, when it is an artifact with an id that can be stored.

    Raises:
        SourceError: It is no artifact, or its id is empty, no string, or cannot be looked up again.
    """
    if not isinstance(item, Artifact):
        raise SourceError(f"a source gives Artifact or ItemProblem, not {brief(item)}")
    if not isinstance(item.id, str) or not item.id:
        raise SourceError(f"an artifact's id must be a string that is not empty, not {item.id!r}")
    _check_key(item.id)
    return item.id


def brief(item: object) -> str:
    """Give the repr of an item's name, cut in the middle when it is long.

    Example:
        >>> brief("a.md")
        "'a.md'"
    """
    text = repr(item)
    return text if len(text) <= 120 else f"{text[:80]}...{text[-30:]}"


def _texts(draft: Draft) -> Iterator[object]:
    for record in draft.records:
        yield record.text
        yield json.dumps(record.metadata, ensure_ascii=False)


def _keys(draft: Draft) -> Iterator[object]:
    yield draft.entry.version
    for record in draft.records:
        yield record.surface_kind
    for link in draft.extraction.links:
        yield from (link.target_ref, link.type, link.origin, link.target_source or "", link.file or "")
    for tier in draft.extraction.names:
        yield from tier


def is_text(text: object) -> TypeGuard[str]:
    """Say whether something is a string that can be stored: one without half characters (lone surrogates)."""
    try:
        return isinstance(text, str) and text.encode() is not None
    except UnicodeEncodeError:
        return False


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise SourceError(f"expected text, not {brief(text)}")
    if not is_text(text):
        at = next(at for at, char in enumerate(text) if not is_text(char))
        raise SourceError(f"{brief(text[max(0, at - 20) : at + 20])} holds half a character (a lone surrogate)")


def _check_key(text: object) -> None:
    """Refuse what a store could not look up again."""
    _check_text(text)
    if "\0" in str(text):
        raise SourceError(f"{brief(text)} holds a NUL character; take it out")
