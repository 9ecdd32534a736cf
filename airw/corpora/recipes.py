"""How one artifact is indexed, and how the settings of a corpus record that; no I/O."""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar, TypeVarTuple, cast

from airw._base.arrays import Floats
from airw._base.checks import find_text_fault
from airw._base.json import is_deeper, json_clean, list_flat_texts
from airw._base.messages import one_line, short_repr
from airw.corpora.problems import limit_problems
from airw.errors import ArgumentError, SourceError
from airw.indexing import FittedText, WholeText, strategy_from_spec, strategy_spec
from airw.links import extractor_from_spec, extractor_spec
from airw.links.fields import record_links
from airw.links.sites import site_of, with_site
from airw.protocols import EdgeExtractor, IndexingStrategy
from airw.values import Artifact, ArtifactChange, Extraction, IndexPlan, ItemProblem, LedgerEntry, Record

OnError: TypeAlias = Literal["raise", "skip"]
PlanResult: TypeAlias = IndexPlan | ItemProblem
Item = TypeVar("Item")
Rest = TypeVarTuple("Rest")
Result = TypeVar("Result")

UNFINISHED = "…"
"""A suffix of the version of an artifact whose plan has problems, so that the next build plans it again."""

_ENCODER = json.JSONEncoder(ensure_ascii=False)

_CONTEXT = "airw_context"


@dataclass(frozen=True, slots=True)
class Draft:
    """A decomposed artifact: everything that will be stored, except the vectors.

    Args:
        entry: The ledger entry.
        records: The records, in plan order.
        texts: The texts to embed, one per record: its text, after the context of its surface.
        extraction: The links.
        problems: Problems of the artifact, one line each.
    """

    entry: LedgerEntry
    records: list[Record]
    texts: list[str]
    extraction: Extraction
    problems: list[str]

    @property
    def artifact_id(self) -> str:
        """Return the id of the artifact."""
        return self.entry.artifact_id

    def to_change(self, vectors: Floats) -> ArtifactChange:
        """Return the change that stores the artifact with these vectors, one row per record."""
        return ArtifactChange(self.entry, self.records, vectors, self.extraction)

    def is_embedded_as(self, stored: Mapping[str, Record]) -> bool:
        """Return whether all records are stored, by id, with the same texts in the same contexts."""
        rows = [(each, stored.get(each.id)) for each in self.records]
        return all(
            row is not None and (row.text, row.metadata.get(_CONTEXT)) == (each.text, each.metadata.get(_CONTEXT))
            for each, row in rows
        )


PlannedDraft: TypeAlias = Draft | ItemProblem


class Origin(Protocol):
    """The part of a `Source` that a recipe needs."""

    @property
    def name(self) -> str:
        """Return the name of the source, or `""` for artifacts without a source."""
        ...

    @property
    def indexing_strategy(self) -> IndexingStrategy:
        """Return the strategy that decomposes its artifacts."""
        ...

    def change_signal(self, artifact: Artifact, /) -> str:
        """Return a text that changes whenever the indexed content of the artifact changes."""
        ...


@dataclass(frozen=True, slots=True)
class BuildRecipe:
    """Everything that decides how the artifacts of one source are indexed.

    Args:
        source: The source of the artifacts.
        embedder_id: The id of the embedder: the model and weights of the vectors.
        extractor: The extractor of links; `None` for no links.
        on_error: `"raise"`: a problem is an error. `"skip"`: a problem is reported.
        strategy: The strategy that decomposes an artifact.
        strategy_id: The id of the strategy.
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
        """Make the recipe of a source.

        The ids are read only once, because computing them from many settings may take time.

        Raises:
            ArgumentError: If the strategy or the extractor has no id.
        """
        strategy = source.indexing_strategy
        strategy_id = _read_id(strategy, "an indexing strategy")
        return cls(source, embedder_id, extractor, on_error, strategy, strategy_id, _extractor_id(extractor))

    def with_strategy(self, strategy: IndexingStrategy) -> Self:
        """Return the same recipe with another strategy."""
        return replace(self, strategy=strategy, strategy_id=_read_id(strategy, "an indexing strategy"))

    def with_extractor(self, extractor: EdgeExtractor) -> Self:
        """Return the same recipe with another extractor."""
        return replace(self, extractor=extractor, extractor_id=_extractor_id(extractor))

    def owns(self, entry: LedgerEntry) -> bool:
        """Return whether the artifact came from this source; names are compared without case."""
        return entry.source.casefold() == self.source.name.casefold()

    def stamp(self, artifact_id: str = "", version: str = "", record_ids: Sequence[str] = ()) -> LedgerEntry:
        """Return the ledger entry that the artifact would have now."""
        return LedgerEntry(
            artifact_id, version, self.embedder_id, self.strategy_id, self.extractor_id, self.source.name, record_ids
        )

    def is_current(self, stored: LedgerEntry, version: str) -> bool:
        """Return whether indexing this version of a stored artifact would change nothing."""
        return (
            stored.version == version
            and stored.embedder_id == self.embedder_id
            and stored.strategy_id == self.strategy_id
            and stored.extractor_id == self.extractor_id
            and self.owns(stored)
        )

    @property
    def is_async(self) -> bool:
        """Return whether the strategy's plans must be awaited before drafting."""
        return inspect.iscoroutinefunction(self.strategy.decompose)

    async def await_plan(self, artifact: Artifact) -> PlanResult:
        """Return the plan of an async strategy for one artifact, or the problem if it failed.

        Raises:
            SourceError: If it failed and problems are errors.
        """
        try:
            return await cast("Awaitable[IndexPlan]", self.strategy.decompose(artifact))
        except Exception as error:  # noqa: BLE001 - any error of a strategy is a problem of this item
            return self._to_problem(artifact, error)

    def draft(self, artifact: Artifact, version: str, awaited: PlanResult | None) -> Draft | ItemProblem:
        """Decompose an artifact, unless its plan was awaited, and extract its links.

        `check_drafts` checks whether the result can be stored.

        Raises:
            SourceError: If the version is not a string.
            Exception: Any error of the strategy or the extractor.
        """
        if not isinstance(version, str):
            raise SourceError(f"change_signal must return a string, not {short_repr(version)}")
        plan = awaited or cast("IndexPlan", self.strategy.decompose(artifact))
        if isinstance(plan, ItemProblem):
            return plan
        # A plan with problems is stored, but under another version: the next build tries again.
        version += UNFINISHED if plan.problems else ""
        fields, id = json_clean(plan.filter_fields), artifact.id
        records, texts = [], []
        for index, surface in enumerate(plan.surfaces):
            metadata = {**fields, **json_clean(surface.metadata)} if surface.metadata else {**fields}
            text = surface.text
            if surface.context:
                _check_text(surface.context)
                _check_text(text)
                metadata[_CONTEXT] = blake2b(surface.context.encode(), digest_size=8).hexdigest()
                text = f"{surface.context}\n{text}"
            texts.append(text)
            records.append(
                Record(Record.make_id(id, surface.kind, index), id, surface.kind, index, surface.text, metadata)
            )
        extraction = self.extractor.extract(artifact, plan.filter_fields) if self.extractor else record_links(artifact)
        record_ids = tuple([record.id for record in records])
        problems = limit_problems([*plan.problems, *extraction.problems])
        return Draft(self.stamp(artifact.id, version, record_ids), records, texts, extraction, problems)

    def check_drafts(self, drafts: Sequence[PlannedDraft]) -> list[PlannedDraft]:
        """Return the drafts, with a problem in place of each that cannot be stored.

        They are checked here, where a problem can name its item: a store would refuse the whole page.

        Raises:
            SourceError: If one cannot be stored and problems are errors.
        """
        # Nearly always, all can be stored: then one check of all texts together is enough.
        if _are_sound([draft for draft in drafts if isinstance(draft, Draft)]):
            return list(drafts)
        return [draft if isinstance(draft, ItemProblem) else self.attempt(_check_draft, draft) for draft in drafts]

    def attempt(self, function: Callable[[Item, *Rest], Result], item: Item, *rest: *Rest) -> Result | ItemProblem:
        """Return `function(item, *rest)`, or the problem if it failed.

        Raises:
            SourceError: If it failed and problems are errors; the original error is its cause.
        """
        try:
            return function(item, *rest)
        except Exception as error:  # noqa: BLE001 - any error is a problem of this item
            return self._to_problem(item, error)

    def _to_problem(self, item: object, error: Exception) -> ItemProblem:
        reason = str(error) if isinstance(error, SourceError) else f"{type(error).__name__}: {error}"
        problem = ItemProblem(_item_name(item), one_line(reason, longest=1_000))
        if self.on_error == "raise":
            raise self.to_error(problem) from error
        return problem

    def accept_problem(self, problem: ItemProblem) -> ItemProblem:
        """Return the problem if the build may go on with it.

        Raises:
            SourceError: If the item is lost and problems are errors.
        """
        if problem.lost and self.on_error == "raise":
            raise self.to_error(problem)
        return problem

    def to_error(self, problem: ItemProblem) -> SourceError:
        """Return the error that names the source, the item and the reason."""
        item = short_repr(problem.item)
        reason = one_line(problem.reason if item in problem.reason else f"{item} {problem.reason}", longest=800)
        origin = f"source {self.source.name!r}" if self.source.name else "upsert"
        return SourceError(f"{origin}: {reason} (on_error='skip' leaves it out)")


def _read_id(part: object, kind: str) -> str:
    """Return the id of a strategy or an extractor.

    Without an id, a build would not notice a change of its settings.
    """
    part_id = getattr(part, "id", None)
    if not isinstance(part_id, str) or not part_id:
        raise ArgumentError(
            f"{kind} needs an `id` that names it and its settings; {short_repr(part)} has {short_repr(part_id)}"
        )
    return part_id


def _extractor_id(extractor: EdgeExtractor | None) -> str:
    return "" if extractor is None else _read_id(extractor, "an edge extractor")


def check_id(item: object) -> str:
    """Return the id of an artifact that a source yielded, if it can be stored.

    Raises:
        SourceError: If the item is not an artifact, or its id is empty, not a string, or cannot be looked up again.
    """
    if not isinstance(item, Artifact):
        raise SourceError(f"a source must yield Artifact or ItemProblem, not {short_repr(item)}")
    if not isinstance(item.id, str) or not item.id:
        raise SourceError(f"an artifact's id must be a string that is not empty, not {short_repr(item.id)}")
    _check_text(item.id, allow_nul=False)
    return item.id


def _item_name(item: object) -> str:
    """Return the name of an item in a problem: its id if that can be printed, else its `repr`."""
    item_id = item.artifact_id if isinstance(item, Draft) else getattr(item, "id", item)
    return item_id if isinstance(item_id, str) and item_id and not find_text_fault(item_id) else short_repr(item_id)


def _are_sound(drafts: Sequence[Draft]) -> bool:
    """Return whether all texts can be stored, and all metadata are flat."""
    records = [record for draft in drafts for record in draft.records]
    fields = list_flat_texts([record.metadata for record in records])
    if fields is None:
        return False
    texts = [text for draft in drafts for text in draft.texts]
    keys = [key for draft in drafts for key in _keys(draft)]
    try:
        return not (find_text_fault("".join(texts + fields)) or find_text_fault("".join(keys), allow_nul=False))
    except TypeError:  # one is not a text
        return False


def _check_draft(draft: Draft) -> Draft:
    """Return the draft.

    Raises:
        SourceError: If it cannot be stored.
    """
    if any(is_deeper(record.metadata) for record in draft.records):
        raise SourceError("its fields nest deeper than 100 levels")
    for record, text in zip(draft.records, draft.texts, strict=True):
        _check_text(text)
        _check_text(_ENCODER.encode(record.metadata))
    # A store could not look up a key with a NUL character again.
    for key in _keys(draft):
        _check_text(key, allow_nul=False)
    return draft


def _keys(draft: Draft) -> list[Any]:
    keys = [draft.entry.version, *[record.surface_kind for record in draft.records]]
    for link in draft.extraction.links:
        keys += [link.target_ref, link.type, link.origin, link.target_source or "", link.file or ""]
    for tier in draft.extraction.names:
        keys += tier
    return keys


def _check_text(text: object, *, allow_nul: bool = True) -> None:
    if not isinstance(text, str):
        raise SourceError(f"expected text, not {short_repr(text)}")
    if fault := find_text_fault(text, allow_nul=allow_nul):
        raise SourceError(f"{short_repr(text)} contains {fault}")


UPSERT_SOURCE = "upserts"
"""The name that error messages use for artifacts without a source."""


def recipes_by_source(recipe: BuildRecipe, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipes of all sources for a corpus's settings, this build's included."""
    settings = {
        "strategy_id": recipe.strategy_id,
        "strategy": strategy_spec(recipe.strategy),
        "extractor_id": recipe.extractor_id,
        "extractor": extractor_spec(recipe.extractor) if recipe.extractor else None,
        **({"site": site} if recipe.extractor and (site := site_of(recipe.extractor)) else {}),
    }
    return {**config.get("recipes", {}), recipe.source.name.casefold(): settings}


def strategy_of(source: str, config: Mapping[str, Any], own: IndexingStrategy | None) -> IndexingStrategy:
    """Return the strategy that decomposes the artifacts of a source.

    That is `own` if it has the id in the settings; else the strategy that the settings specify.

    Raises:
        ArgumentError: If neither has that id.
    """
    settings = _find_recipe(source, config)
    if own is not None and own.id == settings.get("strategy_id"):
        return own
    strategy = None if settings.get("strategy") is None else strategy_from_spec(settings["strategy"])
    # Compare ids: what a specification makes may depend on the environment, and on the version of this library.
    if strategy is None or strategy.id != settings["strategy_id"]:
        raise ArgumentError(_describe_missing(config, "strategy", settings.get("strategy_id")))
    return strategy


def edge_extractor_of(source: str, config: Mapping[str, Any], own: EdgeExtractor | None) -> EdgeExtractor | None:
    """Return the link extractor of a source's artifacts; `None` for no links.

    It is chosen as in `strategy_of`.

    Raises:
        ArgumentError: If neither `own` nor the one in the settings has the stored id.
    """
    settings = _find_recipe(source, config)
    if not settings.get("extractor_id"):
        return None
    if own is not None and own.id == settings["extractor_id"]:
        return own
    extractor = None if settings.get("extractor") is None else extractor_from_spec(settings["extractor"])
    if extractor is None or extractor.id != settings["extractor_id"]:
        raise ArgumentError(_describe_missing(config, "edge_extractor", settings["extractor_id"]))
    return extractor


def fit_strategy(recipe: BuildRecipe, max_tokens: int | None) -> BuildRecipe:
    """Return the recipe with a strategy for long texts, if the source leaves that open.

    Args:
        recipe: The recipe with the strategy of the source.
        max_tokens: The number of tokens that the model reads of a text; `None` for no limit.
    """
    whole = recipe.strategy
    if max_tokens is None or not isinstance(whole, WholeText) or not getattr(recipe.source, "fits_model", False):
        return recipe
    return recipe.with_strategy(FittedText(max_tokens=max_tokens, text_key=whole.text_key, kind=whole.kind))


def keep_strategy(recipe: BuildRecipe, config: Mapping[str, Any]) -> BuildRecipe:
    """Return the recipe with the strategy for long texts that the last build has chosen."""
    match config.get("recipes", {}).get(recipe.source.name.casefold(), {}).get("strategy"):
        case {"name": "FittedText", "params": {"max_tokens": int(max_tokens)}} if max_tokens > 0:
            return fit_strategy(recipe, max_tokens)
    return recipe


def keep_extractor(recipe: BuildRecipe, config: Mapping[str, Any]) -> BuildRecipe:
    """Return the recipe with the site that the last build found, and its extractor if needed.

    Without an extractor, the build would remove all links of the source. If the settings cannot make it, artifacts that
    have not changed keep their links, and others cannot be indexed.
    """
    settings: Mapping[str, Any] = config.get("recipes", {}).get(recipe.source.name.casefold(), {})
    extractor, spec = recipe.extractor, settings.get("extractor")
    if extractor is None and settings.get("extractor_id"):
        extractor = _MissingExtractor(settings["extractor_id"]) if spec is None else extractor_from_spec(spec)
    if extractor is None:
        return recipe
    match settings.get("site"):
        case {"root": str(root), "label_first": bool(label_first)}:
            extractor = with_site(extractor, root, label_first=label_first)
    return recipe.with_extractor(extractor)


@dataclass(frozen=True, slots=True)
class _MissingExtractor:
    """Stands for an extractor that is known by its id alone."""

    id: str

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Refuse to extract the links of an artifact."""
        raise SourceError(
            f"links of {artifact.id!r} need edge_extractor={self.id}, which the settings of the corpus cannot make; "
            "pass edge_extractor=... again, or force=True to remove all links"
        )


def _find_recipe(source: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the recipe of a source from the settings.

    Artifacts without a source have the recipe of the last build.
    """
    recipes: Mapping[str, Mapping[str, Any]] = config.get("recipes", {})
    return recipes.get(source.casefold()) or recipes.get(config.get("source", "").casefold()) or config


def _describe_missing(config: Mapping[str, Any], parameter: str, stored_id: object) -> str:
    return (
        f"corpus {config.get('name')!r} was built with {parameter}={stored_id}, which cannot be made from its "
        f"settings; pass it to open_corpus({config.get('name')!r}, {parameter}=...), or build the corpus again"
    )
