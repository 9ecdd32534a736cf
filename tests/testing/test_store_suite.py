"""Every case of the exam of stores fails for a store with the fault that it checks."""

import json
import subprocess
import sys
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from fnmatch import fnmatch
from itertools import pairwise

import anyio
import numpy as np
import pytest

from airw import protocols
from airw.errors import ArgumentError, EmbedderError, StoreError
from airw.protocols import BestRecords
from airw.stores import MemoryStore
from airw.testing import CAPABILITIES, StoreSuite
from airw.testing.exam import expect_equal
from airw.testing.stores import STORE
from airw.values import Edge, Extraction, Link, Ranking, Record
from airw.values.filters import MISSING, And, Compare, Not, Or, get_field, matches
from tests.support.internals.step_stores import StepStore
from tests.support.repeats import mark_repeats
from tests.support.store_cases.suite import CloseSuite

CASES = (*StoreSuite.all_cases, *CloseSuite.all_cases)
MUTANTS = []
LOCKS = []
SEARCHES = ("search_vectors", "search_text")


def breaks(*patterns):
    """Register a store that fails the cases with these names; `*` matches anything."""

    def add(mutant):
        MUTANTS.append((mutant, patterns))
        return mutant

    return add


def suite_of(mutant):
    return StoreSuite(lambda folder: mutant(), capabilities=list(CAPABILITIES))


def mutants_and_cases():
    for mutant, patterns in MUTANTS:
        for pattern in patterns:
            matching_cases = [case for case in CASES if fnmatch(case.name, pattern)]
            assert matching_cases, f"no case is named {pattern}"
            yield from (pytest.param(mutant, case, id=f"{mutant.__name__}-{case}") for case in matching_cases)


def make_ranking(rows):
    """Return the ranking of `(score, artifact, record)` rows."""
    return Ranking([r for _, _, r in rows], [a for _, a, _ in rows], np.array([s for s, _, _ in rows], np.float64))


def rows_of(ranking):
    return list(zip(ranking.scores.tolist(), ranking.artifact_ids, ranking.record_ids, strict=True))


class Twisted(MemoryStore):
    """A store whose searches call `twist(search, queries, k, options)`."""

    async def search_vectors(self, queries, k, **options):
        return await self.twist(super().search_vectors, queries, k, options)

    async def search_text(self, queries, k, **options):
        return await self.twist(super().search_text, queries, k, options)


@breaks("surface_kinds_answers_*", "has_fields_answers_*", "field_names_answers_*")
class TellsTheSchemaBackwards(MemoryStore):
    async def surface_kinds(self):
        return (await super().surface_kinds())[::-1]

    async def has_fields(self, paths):
        return (await super().has_fields(paths))[::-1]

    async def field_names(self, *, limit=10_000):
        return (await super().field_names(limit=limit))[::-1]


@breaks("the_schema_is_that_of_the_present_records")
class RemembersTheFirstSchema(MemoryStore):
    async def surface_kinds(self):
        self.kinds = getattr(self, "kinds", None) or await super().surface_kinds()
        return self.kinds


@breaks("the_schema_is_that_of_the_present_records")
class KnowsNoDottedFields(MemoryStore):
    async def has_fields(self, paths):
        names = await super().field_names()
        return [path in names for path in paths]


@breaks("filters_*", "search_*_answers_as_a_memory_store_does")
class DropsFilters(Twisted):
    async def twist(self, search, queries, k, options):
        return await search(queries, k, **options | {"filter": None})


@breaks("filters_act_before_the_cut*", "search_*_answers_as_a_memory_store_does")
class FiltersAfterTheCut(Twisted):
    async def twist(self, search, queries, k, options):
        kept = {row[2] for each in await search(queries, 10_000, **options) for row in rows_of(each)}
        found = await search(queries, k, **options | {"filter": None})
        return [make_ranking([row for row in rows_of(each) if row[2] in kept]) for each in found]


def keeps(compare, filter, metadata):
    """Return whether metadata satisfy a filter with another meaning of comparisons."""
    if isinstance(filter, Compare):
        return compare(filter, metadata)
    if isinstance(filter, Not):
        return not keeps(compare, filter.part, metadata)
    if isinstance(filter, And | Or):
        return (all if isinstance(filter, And) else any)(keeps(compare, part, metadata) for part in filter.parts)
    return True


class OtherFilters(Twisted):
    """A store that evaluates comparisons by `compare(comparison, metadata)`."""

    async def twist(self, search, queries, k, options):
        found = await search(queries, 10_000, **options | {"filter": None, "per_artifact": False})
        records = {each.id: each for each in await self.get_records(found[0].record_ids)}
        meant = [
            make_ranking(
                [row for row in rows_of(each) if keeps(self.compare, options.get("filter"), records[row[2]].metadata)]
            )
            for each in found
        ]
        return [make_ranking(rows_of(each)[:k]) for each in meant]


@breaks("filters_of_equality*", "filters_of_membership*", "filters_of_order_keep*")
class FloatsOnly(OtherFilters):
    """A store that keeps numbers as doubles."""

    def compare(self, filter, metadata):
        def double(value):
            if isinstance(value, list):
                return [double(each) for each in value]
            return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

        return matches(replace(filter, operand=double(filter.operand)), {k: double(v) for k, v in metadata.items()})


@breaks("filters_of_equality*", "filters_of_lists_and_substrings*")
class IgnoresCase(OtherFilters):
    def compare(self, filter, metadata):
        def fold_case(value):
            return json.loads(json.dumps(value).lower())

        return matches(replace(filter, operand=fold_case(filter.operand)), fold_case(metadata))


@breaks("filters_of_dotted_paths*", "filters_of_presence*")
class NoLiteralKeys(OtherFilters):
    def compare(self, filter, metadata):
        return matches(filter, {key: value for key, value in metadata.items() if "." not in key})


@breaks("filters_of_equality*", "filters_of_membership*", "filters_of_several*", "filters_of_dotted*")
class MissingIsUnknown(OtherFilters):
    """A comparison with NULL keeps nothing, as in SQL."""

    def compare(self, filter, metadata):
        missing = get_field(metadata, filter.path) is MISSING
        return matches(filter, metadata) and not (missing and filter.op in ("$ne", "$nin"))


@breaks("filters_of_order_keep*", "filters_of_several*")
class OrdersEverything(OtherFilters):
    """Any text is greater than any number, as in SQLite."""

    def compare(self, filter, metadata):
        value = get_field(metadata, filter.path)
        mixed = isinstance(value, str) and isinstance(filter.operand, int | float)
        return (
            filter.op in ("$gt", "$gte") if mixed and filter.op.startswith(("$g", "$l")) else matches(filter, metadata)
        )


@breaks("filters_of_lists_and_substrings*")
class ContainsIsForListsOnly(OtherFilters):
    def compare(self, filter, metadata):
        return matches(filter, metadata) and (
            filter.op != "$contains" or isinstance(get_field(metadata, filter.path), list)
        )


@breaks(
    "*cosine_then_artifact*",
    "equal_scores_go*",
    "any_history*text*",
    "any_history*vectors*",
    "search_*_answers_as_a_memory_store_does",
)
class TiesTheOtherWayRound(Twisted):
    async def twist(self, search, queries, k, options):
        found = [
            sorted(rows_of(each), key=lambda row: row[1:], reverse=True)
            for each in await search(queries, 9_999, **options)
        ]
        return [make_ranking(sorted(rows, key=lambda row: -row[0])[:k]) for rows in found]


@breaks("equal_scores_go*")
class TiesByRecordId(Twisted):
    async def twist(self, search, queries, k, options):
        found = await search(queries, 9_999, **options)
        return [make_ranking(sorted(rows_of(each), key=lambda row: (-row[0], row[2]))[:k]) for each in found]


@breaks(
    "several_*",
    "equal_*",
    "*best_first",
    "a_search_equals*",
    "filters_act_before*",
    "*artifacts_with_many*",
    "search_*_answers_as_a_memory_store_does",
)
class IgnoresK(Twisted):
    async def twist(self, search, queries, k, options):
        return await search(queries, 10_000, **options)


@breaks("*crowd_out*", "equal_*", "search_*_answers_as_a_memory_store_does")
class CollapsesAfterTheCut(Twisted):
    async def twist(self, search, queries, k, options):
        found = await search(queries, k, **options | {"per_artifact": False})
        if not options.get("per_artifact"):
            return found
        return [
            make_ranking([row for at, row in enumerate(rows) if row[1] not in {r[1] for r in rows[:at]}])
            for rows in map(rows_of, found)
        ]


@breaks("texts_are_indexed_again_for_another_language")
class ForgetsToIndexTextsAgain(MemoryStore):
    wish = "en"

    async def language(self):
        return self.wish

    async def set_language(self, language):
        self.wish = language


@breaks("searches_with_pooled_counts*", "counts_that_do_not_fit*")
class IgnoresStatistics(Twisted):
    async def twist(self, search, queries, k, options):
        return await search(queries, k, **{name: value for name, value in options.items() if name != "statistics"})


@breaks("searches_with_pooled_counts*", "term_statistics_answers_as_a_memory_store_does")
class CountsNoRecords(MemoryStore):
    async def term_statistics(self, queries):
        counts = await super().term_statistics(queries)
        return replace(counts, records=max(counts.frequencies.values(), default=0))


@breaks("neighbor_columns_answers_as_a_memory_store_does", "columns_have_the_edges_of_neighbors")
class PutsColumnsInAnotherOrder(MemoryStore):
    async def neighbor_columns(self, numbers, **options):
        columns = await super().neighbor_columns(numbers, **options)
        order = [at for start, stop in pairwise(columns.offsets) for at in range(start, stop)[::-1]]
        return columns._replace(ends=columns.ends[order], labels=columns.labels[order])


@breaks("numbers_that_nothing_has*")
class TakesAnyNumber(MemoryStore):
    async def neighbor_columns(self, numbers, **options):
        known = [number if number < 1_000 else -1 for number in numbers]
        return await super().neighbor_columns(known, **options)


@breaks("numbers_of_artifacts_are_never_used_again")
class NumbersArtifactsAgain(MemoryStore):
    """A store whose numbers are places in the order of the present ids."""

    async def artifact_numbers(self, ids):
        await super().artifact_numbers(ids)
        present = await self.artifact_ids()
        return np.array([present.index(id) if id in present else -1 for id in ids], np.int64)


@breaks("a_limit_below_zero*")
class TakesAnyLimit(MemoryStore):
    """A store that reads a negative limit as no limit, as SQL does."""

    async def records_of(self, artifact_ids, *, kinds=None, limit=None):
        return await super().records_of(artifact_ids, kinds=kinds, limit=limit if (limit or 0) >= 0 else None)

    async def neighbors(self, ids, *, limit=None, **options):
        return await super().neighbors(ids, limit=limit if (limit or 0) >= 0 else None, **options)

    async def matching(self, wanted, *, limit=None):
        return await super().matching(wanted, limit=limit if (limit or 0) >= 0 else None)

    async def unresolved_links(self, artifact_ids=None, *, limit=None):
        return await super().unresolved_links(artifact_ids, limit=limit if (limit or 0) >= 0 else None)


@breaks("only_the_wanted_surfaces*", "search_*_answers_as_a_memory_store_does")
class IgnoresSurfaces(Twisted):
    async def twist(self, search, queries, k, options):
        return await search(queries, k, **options | {"surfaces": options.get("surfaces") or None})


@breaks("several_*", "search_*_answers_as_a_memory_store_does")
class AnswersQueriesBackwards(Twisted):
    async def twist(self, search, queries, k, options):
        return (await search(queries, k, **options))[::-1]


@breaks("a_search_equals*", "records_without_any_likeness*", "search_vectors_answers_as_a_memory_store_does")
class ScalesCosine(MemoryStore):
    async def search_vectors(self, queries, k, **options):
        found = await super().search_vectors(queries, k, **options)
        return [Ranking(each.record_ids, each.artifact_ids, (1 + each.scores) / 2) for each in found]


@breaks("a_new_store_ranks_nothing*", "a_new_store_finds*", "search_*_answers_as_a_memory_store_does")
class ScoresInSinglePrecision(Twisted):
    async def twist(self, search, queries, k, options):
        found = await search(queries, k, **options)
        return [Ranking(each.record_ids, each.artifact_ids, each.scores.astype(np.float32)) for each in found]


@breaks("records_without_any_likeness*", "any_history*vectors*")
class DropsTheUnlike(MemoryStore):
    async def search_vectors(self, queries, k, **options):
        found = await super().search_vectors(queries, k, **options)
        return [make_ranking([row for row in rows_of(each) if row[0] > 0]) for each in found]


@breaks("scores_are_those*", "scores_are_positive*", "statistics*", "bm25*")
class TellsBm25AsSqliteDoes(MemoryStore):
    async def search_text(self, queries, k, **options):
        factor = -1.0 if options.get("filter") is None else -1.1
        found = await super().search_text(queries, k, **options)
        return [Ranking(each.record_ids, each.artifact_ids, factor * each.scores) for each in found]


@breaks("scores_are_those*", "statistics*", "search_text_answers_as_a_memory_store_does")
class AlmostBm25(MemoryStore):
    async def search_text(self, queries, k, **options):
        found = await super().search_text(queries, k, **options)
        return [Ranking(each.record_ids, each.artifact_ids, each.scores * 1.00001) for each in found]


@breaks("words_are_cut*", "long_texts*", "search_text_answers_as_a_memory_store_does")
class ReadsWordsAtSpaces(MemoryStore):
    async def search_text(self, queries, k, **options):
        return await super().search_text([query.replace(":", "")[:5_000] for query in queries], k, **options)


@breaks(
    "*cancelled_write*",
    "*all_of_a_write*",
    "nothing_of_a_refused_write*",
    "what_no_store*",
    "a_link_or*",
)
class WritesOneAfterAnother(MemoryStore):
    async def apply(self, puts, *, removals=()):
        await super().apply([], removals=set(removals) - {each.entry.artifact_id for each in puts})
        for change in puts:
            await super().apply([replace(change, extraction=Extraction()), *puts[len(puts) :]])
            await super().apply([change])
            await anyio.sleep(0.0001)


@breaks(
    "nothing_of_a_refused_write*",
    "any_history*",
    "*a_replaced*",
    "*removed_artifact*",
    "*follow_every_write*",
    "counts_count*",
)
class NeverForgets(MemoryStore):
    """Keeps the records, links and fields of replaced and removed artifacts."""

    async def apply(self, puts, *, removals=()):
        merged = []
        for change in puts:
            [old] = await self.records_of([change.entry.artifact_id])
            new = {record.id: (record, row) for record, row in zip(change.records, change.vectors, strict=True)}
            for record in old or []:
                shifted = replace(record, id=f"{record.id}+", surface_index=record.surface_index + 100)
                new.setdefault(shifted.id, (shifted, (await self.vectors([record.id]))[0]))
            records = [record for record, _ in new.values()]
            links = [
                Link(edge.target, edge.type)
                for edge in (await self.neighbors([change.entry.artifact_id]))[0]
                if isinstance(edge.target, str)
            ]
            vectors = np.array([row for _, row in new.values()], np.float32) if new else change.vectors
            extraction = replace(change.extraction, links=[*change.extraction.links, *links])
            merged.append(replace(change, records=records, vectors=vectors, extraction=extraction))
        await super().apply(merged)


@breaks(
    "any_history*",
    "words_of_a_replaced*",
    "vectors_of_a_replaced*",
    "matching_follows*",
    "filters_follow*",
    "a_dangling*",
    "an_ambig*",
    "an_id_outranks*",
    "the_links_of_a_replaced*",
    "a_replaced*",
    "counts_count_artifacts*",
    "the_width_may*",
)
class WritesOnlyOnce(MemoryStore):
    """A later write changes nothing."""

    async def apply(self, puts, *, removals=()):
        if not await self.artifact_ids():
            await super().apply(puts, removals=removals)


@breaks("a_removed_artifact*", "*put_and_removed*", "ids_are_asked*", "any_text_can_be_an_id", "writing_nothing*")
class RemovesLast(MemoryStore):
    async def apply(self, puts, *, removals=()):
        known = await self.artifact_ids()
        if not puts and (not removals or set(removals) - set(known)):
            raise KeyError("nothing to remove")
        await super().apply(puts)
        await super().apply([], removals=removals if puts else [])


@breaks("what_no_store*", "the_width_may*", "a_record_of_one*", "a_link_or_name*", "nothing_of_a_refused*")
class TakesAnything(MemoryStore):
    """Repairs values that it should refuse, and takes the last of two duplicates."""

    async def apply(self, puts, *, removals=()):
        def mend(value):
            return json.loads(json.dumps(value).replace("\\ud800", "?").replace("\\u0000", "?"))

        changes = {}
        for change in puts:
            name = mend(change.entry.artifact_id)
            records = [
                replace(
                    r,
                    artifact_id=name,
                    text=mend(r.text),
                    metadata=mend({**r.metadata}) if len(r.metadata) == 1 else r.metadata,
                )
                for r in change.records
            ]
            links = [replace(each, target_ref=mend(each.target_ref)) for each in change.extraction.links]
            names = [mend([*tier]) for tier in change.extraction.names]
            vectors = np.nan_to_num(change.vectors[: len(records)], posinf=0)
            if vectors.shape[1] == 3:
                vectors = np.pad(vectors, ((0, 0), (0, 1)))
            entry = replace(change.entry, artifact_id=name)
            changes[name] = replace(
                change, entry=entry, records=records, vectors=vectors, extraction=Extraction(links, names)
            )
        await super().apply(list(changes.values()), removals=removals)


@breaks("records_come_back*", "ids_are_asked*", "get_records_answers_as_a_memory_store_does")
class LeavesOutWhatIsNotThere(MemoryStore):
    async def get_records(self, ids):
        return [each for each in await super().get_records(ids) if each is not None]


@breaks("records_of_artifacts*", "records_of_answers_as_a_memory_store_does")
class OrdersKindsItsOwnWay(MemoryStore):
    async def records_of(self, artifact_ids, **options):
        found = await super().records_of(artifact_ids, **options)
        return [each and sorted(each, key=lambda record: record.surface_kind) for each in found]


@breaks("the_ledger_tells*", "a_new_store_holds*", "ledger_answers_as_a_memory_store_does")
class LedgerInOrderOfWriting(MemoryStore):
    async def ledger(self, ids=None):
        found = await super().ledger(ids)
        return [each for each in found if each] if ids else found[::-1]


@breaks("any_text_can_be_an_id", "the_ledger_tells*", "artifact_ids_answers_as_a_memory_store_does")
class SortsIdsAsPeopleDo(MemoryStore):
    async def artifact_ids(self):
        return sorted(await super().artifact_ids(), key=str.casefold)


@breaks("counts_count_artifacts*", "counts_count_links*", "counts_answers_as_a_memory_store_does")
class CountsTwice(MemoryStore):
    async def counts(self):
        return {key: 2 * value for key, value in (await super().counts()).items()}


@breaks("*_by_the_ten_thousand*", "thousands_are*")
class TakesFewParameters(MemoryStore):
    """A store whose database binds each id separately."""

    def _few(self, ids):
        if len(ids or ()) > 32_766:
            raise StoreError("too many SQL variables")
        return ids

    async def get_records(self, ids):
        return await super().get_records(self._few(ids))

    async def records_of(self, artifact_ids, **options):
        return await super().records_of(self._few(artifact_ids), **options)

    async def similarities(self, query, record_ids):
        return await super().similarities(query, self._few(record_ids))

    async def neighbors(self, ids, **options):
        return await super().neighbors(self._few(ids), **options)

    async def resolve(self, refs):
        return await super().resolve(self._few(refs))


@breaks("nothing_given_or_received*", "no_record_given*", "no_vector_given*", "no_setting_given*")
class HandsOutHandles(MemoryStore):
    def __init__(self):
        super().__init__()
        self.handles, self.settings = {}, {}

    async def get_records(self, ids):
        return [each and self.handles.setdefault(each.id, each) for each in await super().get_records(ids)]

    async def records_of(self, artifact_ids, **options):
        return self.handles.setdefault(("records_of", *artifact_ids), await super().records_of(artifact_ids, **options))

    async def vectors(self, ids):
        return self.handles.setdefault(("vectors", *ids), await super().vectors(ids))

    async def set_config(self, config):
        self.settings = config

    async def config(self):
        return self.settings


@breaks("metadata_comes_back*", "filters_of_equality*", "matching_finds*")
class KeepsMetadataAsText(MemoryStore):
    async def apply(self, puts, *, removals=()):
        def as_text(record):
            return replace(record, metadata={key: str(value) for key, value in record.metadata.items()})

        await super().apply(
            [replace(each, records=list(map(as_text, each.records))) for each in puts], removals=removals
        )


@breaks("empty_texts_odd*")
class StripsTexts(MemoryStore):
    async def apply(self, puts, *, removals=()):
        stripped = [replace(each, records=[replace(r, text=r.text.strip()) for r in each.records]) for each in puts]
        await super().apply(stripped, removals=removals)


@breaks(
    "vectors_come_back*",
    "similarities_are*",
    "the_best_record*",
    "vectors_answers_as_a_memory_store_does",
    "similarities_answers_as_a_memory_store_does",
    "best_of_answers_as_a_memory_store_does",
)
class ZeroWhereNothingIs(MemoryStore):
    async def vectors(self, ids):
        return np.nan_to_num(await super().vectors(ids))

    async def similarities(self, query, record_ids):
        return np.nan_to_num(await super().similarities(query, record_ids))

    async def best_of(self, query, artifact_ids, *, surfaces=None):
        ids, scores = await super().best_of(query, artifact_ids, surfaces=surfaces)
        return ids, np.nan_to_num(scores)


@breaks("the_best_record*", "best_of_answers_as_a_memory_store_does")
class BestWhateverTheSurface(MemoryStore):
    async def best_of(self, query, artifact_ids, *, surfaces=None):
        return await super().best_of(query, artifact_ids)


@breaks("a_query_of_another_width*", "a_query_that_is_not_finite*")
class MendsQueries(MemoryStore):
    async def search_vectors(self, queries, k, **options):
        try:
            return await super().search_vectors(np.nan_to_num(queries, posinf=0), k, **options)
        except EmbedderError:
            return [make_ranking([]) for _ in queries]


@breaks(
    "an_edge_follows*", "an_id_outranks*", "an_ambiguous*", "edges_lead_to*", "resolve_answers_as_a_memory_store_does"
)
class IgnoresTiers(MemoryStore):
    async def apply(self, puts, *, removals=()):
        flat = [[name for tier in each.extraction.names for name in tier] for each in puts]
        changed = [
            replace(each, extraction=replace(each.extraction, names=[names]))
            for each, names in zip(puts, flat, strict=True)
        ]
        await super().apply(changed, removals=removals)


@breaks(
    "names_are_compared*",
    "any_text_can_be_linked*",
    "any_text_can_be_asked*",
    "neighbors_answers_as_a_memory_store_does",
    "resolve_answers_as_a_memory_store_does",
)
class FoldsNames(MemoryStore):
    async def apply(self, puts, *, removals=()):
        def fold_names(extraction):
            links = [replace(each, target_ref=each.target_ref.strip().casefold()) for each in extraction.links]
            return Extraction(links, [[name.casefold() for name in tier] for tier in extraction.names])

        changed = [replace(each, extraction=fold_names(each.extraction)) for each in puts]
        await super().apply(changed, removals=removals)


@breaks("if_no_name_is*", "resolve_answers_as_a_memory_store_does")
class NeverFoldsCase(MemoryStore):
    async def apply(self, puts, *, removals=()):
        changed = [replace(each, extraction=replace(each.extraction, fold_case=False)) for each in puts]
        await super().apply(changed, removals=removals)


class OtherEdges(MemoryStore):
    """A store that returns other edges: `twist(neighbors, ids, options)`."""

    async def neighbors(self, ids, **options):
        return await self.twist(super().neighbors, ids, options)


@breaks("a_dangling*", "names_are*", "a_new_store_has_no_edges*", "a_link_or_name*")
class TellsDanglingEdges(OtherEdges):
    async def twist(self, neighbors, ids, options):
        return [
            edges or [Edge(name, "nowhere", "related")]
            for name, edges in zip(ids, await neighbors(ids, **options), strict=True)
        ]


@breaks("edges_come_by_direction*", "links_to_other*", "edges_are_asked*", "neighbors_answers_as_a_memory_store_does")
class LeavesOutArtifactsWithoutEdges(OtherEdges):
    async def twist(self, neighbors, ids, options):
        return [edges for edges in await neighbors(dict.fromkeys(ids), **options) if edges]


@breaks("edges_come_by_direction*", "a_limit_cuts*", "neighbors_answers_as_a_memory_store_does")
class OrdersByOtherEndFirst(OtherEdges):
    async def twist(self, neighbors, ids, options):
        found = await neighbors(ids, **options)
        return [sorted(each, key=lambda edge: (str(edge.target), edge.type), reverse=True) for each in found]


@breaks("types_and_origins*", "neighbors_answers_as_a_memory_store_does")
class TakesAnEmptyListForAll(OtherEdges):
    async def twist(self, neighbors, ids, options):
        return await neighbors(ids, **options | {"types": options.get("types") or None})


@breaks("types_and_origins*", "a_limit_cuts*", "neighbors_answers_as_a_memory_store_does")
class ExcludesNothing(OtherEdges):
    async def twist(self, neighbors, ids, options):
        return await neighbors(ids, **options | {"exclude": ()})


@breaks("a_limit_cuts*", "neighbors_answers_as_a_memory_store_does")
class IgnoresTheLimit(OtherEdges):
    async def twist(self, neighbors, ids, options):
        return await neighbors(ids, **options | {"limit": None})


@breaks("a_limit_cuts*", "a_direction_that*", "neighbors_answers_as_a_memory_store_does")
class ChoosesAfterTheLimit(OtherEdges):
    async def twist(self, neighbors, ids, options):
        if options.get("direction") == "upwards":
            return [[] for _ in ids]
        found = await neighbors(ids, direction=options.get("direction", "out"), limit=options.get("limit"))
        return [[edge for edge in edges if edge.type not in options.get("exclude", ())] for edges in found]


@breaks("links_to_other*", "neighbors_answers_as_a_memory_store_does")
class KnowsNoOtherCorpora(OtherEdges):
    async def twist(self, neighbors, ids, options):
        return [[edge for edge in edges if isinstance(edge.target, str)] for edges in await neighbors(ids, **options)]


class OtherLinks(MemoryStore):
    """A store that keeps other links: `keep(link)`."""

    async def apply(self, puts, *, removals=()):
        puts = [
            replace(each, extraction=replace(each.extraction, links=[*map(self.keep, each.extraction.links)]))
            for each in puts
        ]
        await super().apply(puts, removals=removals)


@breaks("a_second_name*", "a_link_of_two_names_follows*", "of_two_names*", "edges_lead_to*")
class ForgetsTheSecondName(OtherLinks):
    def keep(self, link):
        return replace(link, or_ref=None)


@breaks("a_link_of_two_names*", "of_two_names*", "edges_lead_to*")
class TakesTheSecondNameForTheFirst(OtherLinks):
    def keep(self, link):
        return replace(link, target_ref=link.or_ref or link.target_ref, or_ref=link.or_ref and link.target_ref)


@breaks("neighbors_answers_as_a_memory_store_does")
class ForgetsWeights(OtherLinks):
    def keep(self, link):
        return replace(link, weight=1)


class OtherUnresolved(MemoryStore):
    """A store that returns other links: `twist(unresolved, artifact_ids, limit)`."""

    async def unresolved_links(self, artifact_ids=None, *, limit=None):
        return await self.twist(super().unresolved_links, artifact_ids, limit)


@breaks("links_that_are_no_edge*", "unresolved_links_answers_as_a_memory_store_does")
class CutsBeforeTheChoice(OtherUnresolved):
    async def twist(self, unresolved, artifact_ids, limit):
        found = await unresolved(limit=limit)
        return [each for each in found if artifact_ids is None or each.source in artifact_ids]


@breaks("links_that_are_no_edge*", "unresolved_links_answers_as_a_memory_store_does")
class TellsUnresolvedLinksOnce(OtherUnresolved):
    async def twist(self, unresolved, artifact_ids, limit):
        return list(dict.fromkeys(await unresolved(artifact_ids)))[:limit]


@breaks("links_that_are_no_edge*", "any_history*links*", "unresolved_links_answers_as_a_memory_store_does")
class KnowsNoCandidates(OtherUnresolved):
    async def twist(self, unresolved, artifact_ids, limit):
        return [replace(each, candidates=()) for each in await unresolved(artifact_ids, limit=limit)]


@breaks("links_that_are_no_edge*", "unresolved_links_answers_as_a_memory_store_does")
class TakesNoArtifactsForAll(OtherUnresolved):
    async def twist(self, unresolved, artifact_ids, limit):
        return await unresolved(artifact_ids or None, limit=limit)


@breaks("links_are_counted*", "link_counts_answers_as_a_memory_store_does")
class CountsOfOneState(MemoryStore):
    async def link_counts(self):
        return [each for each in await super().link_counts() if each.state != "foreign"]


@breaks("links_are_counted*", "any_history*links*", "link_counts_answers_as_a_memory_store_does")
class CountsInOrderOfNumber(MemoryStore):
    async def link_counts(self):
        return sorted(await super().link_counts(), key=lambda each: -each.count)


@breaks("in_a_new_store*", "a_reference_means*", "resolve_answers_as_a_memory_store_does")
class LeavesOutWhatMeansNothing(MemoryStore):
    async def resolve(self, refs):
        return [each for each in await super().resolve(refs) if each]


@breaks("a_reference_means*", "any_history*links*", "resolve_answers_as_a_memory_store_does")
class MeansTheFirst(MemoryStore):
    async def resolve(self, refs):
        return [each[:1] for each in await super().resolve(refs)]


class OtherReferrers(MemoryStore):
    """A store that returns other referrers: `twist(referrers, nodes, types)`.

    The counts follow from them.
    """

    async def apply(self, puts, *, removals=()):
        await super().apply(puts, removals=removals)
        self.links = getattr(self, "links", {}) | {each.entry.artifact_id: each.extraction.links for each in puts}

    async def referrers(self, nodes, *, types=None):
        return await self.twist(super().referrers, nodes, types)

    async def fan_in(self, nodes, *, types=None):
        return [len(each) for each in await self.referrers(nodes, types=types)]

    async def max_fan_in(self, *, types=None):
        links = [each for some in getattr(self, "links", {}).values() for each in some]
        pairs = [(each.target_source, each.target_ref) for each in links if each.target_source]
        nodes = [*await self.artifact_ids(), *pairs, *(each.target_ref for each in links if not each.target_source)]
        return max(await self.fan_in(nodes, types=types), default=0)


@breaks(
    "referrers_of_an*",
    "a_reference_has*",
    "nodes_of_other*",
    "the_largest*",
    "*referrers_are_those*",
    "referrers_answers_as_a_memory_store_does",
    "fan_in_answers_as_a_memory_store_does",
    "max_fan_in_answers_as_a_memory_store_does",
)
class KnowsEdgesOnly(OtherReferrers):
    async def twist(self, referrers, nodes, types):
        ids = [node if isinstance(node, str) else "" for node in nodes]
        return [[edge.source for edge in each] for each in await self.neighbors(ids, direction="in", types=types)]


@breaks("referrers_of_an*", "in_a_new_store*", "the_largest*", "referrers_answers_as_a_memory_store_does")
class RefersToItself(OtherReferrers):
    async def twist(self, referrers, nodes, types):
        found = await referrers(nodes, types=types)
        return [
            sorted({*each, node}) if isinstance(node, str) else each for node, each in zip(nodes, found, strict=True)
        ]


@breaks("referrers_are_those*", "referrers_answers_as_a_memory_store_does")
class TakesNoTypesForAll(OtherReferrers):
    async def twist(self, referrers, nodes, types):
        return await referrers(nodes, types=types or None)


@breaks("an_id_of_the_corpus*", "a_reference_has*", "referrers_answers_as_a_memory_store_does")
class ReadsIdsAsTexts(OtherReferrers):
    async def twist(self, referrers, nodes, types):
        written = [
            {name for name, links in self.links.items() for link in links if link.target_ref == node} for node in nodes
        ]
        return [sorted(each) for each in written]


@breaks("nodes_of_other*", "the_largest*", "referrers_answers_as_a_memory_store_does")
class TakesOtherCorporaForThisOne(OtherReferrers):
    async def twist(self, referrers, nodes, types):
        return await referrers([node if isinstance(node, str) else node[1] for node in nodes], types=types)


@breaks("the_vectors_of_artifacts*", "vectors_of_answers_as_a_memory_store_does")
class OrdersVectorsBySurface(MemoryStore):
    async def vectors_of(self, artifact_ids):
        groups = [
            [record.id for record in sorted(each or (), key=lambda record: record.surface_index)]
            for each in await self.records_of(artifact_ids)
        ]
        return groups, await self.vectors([each for group in groups for each in group])


@breaks("a_new_store_ranks_nothing*", "the_vectors_of_artifacts*", "vectors_of_answers_as_a_memory_store_does")
class AnswersEachArtifactOnce(MemoryStore):
    async def vectors_of(self, artifact_ids):
        found, vectors = await super().vectors_of(list(dict.fromkeys(artifact_ids)))
        return [each for each in found if each], vectors


@breaks("matching_asks_about_many*", "matching_answers_as_a_memory_store_does")
class MatchesInOneField(MemoryStore):
    async def matching(self, wanted, *, limit=None):
        return await super().matching([(wanted[0][0], value) for _, value in wanted] if wanted else [], limit=limit)


@breaks("matching_counts*", "matching_answers_as_a_memory_store_does")
class MatchesFirstRecords(MemoryStore):
    async def matching(self, wanted, *, limit=None):
        firsts = [each[0] for each in await self.records_of(await self.artifact_ids())]
        return [[r.artifact_id for r in firsts if r.metadata.get(field) == value][:limit] for field, value in wanted]


@breaks("matching_finds*", "matching_follows*", "matching_answers_as_a_memory_store_does")
class MatchesWholeValuesOnly(MemoryStore):
    async def matching(self, wanted, *, limit=None):
        records = [each for some in await self.records_of(await self.artifact_ids()) for each in some]
        return [
            sorted({r.artifact_id for r in records if get_field(r.metadata, field) == value})[:limit]
            for field, value in wanted
        ]


@breaks("matching_finds*", "matching_answers_as_a_memory_store_does")
class MatchesWithoutLimit(MemoryStore):
    async def matching(self, wanted, *, limit=None):
        return await super().matching(wanted)


@breaks("questions_asked_at_once*")
class MixesUpAnswers(MemoryStore):
    """Keeps the arguments of a call in itself while it waits."""

    async def ask(self, method, *arguments, **options):
        self.question = arguments
        await anyio.sleep(0.001)
        return await method(*self.question, **options)

    async def records_of(self, artifact_ids, **options):
        return await self.ask(super().records_of, artifact_ids, **options)

    async def search_vectors(self, queries, k, **options):
        return await self.ask(super().search_vectors, queries, k, **options)

    async def search_text(self, queries, k, **options):
        return await self.ask(super().search_text, queries, k, **options)

    async def neighbors(self, ids, **options):
        return await self.ask(super().neighbors, ids, **options)


@breaks("a_cancelled_question*")
class BreaksWhenCancelled(MixesUpAnswers):
    busy = False

    async def ask(self, method, *arguments, **options):
        if self.busy:
            raise StoreError("another statement is running")
        self.busy = True
        await anyio.sleep(0.0002)
        answer = await method(*arguments, **options)
        self.busy = False
        return answer


@breaks("a_new_store_has_no_settings*", "settings_and_calibrations*")
class MergesSettings(MemoryStore):
    async def set_config(self, config):
        await super().set_config({**await self.config(), **config})

    async def calibration(self, key=None):
        return await super().calibration(key) or {"floor": 0.0}


@breaks("a_setting_that_is_not_json*")
class KeepsNan(MemoryStore):
    async def set_config(self, config):
        await super().set_config(
            json.loads(json.dumps(config, default=str).replace("NaN", "null").replace("Infinity", "null"))
        )


@breaks("a_second_builder*", "builders_take_turns", "one_builder_holds*")
class LetsBuildersIn(MemoryStore):
    @asynccontextmanager
    async def writing(self, *, timeout=30.0):  # noqa: ASYNC109 - the protocol's
        yield


@breaks("a_second_builder*")
class SaysOnlyTimeout(MemoryStore):
    @asynccontextmanager
    async def writing(self, *, timeout=30.0):  # noqa: ASYNC109 - the protocol's
        with anyio.fail_after(timeout):
            await self._builder.acquire()
        try:
            yield
        finally:
            self._builder.release()


@breaks("a_builder_that_fails*")
class KeepsTheLockOfAFailedBuilder(MemoryStore):
    @asynccontextmanager
    async def writing(self, *, timeout=30.0):  # noqa: ASYNC109 - the protocol's
        lock = super().writing(timeout=timeout)
        await lock.__aenter__()
        LOCKS.append(lock)  # otherwise it would be garbage and released
        yield
        LOCKS.remove(lock)
        await lock.__aexit__(None, None, None)


@breaks("a_closed_store*")
class NeverCloses(MemoryStore):
    async def aclose(self):
        """Do nothing."""


@breaks("what_was_put_is_there*", "each_write_is_seen*", "settings_are*", "one_builder*", "of_stores_that*")
class ForgetsAndIsAlone(MemoryStore):
    """A store in memory that claims to persist and to share its content."""


@breaks("rows_of_a_run_are_read_by_part*")
class RowsInOrderOfText(MemoryStore):
    async def read_run(self, run, parts=None):
        found = await super().read_run(run, parts)
        return found and (found[0], dict(sorted(found[1].items(), key=lambda each: str(each[0]))))


@breaks("a_part_of_a_run_and_its_artifacts*")
class RowFirst(MemoryStore):
    async def apply_part(self, run, part, row, puts):
        row = await super().apply_part(run, part, row, [])
        await self.apply(puts)
        return row


@breaks("a_part_that_is_there_is_not_written*")
class PartTwice(MemoryStore):
    async def apply_part(self, run, part, row, puts):
        await self.apply(puts)
        return await super().apply_part(run, part, row, [])


@breaks("a_run_that_was_replaced_or_forgotten*")
class AnyRun(MemoryStore):
    async def apply_part(self, run, part, row, puts):
        return await super().apply_part(run, part, row, puts) or await self.apply(puts)


@breaks("a_part_is_refused_while_the_settings*")
class AnySettings(MemoryStore):
    async def apply_part(self, run, part, row, puts):
        return await super().apply_part(replace(run, settings={}), part, row, puts)


@breaks("a_run_begins_and_ends_with_removals*")
class RemovesFirst(MemoryStore):
    async def begin_run(self, run, row, *, removals=()):
        await self.apply([], removals=removals)
        await super().begin_run(run, row)


@breaks("a_step_equals_the_calls_that_it_replaces", "a_step_of_a_hub_is_bounded")
class ComparesEveryEnd(StepStore):
    async def read_step(self, ids, query, *, max_ends=0, **options):
        return await super().read_step(ids, query, max_ends=100 * max_ends, **options)


@breaks("a_step_without_records_is_empty")
class LeavesOutArtifactsWithoutRecords(StepStore):
    async def read_step(self, ids, query, **options):
        found = await super().read_step(ids, query, **options)
        rows = [row for row, id in enumerate(found.best.record_ids) if id is not None]
        best = BestRecords([found.best.record_ids[row] for row in rows], found.best.scores[rows])
        return found._replace(artifact_ids=[found.artifact_ids[row] for row in rows], best=best)


@breaks("options_that_do_not_exist_are_refused_in_a_step")
class ReadsAnyStep(StepStore):
    async def read_step(self, ids, query, *, max_records=0, **options):
        return await super().read_step(ids, query, max_records=max(max_records, 0), **options)


@pytest.mark.slow  # hundreds of faults
@pytest.mark.asyncio_only  # the faults are the same on every event loop
@pytest.mark.parametrize(("mutant", "case"), mark_repeats(mutants_and_cases()))
async def test_a_broken_store_fails_the_case_of_its_fault_in_one_line(mutant, case):
    with pytest.raises(AssertionError) as caught:
        await suite_of(mutant).check(case)
    message = str(caught.value)
    assert message.startswith(f"{case}: ")
    assert "expected " in message
    assert ", got " in message
    assert "\n" not in message
    assert len(message) < 700


def test_every_case_is_failed_by_some_broken_store():
    caught = {param.values[1].name for param in mutants_and_cases()}
    assert [case.name for case in CASES if case.name not in caught] == []


class Only:
    """An object with only some methods of a store."""

    def __init__(self, store, methods):
        for method in methods:
            setattr(self, method, getattr(store, method))


def suite_of_only(capabilities, *, read_only=False):
    """Return the suite of a store in memory that has only these capabilities.

    A store that is not read-only also has `apply`.
    """
    methods = {method for each in capabilities for method in CAPABILITIES.get(each, [each])}

    @asynccontextmanager
    async def make(folder, changes=()):
        async with StepStore() as store:
            await store.apply(changes)
            yield Only(store, methods if read_only else methods | {"apply"})

    return StoreSuite(make, capabilities=capabilities, read_only=read_only)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.needs & {"persistent", "shared"}], ids=lambda case: case.name
)
async def test_a_case_uses_only_the_methods_it_needs_and_writes_only_if_it_needs_apply(case):
    await suite_of_only(case.needs - {"apply"}, read_only="apply" not in case.needs).check(case)


@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    ("capabilities", "read_only"),
    [
        pytest.param([], False, id="nothing"),
        pytest.param(["best_of"], True, id="best_of-read"),
        pytest.param(["graph"], True, id="graph-read"),
        *(
            pytest.param([*name.split("-")], read_only, id=name + "-read" * read_only, marks=pytest.mark.slow)
            for name, read_only in (
                *(("graph", False), ("walk", False), ("search", True), ("links", True)),
                ("records-vectors", False),
            )
        ),
    ],
)
async def test_a_store_takes_only_the_cases_of_its_capabilities(capabilities, read_only):
    suite = suite_of_only(capabilities, read_only=read_only)
    offered = {"apply"} - {"apply" if read_only else ""}
    offered |= {method for each in capabilities for method in CAPABILITIES.get(each, [each])}
    report = await suite.run()
    assert report.passed, str(report)
    statuses = {each.name: each.status for each in report.outcomes}
    assert {name for name, status in statuses.items() if status == "passed"} == {case.name for case in suite.cases}
    assert statuses.keys() == {case.name for case in StoreSuite.all_cases}
    assert all(case.needs <= offered for case in suite.cases)
    for method in offered - {"apply"}:
        assert statuses[f"{method}_answers_as_a_memory_store_does"] == "passed"


@pytest.mark.parametrize(
    ("capability", "protocol"),
    {
        "graph": protocols.GraphStore,
        "walk": protocols.WalkStore,
        "search": protocols.SearchStore,
        "vectors": protocols.VectorSearch,
        "text": protocols.TextSearch,
        "links": protocols.LinkReader,
        "runs": protocols.RunKeeper,
        "schema": protocols.SchemaReader,
    }.items(),
)
def test_a_capability_has_the_methods_of_its_protocol(capability, protocol):
    assert {*CAPABILITIES[capability]} == {name for name in dir(protocol) if not name.startswith("_")}


def test_the_default_capabilities_are_the_methods_of_the_store_protocol():
    methods = {method for each in STORE for method in CAPABILITIES[each]} | {"apply"}
    assert methods == {name for name in dir(protocols.Store) if not name.startswith("_")}


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_a_run_reports_the_outcome_of_every_case_even_if_many_fail():
    suite = StoreSuite(lambda folder: OrdersKindsItsOwnWay(), capabilities=["records_of"])
    report = await suite.run()
    assert not report.passed
    assert [each.name for each in report.failed] == [
        "records_of_answers_as_a_memory_store_does",
        "thousands_are_asked_about_in_one_call_of_records_of",
        "any_history_ends_as_one_write_of_what_is_left_as_records_tell",
    ]
    assert len(report.outcomes) == len(StoreSuite.all_cases)
    assert "3 failed" in str(report)
    assert all("expected" in each.why and each.why in str(report) for each in report.failed)


async def test_an_unexpected_error_is_a_failure_that_keeps_its_cause():
    suite = StoreSuite(lambda folder: nullcontext(Only(MemoryStore(), [])), capabilities=["records"])
    with pytest.raises(AssertionError, match=f"^{suite.cases[0]}: expected no error, got ") as caught:
        await suite.check(suite.cases[0])
    assert isinstance(caught.value.__cause__, AttributeError)


async def test_a_store_that_never_answers_fails(monkeypatch):
    monkeypatch.setattr(StoreSuite, "patience", 0.05)

    class Waits(MemoryStore):
        async def records_of(self, artifact_ids, **options):
            await anyio.sleep_forever()

    suite = suite_of(Waits)
    with pytest.raises(AssertionError, match=r"expected an answer, got none in 0.05 s"):
        await suite.check(suite.cases[0])


@pytest.mark.parametrize("wrong", ["records", ["records", "vector"], {"": 1}])
def test_a_capability_that_does_not_exist_is_refused(wrong):
    with pytest.raises(ArgumentError, match="capabilities must be a list of records, settings"):
        StoreSuite(lambda folder: MemoryStore(), capabilities=wrong)


def test_a_case_prints_as_its_name_and_names_are_unique():
    names = [str(case) for case in CASES]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
    assert CASES[0].promise == "`records_of` returns the same as that of a `MemoryStore` with the same content."
    assert CASES[-1].promise[0].isupper()
    assert CASES[-1].promise.endswith(".")


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (1, True),
        ([1], (1,)),
        ([1, 2], [1]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": [0]}, {"a": [False]}),
        (np.zeros(2, np.float32), np.zeros(2)),
        (np.zeros((1, 2)), np.zeros(2)),
        (np.array([0.0, 1e-5]), np.zeros(2)),
        (np.array([0.0]), np.array([np.nan])),
        ([0.0], np.zeros(1)),
        (Record("i", "a", "k", 0, "t", {"n": 1}), Record("i", "a", "k", 0, "t", {"n": True})),
        (Record("i", "a", "k", 0, "t"), None),
    ],
)
def test_values_that_differ_are_distinguished(got, expected):
    with pytest.raises(AssertionError, match=r"^what.*: expected .*, got "):
        expect_equal(got, expected, "what")


def test_values_that_agree_are_equal():
    expect_equal([1.0, {"a": np.array([np.nan, 1.0])}], [1, {"a": np.array([np.nan, 1.0 + 1e-7])}], "what")


@pytest.mark.slow
def test_the_exam_needs_no_test_framework_and_no_assertions():
    code = """
import sys, anyio, airw
assert False, "this runs under -O"
loaded = "airw.testing" in sys.modules
from airw.testing import StoreSuite
class Deaf(airw.stores.MemoryStore):
    async def apply(self, puts, *, removals=()):
        pass
suite = StoreSuite(lambda folder: Deaf(), capabilities=["text"])
report = anyio.run(suite.run)
print(loaded, {"pytest", "hypothesis", "trio"} & {*sys.modules}, len(report.failed) > 5)
"""
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False set() True\n", "")
