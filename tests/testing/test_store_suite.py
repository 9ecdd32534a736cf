"""Every case of the exam of stores fails for a store with the fault that it checks."""

import json
import re
import subprocess
import sys
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from fnmatch import fnmatch

import anyio
import numpy as np
import pytest

from airw import protocols
from airw.errors import ArgumentError, EmbedderError, StoreBusy, StoreError
from airw.protocols import (
    ArtifactIds,
    ArtifactVectors,
    Change,
    Columns,
    Config,
    Edges,
    Fed,
    Records,
    RecordsOf,
    Referrers,
    Schema,
    UnresolvedLinks,
    Vectors,
    check_able,
    fill,
)
from airw.stores import MemoryStore, OwnStore, Wrapper
from airw.testing import CAPABILITIES, StoreSuite
from airw.testing.exam import expect_equal
from airw.values import Edge, Extraction, Link, LinkFilter, Ranking, Record
from airw.values.filters import MISSING, And, Compare, Not, Or, get_field, matches
from tests.support.repeats import mark_repeats
from tests.support.store_cases.suite import CloseSuite

CASES = (*StoreSuite.all_cases, *CloseSuite.all_cases)
MUTANTS = []
LOCKS = []


def breaks(*patterns):
    """Register a store that fails the cases with these names; `*` matches anything."""

    def add(mutant):
        MUTANTS.append((mutant, patterns))
        return mutant

    return add


def suite_of(mutant):
    return StoreSuite(lambda folder: mutant(), capabilities=CAPABILITIES)


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


class Broken(Wrapper):
    """A store in memory that answers wrongly where it has a method, as an `OwnStore` has."""

    def __init__(self):
        super().__init__(MemoryStore())

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()

    async def read(self, *requests):
        answers = {}
        for request in requests:
            answers[id(request)] = await self.answer(fill(request, answers))
        return [answers[id(request)] for request in requests]

    async def answer(self, request):
        kind = re.sub("(?<=[a-z])(?=[A-Z])", "_", type(request).__name__).lower()
        return await getattr(self, kind, self.ask)(request)

    async def ask(self, request):
        """Return the right answer."""
        [answer] = await self.store.read(request)
        return answer


class Twisted(Broken):
    """A store whose searches are answered by `twist(request)`."""

    async def rank(self, request):
        return await (self.ask(request) if request.needs == "scores" else self.twist(request))


@breaks("schema_answers_*")
class TellsTheSchemaBackwards(Broken):
    async def schema(self, request):
        return Columns(*(each[::-1] for each in await self.ask(request)))


@breaks("any_history*")
class RemembersTheFirstSchema(Broken):
    kinds = ()

    async def schema(self, request):
        columns = await self.ask(request)
        self.kinds = self.kinds or columns.kinds
        return columns._replace(kinds=self.kinds)


@breaks("schema_answers_*")
class KnowsNoDottedFields(Broken):
    async def schema(self, request):
        names = (await self.ask(Schema())).fields
        return (await self.ask(request))._replace(has_fields=[path in names for path in request.paths])


@breaks("filters_*", "dense_answers*", "lexical_answers*")
class DropsFilters(Twisted):
    async def twist(self, request):
        return await self.ask(replace(request, filter=None))


@breaks("filters_act_before_the_cut*", "dense_answers*", "lexical_answers*")
class FiltersAfterTheCut(Twisted):
    async def twist(self, request):
        kept = {row[2] for each in await self.ask(replace(request, k=None)) for row in rows_of(each)}
        found = await self.ask(replace(request, filter=None))
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

    async def twist(self, request):
        found = await self.ask(replace(request, k=None, filter=None, per_artifact=False))
        records = {each.id: each for each in await self.ask(Records(found[0].record_ids))}

        def is_kept(row):
            return keeps(self.compare, request.filter, records[row[2]].metadata)

        return [make_ranking([*filter(is_kept, rows_of(each))][: request.k]) for each in found]


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


@breaks("*cosine_then_artifact*", "equal_scores_go*", "any_history*", "dense_answers*", "lexical_answers*")
class TiesTheOtherWayRound(Twisted):
    async def twist(self, request):
        found = [
            sorted(rows_of(each), key=lambda row: row[1:], reverse=True)
            for each in await self.ask(replace(request, k=None))
        ]
        return [make_ranking(sorted(rows, key=lambda row: -row[0])[: request.k]) for rows in found]


@breaks("equal_scores_go*")
class TiesByRecordId(Twisted):
    async def twist(self, request):
        found = await self.ask(replace(request, k=None))
        return [make_ranking(sorted(rows_of(each), key=lambda row: (-row[0], row[2]))[: request.k]) for each in found]


@breaks(
    "several_*",
    "equal_*",
    "*best_first",
    "a_search_equals*",
    "filters_act_before*",
    "*artifacts_with_many*",
    "dense_answers*",
    "lexical_answers*",
)
class IgnoresK(Twisted):
    async def twist(self, request):
        return await self.ask(replace(request, k=None))


@breaks("*crowd_out*", "equal_*", "dense_answers*", "lexical_answers*")
class CollapsesAfterTheCut(Twisted):
    async def twist(self, request):
        found = await self.ask(replace(request, per_artifact=False))
        if not request.per_artifact:
            return found
        return [
            make_ranking([row for at, row in enumerate(rows) if row[1] not in {r[1] for r in rows[:at]}])
            for rows in map(rows_of, found)
        ]


@breaks("texts_are_indexed_again_for_another_language")
class ForgetsToIndexTextsAgain(Broken):
    wish = "en"

    async def text_language(self, request):
        return self.wish

    async def apply(self, change):
        self.wish = self.wish if change.language == "same" else change.language
        await super().apply(replace(change, language="same"))


@breaks("searches_with_pooled_counts*", "counts_that_do_not_fit*")
class IgnoresStatistics(Twisted):
    async def twist(self, request):
        return await self.ask(replace(request, statistics=None))


@breaks("searches_with_pooled_counts*", "words_answers*")
class CountsNoRecords(Broken):
    async def words(self, request):
        counts = await self.ask(request)
        return replace(counts, records=max(counts.frequencies.values(), default=0))


@breaks("only_the_wanted_surfaces*", "dense_answers*", "lexical_answers*")
class IgnoresSurfaces(Twisted):
    async def twist(self, request):
        return await self.ask(replace(request, surfaces=request.surfaces or None))


@breaks("several_*", "dense_answers*", "lexical_answers*")
class AnswersQueriesBackwards(Twisted):
    async def twist(self, request):
        return (await self.ask(request))[::-1]


class OtherScores(Twisted):
    """A store whose searches have other scores: `score(scores, request)`."""

    async def twist(self, request):
        return [replace(each, scores=self.score(each.scores, request)) for each in await self.ask(request)]


@breaks("a_search_equals*", "records_without_any_likeness*", "dense_answers*")
class ScalesCosine(OtherScores):
    def score(self, scores, request):
        return (1 + scores) / 2


@breaks("a_new_store_ranks_nothing*", "a_new_store_finds*", "dense_answers*", "lexical_answers*")
class ScoresInSinglePrecision(OtherScores):
    def score(self, scores, request):
        return scores.astype(np.float32)


@breaks("records_without_any_likeness*", "any_history*", "dense_answers*")
class DropsTheUnlike(Twisted):
    async def twist(self, request):
        return [make_ranking([row for row in rows_of(each) if row[0] > 0]) for each in await self.ask(request)]


@breaks("scores_are_those*", "scores_are_positive*", "statistics*", "bm25*", "lexical_answers*")
class TellsBm25AsSqliteDoes(OtherScores):
    def score(self, scores, request):
        return scores if request.needs == "dense" else scores * (-1.0 if request.filter is None else -1.1)


@breaks("scores_are_those*", "statistics*", "lexical_answers*")
class AlmostBm25(OtherScores):
    def score(self, scores, request):
        return scores if request.needs == "dense" else scores * 1.00001


@breaks("words_are_cut*", "long_texts*", "lexical_answers*")
class ReadsWordsAtSpaces(Twisted):
    async def twist(self, request):
        if request.needs == "lexical":
            request = replace(request, queries=[query.replace(":", "")[:5_000] for query in request.queries])
        return await self.ask(request)


@breaks("phrases_answer*")
class LeavesNothingOut(Twisted):
    """Forgets what a document must not contain."""

    async def twist(self, request):
        contains = request.contains
        if contains is not None:
            request = replace(request, contains=replace(contains, none=()) if contains.every else None)
        return await self.ask(request)


@breaks("*cancelled_write*", "*all_of_a_write*", "nothing_of_a_refused_write*", "a_link_or*", "a_setting_that*")
class WritesOneAfterAnother(Broken):
    async def apply(self, change):
        kept = {each.entry.artifact_id for each in change.puts}
        await super().apply(Change(removals=[*{*change.removals} - kept]))
        for put in change.puts:
            await super().apply(Change([replace(put, extraction=Extraction())]))
            await super().apply(Change([put]))
            await anyio.sleep(0.0001)
        await super().apply(replace(change, puts=(), removals=()))


@breaks("*all_of_a_write*")
class AnswersOneAfterAnother(Broken):
    async def answer(self, request):
        await anyio.sleep(0.0001)
        return await super().answer(request)


@breaks(
    "nothing_of_a_refused_write*",
    "any_history*",
    "*a_replaced*",
    "*removed_artifact*",
    "*follow_every_write*",
    "counts_count*",
)
class NeverForgets(Broken):
    """Keeps the records, links and fields of replaced and removed artifacts."""

    async def apply(self, change):
        await super().apply(replace(change, puts=[await self.merge(each) for each in change.puts], removals=()))

    async def merge(self, put):
        [old], [edges] = await self.read(RecordsOf([put.entry.artifact_id]), Edges([put.entry.artifact_id]))
        new = {record.id: (record, row) for record, row in zip(put.records, put.vectors, strict=True)}
        for record in old or []:
            shifted = replace(record, id=f"{record.id}+", surface_index=record.surface_index + 100)
            new.setdefault(shifted.id, (shifted, (await self.ask(Vectors([record.id])))[0]))
        links = [Link(edge.target, edge.type) for edge in edges if isinstance(edge.target, str)]
        return replace(
            put,
            records=[record for record, _ in new.values()],
            vectors=np.array([row for _, row in new.values()], np.float32) if new else put.vectors,
            extraction=replace(put.extraction, links=[*put.extraction.links, *links]),
        )


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
class WritesOnlyOnce(Broken):
    """A later write changes nothing."""

    async def apply(self, change):
        if not await self.ask(ArtifactIds()):
            await super().apply(change)


@breaks("a_removed_artifact*", "*put_and_removed*", "ids_are_asked*", "any_text_can_be_an_id", "writing_nothing*")
class RemovesLast(Broken):
    async def apply(self, change):
        known = await self.ask(ArtifactIds())
        if not change.puts and (not change.removals or set(change.removals) - set(known)):
            raise KeyError("nothing to remove")
        await super().apply(replace(change, removals=()))
        await super().apply(Change(removals=change.removals if change.puts else []))


class OtherPuts(Broken):
    """A store that writes other artifacts: `mend(put)`."""

    async def apply(self, change):
        await super().apply(replace(change, puts=[*map(self.mend, change.puts)]))


def mend_text(value):
    return json.loads(json.dumps(value).replace("\\ud800", "?").replace("\\u0000", "?"))


@breaks("the_width_may*", "a_record_of_one*", "a_link_or_name*", "nothing_of_a_refused*")
class TakesAnything(OtherPuts):
    """Repairs values that it should refuse, and takes the last of two duplicates."""

    def mend(self, put):
        name = mend_text(put.entry.artifact_id)
        records = [
            replace(
                record,
                artifact_id=name,
                text=mend_text(record.text),
                metadata=mend_text({**record.metadata}) if len(record.metadata) == 1 else record.metadata,
            )
            for record in put.records
        ]
        links = [replace(each, target_ref=mend_text(each.target_ref)) for each in put.extraction.links]
        names = [mend_text([*tier]) for tier in put.extraction.names]
        vectors = np.nan_to_num(put.vectors[: len(records)], posinf=0)
        if vectors.shape[1] == 3:
            vectors = np.pad(vectors, ((0, 0), (0, 1)))
        entry = replace(put.entry, artifact_id=name)
        return replace(put, entry=entry, records=records, vectors=vectors, extraction=Extraction(links, names))

    async def apply(self, change):
        mended = {mend_text(each.entry.artifact_id): each for each in change.puts}
        await super().apply(replace(change, puts=[*mended.values()]))


@breaks("records_come_back*", "ids_are_asked*", "records_answers*")
class LeavesOutWhatIsNotThere(Broken):
    async def records(self, request):
        return [each for each in await self.ask(request) if each is not None]


@breaks("records_of_artifacts*", "records_answers*")
class OrdersKindsItsOwnWay(Broken):
    async def records_of(self, request):
        return [each and sorted(each, key=lambda record: record.surface_kind) for each in await self.ask(request)]


@breaks("the_ledger_tells*", "a_new_store_holds*", "ledger_answers*")
class LedgerInOrderOfWriting(Broken):
    async def ledger(self, request):
        found = await self.ask(request)
        return [each for each in found if each] if request.ids else found[::-1]


@breaks("any_text_can_be_an_id", "the_ledger_tells*", "ledger_answers*")
class SortsIdsAsPeopleDo(Broken):
    async def artifact_ids(self, request):
        return sorted(await self.ask(request), key=str.casefold)


@breaks("ledger_answers*", "any_history*")
class ForgetsWhatIsNew(Broken):
    async def stale(self, request):
        known = await self.ask(ArtifactIds())
        return [each for each in await self.ask(request) if each in known]


@breaks("ledger_answers*")
class ComparesVersionsOnly(Broken):
    async def stale(self, request):
        return await self.ask(replace(request, stamp=replace(request.stamp, embedder_id="embedder")))


@breaks("counts_count_artifacts*", "counts_count_links*", "counts_answers*")
class CountsTwice(Broken):
    async def counts(self, request):
        return {key: 2 * value for key, value in (await self.ask(request)).items()}


@breaks("*_by_the_ten_thousand*", "thousands_*")
class TakesFewParameters(Broken):
    """A store whose database binds each id separately."""

    async def answer(self, request):
        asked = [getattr(request, name, None) for name in ("ids", "artifact_ids", "refs", "nodes", "records")]
        if any(len(ids or ()) > 32_766 for ids in asked):
            raise StoreError("too many SQL variables")
        return await super().answer(request)


@breaks("nothing_given_or_received*", "no_record_given*", "no_vector_given*")
class HandsOutHandles(Broken):
    def __init__(self):
        super().__init__()
        self.handles, self.settings = {}, {}

    async def records(self, request):
        return [each and self.handles.setdefault(each.id, each) for each in await self.ask(request)]

    async def records_of(self, request):
        return self.handles.setdefault(("records_of", *request.artifact_ids), await self.ask(request))

    async def vectors(self, request):
        return self.handles.setdefault(("vectors", *request.ids), await self.ask(request))

    async def apply(self, change):
        await super().apply(change)
        self.settings = change.config or self.settings

    async def config(self, request):
        return self.settings


@breaks("metadata_comes_back*", "filters_of_equality*", "matching_finds*")
class KeepsMetadataAsText(OtherPuts):
    def mend(self, put):
        def as_text(record):
            return replace(record, metadata={key: str(value) for key, value in record.metadata.items()})

        return replace(put, records=[*map(as_text, put.records)])


@breaks("empty_texts_odd*", "records_answers*")
class StripsTexts(OtherPuts):
    def mend(self, put):
        return replace(put, records=[replace(each, text=each.text.strip()) for each in put.records])


@breaks("vectors_come_back*", "similarities_are*", "the_best_record*", "vectors_answers*", "scores_answers*")
class ZeroWhereNothingIs(Broken):
    async def vectors(self, request):
        return np.nan_to_num(await self.ask(request))

    async def rank(self, request):
        found = await self.ask(request)
        asked = [*dict.fromkeys(request.records or request.among or ())]
        rows = [rows_of(each) for each in found]
        return [
            make_ranking([*own, *((0.0, id, id) for id in asked if not any(id in row for row in own))]) for own in rows
        ]


@breaks("the_best_record*", "scores_answers*")
class BestWhateverTheSurface(Broken):
    async def rank(self, request):
        return await self.ask(replace(request, surfaces=None))


@breaks("a_query_of_another_width*", "a_query_that_is_not_finite*")
class MendsQueries(Broken):
    async def rank(self, request):
        try:
            return await self.ask(replace(request, queries=np.nan_to_num(request.queries, posinf=0)))
        except EmbedderError:
            return [make_ranking([]) for _ in request.queries]


@breaks("an_edge_follows*", "an_id_outranks*", "an_ambiguous*", "edges_by_name*", "names_by_name*")
class IgnoresTiers(OtherPuts):
    def mend(self, put):
        names = [name for tier in put.extraction.names for name in tier]
        return replace(put, extraction=replace(put.extraction, names=[names]))


@breaks(
    "names_are_compared*",
    "any_text_can_be_linked*",
    "any_text_can_be_asked*",
    "edges_answers*",
    "edges_by_name*",
    "names_by_name*",
)
class FoldsNames(OtherPuts):
    def mend(self, put):
        links = [replace(each, target_ref=each.target_ref.strip().casefold()) for each in put.extraction.links]
        names = [[name.casefold() for name in tier] for tier in put.extraction.names]
        return replace(put, extraction=Extraction(links, names))


@breaks("if_no_name_is*", "names_by_name*")
class NeverFoldsCase(OtherPuts):
    def mend(self, put):
        return replace(put, extraction=replace(put.extraction, fold_case=False))


@breaks("a_dangling*", "names_are*", "a_new_store_has_no_edges*", "a_link_or_name*")
class TellsDanglingEdges(Broken):
    async def edges(self, request):
        pairs = zip(request.ids, await self.ask(request), strict=True)
        return [edges or [Edge(name, "nowhere", "related")] for name, edges in pairs]


@breaks("edges_come_by_direction*", "links_to_other*", "edges_are_asked*", "edges_answers*")
class LeavesOutArtifactsWithoutEdges(Broken):
    async def edges(self, request):
        return [edges for edges in await self.ask(replace(request, ids=[*dict.fromkeys(request.ids)])) if edges]


@breaks("edges_come_by_direction*", "a_limit_cuts*", "edges_answers*")
class OrdersByOtherEndFirst(Broken):
    async def edges(self, request):
        return [
            sorted(each, key=lambda edge: (str(edge.target), edge.type), reverse=True)
            for each in await self.ask(request)
        ]


@breaks("types_and_origins*", "edges_answers*")
class TakesAnEmptyListForAll(Broken):
    async def edges(self, request):
        return await self.ask(replace(request, links=replace(request.links, types=request.links.types or None)))


@breaks("types_and_origins*", "a_limit_cuts*", "edges_answers*")
class ExcludesNothing(Broken):
    async def edges(self, request):
        return await self.ask(replace(request, links=replace(request.links, exclude=())))


@breaks("a_limit_cuts*", "edges_answers*")
class IgnoresTheLimit(Broken):
    async def edges(self, request):
        return await self.ask(replace(request, limit=None))


@breaks("a_limit_cuts*", "edges_answers*")
class ChoosesAfterTheLimit(Broken):
    async def edges(self, request):
        found = await self.ask(replace(request, links=LinkFilter()))
        return [[edge for edge in edges if request.links.accepts(edge)] for edges in found]


@breaks("links_to_other*", "edges_answers*")
class KnowsNoOtherCorpora(Broken):
    async def edges(self, request):
        return [[edge for edge in edges if isinstance(edge.target, str)] for edges in await self.ask(request)]


class OtherLinks(OtherPuts):
    """A store that keeps other links: `keep(link)`."""

    def mend(self, put):
        return replace(put, extraction=replace(put.extraction, links=[*map(self.keep, put.extraction.links)]))


@breaks("a_second_name*", "a_link_of_two_names_follows*", "of_two_names*", "edges_by_name*")
class ForgetsTheSecondName(OtherLinks):
    def keep(self, link):
        return replace(link, or_ref=None)


@breaks("a_link_of_two_names*", "of_two_names*", "edges_by_name*")
class TakesTheSecondNameForTheFirst(OtherLinks):
    def keep(self, link):
        return replace(link, target_ref=link.or_ref or link.target_ref, or_ref=link.or_ref and link.target_ref)


@breaks("edges_answers*")
class ForgetsWeights(OtherLinks):
    def keep(self, link):
        return replace(link, weight=1)


@breaks("links_that_are_no_edge*", "links_by_name*")
class CutsBeforeTheChoice(Broken):
    async def unresolved_links(self, request):
        found = await self.ask(replace(request, artifact_ids=None))
        return [each for each in found if request.artifact_ids is None or each.source in request.artifact_ids]


@breaks("links_that_are_no_edge*", "links_by_name*")
class TellsUnresolvedLinksOnce(Broken):
    async def unresolved_links(self, request):
        return list(dict.fromkeys(await self.ask(replace(request, limit=None))))[: request.limit]


@breaks("links_that_are_no_edge*", "any_history*", "links_by_name*")
class KnowsNoCandidates(Broken):
    async def unresolved_links(self, request):
        return [replace(each, candidates=()) for each in await self.ask(request)]


@breaks("links_that_are_no_edge*", "links_answers*", "links_by_name*")
class TakesNoArtifactsForAll(Broken):
    async def unresolved_links(self, request):
        return await self.ask(UnresolvedLinks(request.artifact_ids or None, request.limit))


@breaks("links_are_counted*", "links_answers*", "links_by_name*")
class CountsOfOneState(Broken):
    async def link_counts(self, request):
        return [each for each in await self.ask(request) if each.state != "foreign"]


@breaks("links_are_counted*", "any_history*", "links_answers*")
class CountsInOrderOfNumber(Broken):
    async def link_counts(self, request):
        return sorted(await self.ask(request), key=lambda each: -each.count)


@breaks("in_a_new_store*", "a_reference_means*", "names_answers*", "names_by_name*")
class LeavesOutWhatMeansNothing(Broken):
    async def names(self, request):
        return [each for each in await self.ask(request) if each]


@breaks("a_reference_means*", "any_history*", "names_by_name*")
class MeansTheFirst(Broken):
    async def names(self, request):
        return [each[:1] for each in await self.ask(request)]


class OtherReferrers(Broken):
    """A store that returns other referrers: `refer(request)`.

    The largest number follows from them.
    """

    def __init__(self):
        super().__init__()
        self.links = {}

    async def apply(self, change):
        await super().apply(change)
        self.links = self.links | {each.entry.artifact_id: each.extraction.links for each in change.puts}

    async def referrers(self, request):
        return await self.refer(request)

    async def max_fan_in(self, request):
        links = [each for some in self.links.values() for each in some]
        pairs = [(each.target_source, each.target_ref) for each in links if each.target_source]
        ids = await self.ask(ArtifactIds())
        nodes = [*ids, *pairs, *(each.target_ref for each in links if not each.target_source)]
        return max(map(len, await self.refer(Referrers(nodes, request.types))), default=0)


@breaks(
    "referrers_of_an*",
    "a_reference_has*",
    "nodes_of_other*",
    "the_largest*",
    "*referrers_are_those*",
    "links_answers*",
    "links_by*",
)
class KnowsEdgesOnly(OtherReferrers):
    async def refer(self, request):
        ids = [node if isinstance(node, str) else "" for node in request.nodes]
        found = await self.ask(Edges(ids, "in", LinkFilter(types=request.types)))
        return [[edge.source for edge in each] for each in found]


@breaks("referrers_of_an*", "in_a_new_store*", "the_largest*", "links_answers*", "links_by_name*")
class RefersToItself(OtherReferrers):
    async def refer(self, request):
        pairs = zip(request.nodes, await self.ask(request), strict=True)
        return [sorted({*each, node}) if isinstance(node, str) else each for node, each in pairs]


@breaks("referrers_are_those*", "links_answers*", "links_by_name*")
class TakesNoTypesForAll(OtherReferrers):
    async def refer(self, request):
        return await self.ask(replace(request, types=request.types or None))


@breaks("an_id_of_the_corpus*", "a_reference_has*", "links_by_name*")
class ReadsIdsAsTexts(OtherReferrers):
    async def refer(self, request):
        return [
            sorted({name for name, links in self.links.items() for link in links if link.target_ref == node})
            for node in request.nodes
        ]


@breaks("nodes_of_other*", "the_largest*", "links_answers*", "links_by_name*")
class TakesOtherCorporaForThisOne(OtherReferrers):
    async def refer(self, request):
        nodes = [node if isinstance(node, str) else node[1] for node in request.nodes]
        return await self.ask(replace(request, nodes=nodes))


@breaks("the_vectors_of_artifacts*", "vectors_answers*")
class OrdersVectorsBySurface(Broken):
    async def vectors_of(self, request):
        groups = [
            [record.id for record in sorted(each or (), key=lambda record: record.surface_index)]
            for each in await self.ask(RecordsOf(request.artifact_ids))
        ]
        return ArtifactVectors(groups, await self.ask(Vectors([each for group in groups for each in group])))


@breaks("a_new_store_ranks_nothing*", "the_vectors_of_artifacts*", "vectors_answers*")
class AnswersEachArtifactOnce(Broken):
    async def vectors_of(self, request):
        found, vectors = await self.ask(replace(request, artifact_ids=list(dict.fromkeys(request.artifact_ids))))
        return ArtifactVectors([each for each in found if each], vectors)


class OtherMatches(Broken):
    """A store that looks at the records itself: `has(record, field, value)`."""

    async def matching(self, request):
        found = await self.ask(RecordsOf(await self.ask(ArtifactIds())))
        return [
            sorted({own[0].artifact_id for own in found if self.has(own, field, value)})[: request.limit]
            for field, value in request.wanted
        ]


@breaks("matching_asks_about_many*", "matching_answers*")
class MatchesInOneField(Broken):
    async def matching(self, request):
        wanted = [(request.wanted[0][0], value) for _, value in request.wanted]
        return await self.ask(replace(request, wanted=wanted))


@breaks("matching_counts*", "matching_answers*")
class MatchesFirstRecords(OtherMatches):
    def has(self, own, field, value):
        return bool(own) and own[0].metadata.get(field) == value


@breaks("matching_finds*", "matching_follows*", "matching_answers*")
class MatchesWholeValuesOnly(OtherMatches):
    def has(self, own, field, value):
        return any(get_field(record.metadata, field) == value for record in own)


@breaks("matching_finds*", "matching_answers*")
class MatchesWithoutLimit(Broken):
    async def matching(self, request):
        return await self.ask(replace(request, limit=None))


@breaks("questions_asked_at_once*")
class MixesUpAnswers(Broken):
    """Keeps what it is asked in itself while it waits."""

    async def answer(self, request):
        self.question = request
        await anyio.sleep(0.001)
        return await super().answer(self.question)


@breaks("a_cancelled_question*")
class BreaksWhenCancelled(Broken):
    busy = False

    async def answer(self, request):
        if self.busy:
            raise StoreError("another statement is running")
        self.busy = True
        await anyio.sleep(0.0002)
        answer = await super().answer(request)
        self.busy = False
        return answer


@breaks("settings_answers*", "any_history*")
class MergesSettings(Broken):
    async def apply(self, change):
        merged = change.config and {**await self.ask(Config()), **change.config}
        await super().apply(replace(change, config=merged))

    async def calibrations(self, request):
        return await self.ask(request) or {"k": {"floor": 0.0}}


@breaks("a_setting_that_is_not_json*")
class KeepsNan(Broken):
    async def apply(self, change):
        mended = json.dumps(change.config, default=str).replace("NaN", "null").replace("Infinity", "null")
        await super().apply(replace(change, config=json.loads(mended)))


@breaks("a_second_builder*", "builders_take_turns", "one_builder_holds*")
class LetsBuildersIn(Broken):
    @asynccontextmanager
    async def writing(self, *, timeout=30.0):  # noqa: ASYNC109 - the protocol's
        yield


@breaks("a_second_builder*")
class SaysOnlyTimeout(Broken):
    @asynccontextmanager
    async def writing(self, *, timeout=30.0):  # noqa: ASYNC109 - the protocol's
        lock = super().writing(timeout=timeout)
        try:
            await lock.__aenter__()
        except StoreBusy as error:
            raise TimeoutError from error
        try:
            yield
        finally:
            await lock.__aexit__(None, None, None)


@breaks("a_builder_that_fails*")
class KeepsTheLockOfAFailedBuilder(Broken):
    @asynccontextmanager
    async def writing(self, *, timeout=30.0):  # noqa: ASYNC109 - the protocol's
        lock = super().writing(timeout=timeout)
        await lock.__aenter__()
        LOCKS.append(lock)  # otherwise it would be garbage and released
        yield
        LOCKS.remove(lock)
        await lock.__aexit__(None, None, None)


@breaks("a_closed_store*")
class NeverCloses(Broken):
    async def aclose(self):
        """Do nothing."""


@breaks("what_was_put_is_there*", "each_write_is_seen*", "one_builder*", "of_stores_that*")
class ForgetsAndIsAlone(MemoryStore):
    """A store in memory that claims to persist and to share its content."""


@breaks("what_is_not_offered*")
class OffersLess(Broken):
    @property
    def capabilities(self):
        return {*super().capabilities} - {"edges"}


@breaks("a_*_as_a_chain*")
class ForgetsTheChain(Broken):
    async def read(self, *requests):
        return await super().read(*(each.request if isinstance(each, Fed) else each for each in requests))


@breaks("a_*_as_a_chain*")
class FeedsInAnyOrder(Broken):
    async def read(self, *requests):
        chain = requests if not isinstance(requests[0], Fed) else requests[::-1]
        return await super().read(*chain)


@breaks("a_step_as_a_chain*", "a_search_as_a_chain*")
class IgnoresLimitsInChains(Broken):
    async def read(self, *requests):
        answers = {}
        for request in requests:
            wide = replace(request, by=replace(request.by, limit=None)) if isinstance(request, Fed) else request
            answers[id(request)] = await self.ask(fill(wide, answers))
        return [answers[id(request)] for request in requests]


@breaks("rows_of_a_run_are_read_by_part*")
class RowsInOrderOfText(MemoryStore):
    async def read_run(self, run, parts=None):
        found = await super().read_run(run, parts)
        return found and (found[0], dict(sorted(found[1].items(), key=lambda each: str(each[0]))))


@breaks("a_part_of_a_run_and_its_artifacts*")
class RowFirst(MemoryStore):
    async def apply_part(self, run, part, row, puts):
        row = await super().apply_part(run, part, row, [])
        await self.apply(Change(puts))
        return row


@breaks("a_part_that_is_there_is_not_written*")
class PartTwice(MemoryStore):
    async def apply_part(self, run, part, row, puts):
        await self.apply(Change(puts))
        return await super().apply_part(run, part, row, [])


@breaks("a_run_that_was_replaced_or_forgotten*")
class AnyRun(MemoryStore):
    async def apply_part(self, run, part, row, puts):
        return await super().apply_part(run, part, row, puts) or await self.apply(Change(puts))


@breaks("a_part_is_refused_while_the_settings*")
class AnySettings(MemoryStore):
    async def apply_part(self, run, part, row, puts):
        return await super().apply_part(replace(run, settings={}), part, row, puts)


@breaks("a_run_begins_and_ends_with_removals*")
class RemovesFirst(MemoryStore):
    async def begin_run(self, run, row, *, removals=()):
        await self.apply(Change(removals=removals))
        await super().begin_run(run, row)


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


class Only(Wrapper):
    """A store in memory that has some capabilities only."""

    def __init__(self, store, capabilities):
        super().__init__(store)
        self.offered = {*capabilities} & protocols.CAPABILITIES
        if "runs" in capabilities:
            for method in ("begin_run", "read_run", "apply_part", "forget_run"):
                setattr(self, method, getattr(store, method))

    @property
    def capabilities(self):
        return self.offered

    async def read(self, *requests):
        check_able(self, *requests)
        return await super().read(*requests)

    async def apply(self, change):
        if "writing" not in self.offered:
            raise ArgumentError("read-only")
        await super().apply(change)


def suite_of_only(capabilities, kind=Only):
    """Return the suite of a store in memory that has only these capabilities."""

    @asynccontextmanager
    async def make(folder, changes=()):
        async with MemoryStore() as store:
            await store.apply(Change(changes))
            yield kind(store, capabilities)

    return StoreSuite(make, capabilities=capabilities)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name) for case in CASES if not case.needs & {"persistent", "shared"}],
)
async def test_a_case_asks_only_for_what_it_needs_and_writes_only_if_it_needs_writing(case):
    await suite_of_only(case.needs).check(case)


@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    "capabilities",
    [
        pytest.param("", id="nothing"),
        pytest.param("scores", id="scores"),
        pytest.param("edges records", id="a graph"),
        pytest.param("edges records writing", marks=pytest.mark.slow),
        pytest.param("edges dense records scores writing", marks=pytest.mark.slow),
        pytest.param("dense lexical records", marks=pytest.mark.slow),
        pytest.param("edges names links matching", marks=pytest.mark.slow),
        pytest.param("records vectors writing", marks=pytest.mark.slow),
    ],
)
async def test_a_store_takes_only_the_cases_of_its_capabilities(capabilities):
    offered = {*capabilities.split()}
    suite = suite_of_only(offered)
    report = await suite.run()
    assert report.passed, str(report)
    statuses = {each.name: each.status for each in report.outcomes}
    assert {name for name, status in statuses.items() if status != "left out"} == {case.name for case in suite.cases}
    assert statuses.keys() == {case.name for case in StoreSuite.all_cases}
    assert all(case.needs <= offered for case in suite.cases)
    for capability in offered - {"writing"}:
        assert statuses[f"{capability}_answers_as_a_memory_store_does"] == "passed"


def test_each_capability_has_a_case_that_compares_its_answers():
    names = {case.name for case in StoreSuite.all_cases}
    assert {f"{each}_answers_as_a_memory_store_does" for each in protocols.CAPABILITIES - {"writing"}} <= names


@pytest.mark.asyncio_only
async def test_what_is_answered_but_not_offered_is_a_failure():
    class AnswersMore(Only):
        async def read(self, *requests):
            return await self.store.read(*requests)

    class WritesToo(Only):
        async def apply(self, change):
            await self.store.apply(change)

    for kind in (AnswersMore, WritesToo):
        suite = suite_of_only(["records"], kind)
        [case] = [case for case in suite.cases if case.name.startswith("what_is_not_offered")]
        with pytest.raises(AssertionError, match="expected ArgumentError, got no error"):
            await suite.check(case)


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_a_run_reports_the_outcome_of_every_case_even_if_many_fail():
    class Forgetful(Only):
        async def read(self, *requests):
            return [answer and [*answer][:1] for answer in await super().read(*requests)]

    report = await suite_of_only(["records"], Forgetful).run()
    assert not report.passed
    assert [each.name for each in report.failed] == [
        "records_answers_as_a_memory_store_does",
        "thousands_of_records_are_asked_about_at_once",
        "thousands_of_records_of_artifacts_are_asked_about_at_once",
    ]
    assert len(report.outcomes) == len(StoreSuite.all_cases)
    assert "3 failed" in str(report)
    assert all("expected" in each.why and each.why in str(report) for each in report.failed)


async def test_an_unexpected_error_is_a_failure_that_keeps_its_cause():
    class Unfinished(OwnStore):
        capabilities = ("records",)

    suite = StoreSuite(lambda folder, _: nullcontext(Unfinished()), capabilities=["records"])
    with pytest.raises(AssertionError, match=f"^{suite.cases[0]}: expected no error, got ") as caught:
        await suite.check(suite.cases[0])
    assert isinstance(caught.value.__cause__, NotImplementedError)


async def test_a_store_that_never_answers_fails(monkeypatch):
    monkeypatch.setattr(StoreSuite, "patience", 0.05)

    class Waits(Broken):
        async def answer(self, request):
            await anyio.sleep_forever()

    suite = suite_of(Waits)
    with pytest.raises(AssertionError, match=r"expected an answer, got none in 0.05 s"):
        await suite.check(suite.cases[0])


@pytest.mark.parametrize("wrong", ["records", ["records", "vector"], {"": 1}])
def test_a_capability_that_does_not_exist_is_refused(wrong):
    with pytest.raises(ArgumentError, match="capabilities must be a list of closing, counts"):
        StoreSuite(lambda folder: MemoryStore(), capabilities=wrong)


def test_a_case_prints_as_its_name_and_names_are_unique():
    names = [str(case) for case in CASES]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
    assert CASES[0].promise == "Requests for counts are answered as by a `MemoryStore` with the same content."
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
    async def apply(self, change):
        pass
suite = StoreSuite(lambda folder: Deaf())
suite.all_cases = [case for case in suite.all_cases if "lexical" in case.name or "write" in case.name]
report = anyio.run(suite.run)
print(loaded, {"pytest", "hypothesis", "trio"} & {*sys.modules}, len(report.failed) > 3)
"""
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False set() True\n", "")
