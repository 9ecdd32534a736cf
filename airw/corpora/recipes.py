"""How one artifact is indexed, and how the settings of a corpus keep that; no I/O."""

import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar, TypeVarTuple, cast

from airw._base.arrays import Floats
from airw._base.checks import find_text_fault
from airw._base.json import json_clean
from airw._base.messages import one_line, short_repr
from airw.errors import ArgumentError, SourceError
from airw.indexing import strategy_from_spec, strategy_spec
from airw.links import extractor_from_spec, extractor_spec
from airw.protocols import EdgeExtractor, IndexingStrategy
from airw.values import Artifact, ArtifactChange, Extraction, IndexPlan, ItemProblem, LedgerEntry, Record

OnError: TypeAlias = Literal["raise", "skip"]
Planned: TypeAlias = IndexPlan | ItemProblem
Item = TypeVar("Item")
Rest = TypeVarTuple("Rest")
Made = TypeVar("Made")

UNFINISHED = "…"
"""Marks the version of an artifact whose plan had problems, so that the next build takes it for another one."""

_ENCODER = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that will be stored of one artifact, without its vectors."""

    entry: LedgerEntry
    records: list[Record]
    extraction: Extraction
    problems: list[str]

    @property
    def name(self) -> str:
        """Give the id of the artifact."""
        return self.entry.artifact_id

    def change(self, vectors: Floats) -> ArtifactChange:
        """Give all that is stored of it."""
        return ArtifactChange(self.entry, self.records, vectors, self.extraction)


class Origin(Protocol):
    """The part of a `Source` that says whose artifacts are, and how they are made."""

    @property
    def name(self) -> str:
        """Name the source; `""` stands for none."""
        ...

    @property
    def indexing_strategy(self) -> IndexingStrategy:
        """Give the strategy that decomposes its artifacts."""
        ...

    def change_signal(self, artifact: Artifact, /) -> str:
        """Give a text that changes whenever what would be indexed of the artifact changes."""
        ...


@dataclass(frozen=True, slots=True)
class BuildRecipe:
    """Everything that decides what is stored of an artifact, and what happens when it cannot be.

    Args:
        source: Where the artifacts come from.
        embedder_id: The model and weights of the vectors.
        extractor: What finds links; `None` for no links.
        on_error: `"raise"` makes each problem an error, `"skip"` a line of the report.
        strategy: What decomposes an artifact.
        strategy_id: Its id.
        extractor_id: The id of the extractor; `""` for none.
    """

    source: Origin
    embedder_id: str
    extractor: EdgeExtractor | None
    on_error: OnError
    strategy: IndexingStrategy
    strategy_id: str
    extractor_id: str

    @classmethod
    def of(cls, source: Origin, embedder_id: str, extractor: EdgeExtractor | None, on_error: OnError) -> Self:
        """Make the recipe of a source; ids are asked for once, as they may be computed from many settings.

        Raises:
            ArgumentError: The strategy or the extractor has no id.
        """
        strategy = source.indexing_strategy
        strategy_id = _id_of(strategy, "an indexing strategy")
        return cls(source, embedder_id, extractor, on_error, strategy, strategy_id, _extractor_id(extractor))

    def with_extractor(self, extractor: EdgeExtractor) -> Self:
        """Return the same recipe with another extractor."""
        return replace(self, extractor=extractor, extractor_id=_extractor_id(extractor))

    def owns(self, entry: LedgerEntry) -> bool:
        """Say whether the artifact came from this source; names are compared without case."""
        return entry.source.casefold() == self.source.name.casefold()

    def stamp(self, artifact_id: str = "", version: str = "") -> LedgerEntry:
        """Give the ledger entry of an artifact as of now, without its records."""
        return LedgerEntry(
            artifact_id, version, self.embedder_id, self.strategy_id, self.extractor_id, self.source.name
        )

    def is_current(self, stored: LedgerEntry, version: str) -> bool:
        """Say whether what is stored of an artifact is what would be stored of this version of it now."""
        return (
            stored.version == version
            and stored.embedder_id == self.embedder_id
            and stored.strategy_id == self.strategy_id
            and stored.extractor_id == self.extractor_id
            and self.owns(stored)
        )

    @property
    def is_async(self) -> bool:
        """Say whether the strategy's plans have to be awaited before drafting."""
        return inspect.iscoroutinefunction(self.strategy.decompose)

    async def planned(self, artifact: Artifact) -> Planned:
        """Await the plan for one artifact.

        Raises:
            SourceError: It failed, and problems are errors.
        """
        try:
            return await cast("Awaitable[IndexPlan]", self.strategy.decompose(artifact))
        except Exception as error:  # noqa: BLE001 - whatever a strategy raises is a problem of its item
            return self._failed(artifact, error)

    def draft(self, artifact: Artifact, version: str, awaited: Planned | None) -> Draft | ItemProblem:
        """Decompose an artifact, unless its plan has been awaited, and find its links.

        Raises:
            SourceError: A text in it cannot be stored.
            Exception: Whatever the strategy or the extractor raises.
        """
        plan = awaited or cast("IndexPlan", self.strategy.decompose(artifact))
        if isinstance(plan, ItemProblem):
            return plan
        version += UNFINISHED if plan.problems else ""
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
        entry = replace(self.stamp(artifact.id, version), record_ids=tuple(record.id for record in records))
        draft = Draft(entry, records, extraction, [*plan.problems, *extraction.problems])
        for text in _texts(draft):
            _check_text(text)
        for key in _keys(draft):
            _check_text(key, allow_nul=False)  # or a store could not look it up again
        return draft

    def attempt(self, make: Callable[[Item, *Rest], Made], item: Item, *rest: *Rest) -> Made | ItemProblem:
        """Make something of an item; what goes wrong is an error or a problem, as the recipe says.

        Raises:
            SourceError: It went wrong, and problems are errors; the original is its cause.
        """
        try:
            return make(item, *rest)
        except Exception as error:  # noqa: BLE001 - a problem of this item, whatever it is
            return self._failed(item, error)

    def _failed(self, item: object, error: Exception) -> ItemProblem:
        reason = str(error) if isinstance(error, SourceError) else f"{type(error).__name__}: {error}"
        problem = ItemProblem(_called(item), one_line(reason, longest=1_000))
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
        named = (
            problem.reason
            if short_repr(problem.item) in problem.reason
            else f"{short_repr(problem.item)} {problem.reason}"
        )
        given = f"source {self.source.name!r}" if self.source.name else "upsert"
        return SourceError(f"{given}: {named} (on_error='skip' leaves it out)")


def _id_of(part: object, kind: str) -> str:
    """Give the id of what decides on the content of a corpus; without one, a change of it would go unnoticed."""
    found = getattr(part, "id", None)
    if not isinstance(found, str) or not found:
        raise ArgumentError(f"{kind} needs an `id` that names it and its settings; {part!r} has {found!r}")
    return found


def _extractor_id(extractor: EdgeExtractor | None) -> str:
    return "" if extractor is None else _id_of(extractor, "an edge extractor")


def check_id(item: object) -> str:
    """Give the id of what a source gave, when it is an artifact with an id that can be stored.

    Raises:
        SourceError: It is no artifact, or its id is empty, no string, or cannot be looked up again.
    """
    if not isinstance(item, Artifact):
        raise SourceError(f"a source gives Artifact or ItemProblem, not {short_repr(item)}")
    if not isinstance(item.id, str) or not item.id:
        raise SourceError(f"an artifact's id must be a string that is not empty, not {item.id!r}")
    _check_text(item.id, allow_nul=False)
    return item.id


def _called(item: object) -> str:
    """Give what to call an item in a problem: its id where that can be printed and looked up."""
    known = getattr(item, "id", item)
    return known if isinstance(known, str) and known and not find_text_fault(known) else short_repr(known)


def _texts(draft: Draft) -> Iterator[object]:
    for record in draft.records:
        yield record.text
        yield _ENCODER.encode(record.metadata)


def _keys(draft: Draft) -> Iterator[object]:
    yield draft.entry.version
    for record in draft.records:
        yield record.surface_kind
    for link in draft.extraction.links:
        yield from (link.target_ref, link.type, link.origin, link.target_source or "", link.file or "")
    for tier in draft.extraction.names:
        yield from tier


def _check_text(text: object, *, allow_nul: bool = True) -> None:
    if not isinstance(text, str):
        raise SourceError(f"expected text, not {short_repr(text)}")
    if fault := find_text_fault(text, allow_nul=allow_nul):
        raise SourceError(f"{short_repr(text)} holds {fault}")


UPSERT_SOURCE = "upserts"
"""What errors call the source of artifacts that came from no source."""


def recipes_by_source(recipe: BuildRecipe, config: Mapping[str, Any]) -> dict[str, Any]:
    """Give the recipes of a corpus's settings, with the one of this build."""
    made = {
        "strategy_id": recipe.strategy_id,
        "strategy": strategy_spec(recipe.strategy),
        "extractor_id": recipe.extractor_id,
        "extractor": extractor_spec(recipe.extractor) if recipe.extractor else None,
    }
    return {**config.get("recipes", {}), recipe.source.name.casefold(): made}


def strategy_of(source: str, config: Mapping[str, Any], own: IndexingStrategy | None) -> IndexingStrategy:
    """Give the strategy that a source's artifacts are made with: `own` where it is that one, else from the settings.

    Raises:
        ArgumentError: It is another one, and the settings cannot say which.
    """
    settings = _recipe(source, config)
    if own is not None and own.id == settings.get("strategy_id"):
        return own
    made = None if settings.get("strategy") is None else strategy_from_spec(settings["strategy"])
    # What a specification means may depend on the environment, and on the version of this library.
    if made is None or made.id != settings["strategy_id"]:
        raise ArgumentError(_unknown(config, "strategy", settings.get("strategy_id")))
    return made


def edge_extractor_of(source: str, config: Mapping[str, Any], own: EdgeExtractor | None) -> EdgeExtractor | None:
    """Give the extractor of a source's artifacts, as `strategy_of` gives the strategy; `None` where they have no links.

    Raises:
        ArgumentError: It is another one, and the settings cannot say which.
    """
    settings = _recipe(source, config)
    if not settings.get("extractor_id"):
        return None
    if own is not None and own.id == settings["extractor_id"]:
        return own
    made = None if settings.get("extractor") is None else extractor_from_spec(settings["extractor"])
    if made is None or made.id != settings["extractor_id"]:
        raise ArgumentError(_unknown(config, "edge_extractor", settings["extractor_id"]))
    return made


def _recipe(source: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the recipe of a source; of the one built last for what came from none."""
    recipes: Mapping[str, Mapping[str, Any]] = config.get("recipes", {})
    return recipes.get(source.casefold()) or recipes.get(config["source"].casefold()) or config


def _unknown(config: Mapping[str, Any], what: str, found: object) -> str:
    return (
        f"corpus {config['name']!r} was built with {what}={found}, which its settings do not make here: "
        f"open it with open_corpus({config['name']!r}, {what}=...), or build it again"
    )
