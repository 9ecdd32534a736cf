"""Diagnosis of a graph: its measures, and whether its links can help to find artifacts.

First the graph is measured, then the measures are compared with thresholds. What would take too long for a large graph
is sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.concurrency import in_thread
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import EmbedderMismatch, NoLedgerEntry
from airw.links._structure import EdgeTable, Ints, SlicedWork, label_components, read_edges, run_in_slices
from airw.protocols import Store
from airw.values import LinkCount, LinkFilter, NodeId

_MENTIONS, _SHARES = "mentions", "shares"  # the types of links that `TitleMentions` and `SharedNames` find
_QUANTILES = {"min": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "max": 1.0}
_HUB_COUNT = 5
_MIN_PAIRS = 30  # below this, the error of a mean cosine is more than a fifth of the standard deviation
_SAMPLE_PAIRS = 1_000  # with this many, the error of the mean is a thirtieth of the standard deviation
_SAMPLE_STARTS = 200
_PAGE_PAIRS = 50  # pairs whose vectors are in memory together: an artifact may have thousands of vectors
_DRAWS_PER_PAIR = 10  # random draws per unlinked pair: some draws are linked, equal or duplicates

Outlook: TypeAlias = Literal["good", "doubtful", "bad"]


class _Thresholds(NamedTuple):
    """The values from which on a measure counts for a graph or against it.

    The comments give measurements on ten public data sets: three markdown vaults, the hyperlinks of a small Wikipedia,
    two citation graphs, and title mentions in three multi-hop question sets.
    """

    dangling: float = 0.25  # the vaults have 4 to 24 %, mostly links to files that were not indexed
    ambiguous: float = 0.05  # the vaults have less than 1 %; with more, the names are too unspecific
    isolated: float = 0.6  # sets with up to 58 % still gain from links; above, most queries meet no link at all
    hub_share: float = 0.4  # links written by people: 4 to 25 %; misleading mentions of common titles: 54 %
    hub_edges: int = 10  # a hub with fewer edges does not crowd out other artifacts
    gain: float = 0.3  # links for further reading have a gain of 0.5 to 1.6; unpruned co-citations have 0.2
    reach: float = 0.25  # if a quarter of all artifacts is within two hops, being reached means little
    reach_budget: int = 64  # up to the default node budget of a walk, two hops are never too many, whatever their share
    reach_least: int = 1  # with fewer artifacts within two hops, a walk has nowhere to go
    named: float = 0.125  # six multi-hop sets over an encyclopaedia have 17 to 27 %; six sets of other texts 0 to 8 %
    gold: float = 0.25  # title mentions bring 37 to 70 % of the pairs of multi-hop questions within two hops
    gold_least: float = 0.1  # below, nine of ten chains of evidence are broken
    gold_lift: float = 2  # pairs that belong together should be near at least twice as often as any two artifacts


_THRESHOLDS = _Thresholds()


@dataclass(frozen=True, slots=True)
class Finding:
    """A conclusion of a diagnosis.

    Args:
        name: Its subject, such as `"dangling"`.
        value: The measure it is based on.
        is_good: True if it speaks for the graph, False if against it.
        text: The conclusion in one line, with advice.
    """

    name: str
    value: float
    is_good: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDiagnosis:
    """Measures of a graph, and the conclusion whether its links can help to find artifacts.

    Shares are from 0 to 1. `str()` returns a report of a few lines.

    Args:
        artifacts: The number of artifacts.
        edges: The number of ordered pairs of artifacts that a link connects.
        links: The numbers of links by type, origin and state.
        dangling: The share of links whose target does not exist.
        ambiguous: The share of links that may mean several artifacts.
        isolated: The share of artifacts without any edge.
        largest_component: The share of artifacts in the largest component.
        in_degrees: The edges to an artifact: minimum, quantiles and maximum.
        out_degrees: The edges from an artifact, in the same form.
        in_gini: The Gini coefficient of the in-degrees: 0 if all are equal, nearly 1 if one artifact has all edges.
        hub_share: The share of edges that lead to the 1 % of artifacts with the highest in-degrees, at least to one.
        hubs: The five artifacts with the highest in-degrees, each with its in-degree.
        reach: The share of the other artifacts within two hops of an artifact, on average.
        named: The share of artifacts whose titles other artifacts mention: those to which a derived link of the type
            `"mentions"` leads. `None` without such links.
        pairs: The number of linked pairs whose vectors were compared.
        linked_cosine: The mean cosine of linked pairs; `None` if too few have vectors.
        random_cosine: The mean cosine of random pairs, which are drawn from the ends of links.
        gain: The difference of the two means in standard deviations (Cohen's d).
        gold_pairs: The number of pairs of artifacts that answer a question together; `None` without gold.
        gold_linked: The share of these pairs that a link connects.
        gold_near: The share of these pairs within two hops.
        findings: The conclusions; those against the graph first.
        outlook: The chance that walking along links helps to find artifacts: `"good"`, `"doubtful"` or `"bad"`.
    """

    artifacts: int
    edges: int
    links: tuple[LinkCount, ...]
    dangling: float
    ambiguous: float
    isolated: float
    largest_component: float
    in_degrees: Mapping[str, float]
    out_degrees: Mapping[str, float]
    in_gini: float
    hub_share: float
    hubs: tuple[tuple[NodeId, int], ...]
    reach: float
    named: float | None = None
    pairs: int = 0
    linked_cosine: float | None = None
    random_cosine: float | None = None
    gain: float | None = None
    gold_pairs: int | None = None
    gold_linked: float | None = None
    gold_near: float | None = None
    findings: tuple[Finding, ...] = ()
    outlook: Outlook = "doubtful"

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON-clean values."""
        return {
            **_to_json(self),
            "links": [_to_json(count) for count in self.links],
            "hubs": [{"id": json_clean(id), "edges": edges} for id, edges in self.hubs],
            "findings": [_to_json(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        """Return the report."""
        return "\n".join(self._report_lines())

    def _report_lines(self) -> Iterator[str]:
        yield f"outlook: {self.outlook}"
        yield from (f"{'+' if finding.is_good else '-'} {finding.text}" for finding in self.findings)
        yield f"artifacts: {self.artifacts:,}; {self.isolated:.0%} of them have no edge"
        yield f"edges: {self.edges:,}; the largest component has {self.largest_component:.0%} of the artifacts"
        for count in self.links:
            yield f"links of type {count.type}, {count.origin}, {count.state}: {count.count:,}"
        for name, degrees in (("in", self.in_degrees), ("out", self.out_degrees)):
            yield f"{name}-degree: {', '.join(f'{quantile} {value:g}' for quantile, value in degrees.items())}"
        share = f"the top 1 % of the artifacts have {self.hub_share:.0%} of the edges"
        yield f"Gini of in-degrees: {self.in_gini:.2f}; {share}"
        if self.hubs:
            yield f"hubs: {', '.join(f'{id} ({edges:,})' for id, edges in self.hubs)}"
        yield f"within two hops of an artifact, on average: {self.reach:.1%} of the others"
        if self.named is not None:
            yield f"mentioned by title: {self.named:.1%} of the artifacts"


def _to_json(value: Any) -> dict[str, Any]:
    return {item.name: json_clean(getattr(value, item.name)) for item in fields(value)}


async def diagnose(
    store: Store, *, gold: Sequence[Sequence[Any]] | None, seed: int, has_vectors: bool
) -> GraphDiagnosis:
    """Measure a graph and draw conclusions; see `CorpusGraph.diagnose`."""
    table = await read_edges(store, LinkFilter())
    neighbors = await in_thread(_to_neighbors, table)
    labels = await run_in_slices(label_components(table))
    # One generator for all samples, used in this order: the result follows from the seed alone.
    rng = np.random.default_rng(seed)
    links = await store.link_counts()
    measures = {
        **_measure_links(links),
        "named": await _measure_named(store, links),
        **await in_thread(_measure_degrees, table, neighbors, labels),
        "reach": await run_in_slices(_measure_reach(neighbors, len(table.ids), rng)),
        **(await _measure_cosines(store, table, rng) if has_vectors else {}),
        **(await _measure_gold(table, neighbors, gold) if gold is not None else {}),
    }
    return _add_findings(GraphDiagnosis(**measures))


def _measure_links(links: Sequence[LinkCount]) -> dict[str, Any]:
    total = sum(item.count for item in links)

    def share(state: str) -> float:
        return sum(item.count for item in links if item.state == state) / total if total else 0.0

    return {"links": tuple(links), "dangling": share("dangling"), "ambiguous": share("ambiguous")}


async def _measure_named(store: Store, links: Sequence[LinkCount]) -> float | None:
    if not any((count.type, count.origin) == (_MENTIONS, "derived") for count in links):
        return None
    table = await read_edges(store, LinkFilter(types=[_MENTIONS], origins=["derived"]))
    return len(await in_thread(np.unique, table.targets)) / len(table.ids) if table.ids else 0.0


def _measure_degrees(table: EdgeTable, neighbors: _NeighborTable, labels: Ints) -> dict[str, Any]:
    count, edges = len(table.ids), len(table.sources)
    in_degrees = np.bincount(table.targets, minlength=count)
    by_degree = np.argsort(-in_degrees, kind="stable")
    hub_edges = int(in_degrees[by_degree[: max(1, count // 100)]].sum())
    return {
        "artifacts": count,
        "edges": edges,
        "isolated": float((np.diff(neighbors.bounds) == 0).mean()) if count else 0.0,
        "largest_component": float(np.bincount(labels).max() / count) if count else 0.0,
        "in_degrees": _quantiles(in_degrees),
        "out_degrees": _quantiles(np.bincount(table.sources, minlength=count)),
        "in_gini": gini(in_degrees),
        "hub_share": hub_edges / edges if edges else 0.0,
        "hubs": tuple(
            (table.ids[position], int(in_degrees[position]))
            for position in by_degree[:_HUB_COUNT].tolist()
            if in_degrees[position]
        ),
    }


async def _measure_cosines(store: Store, table: EdgeTable, rng: np.random.Generator) -> dict[str, Any]:
    linked, random = await _compare_samples(store, table, rng)
    if min(len(linked), len(random)) < _MIN_PAIRS:
        return {"pairs": len(linked)}
    deviation = float(np.sqrt((linked.var(ddof=1) + random.var(ddof=1)) / 2))
    difference = float(linked.mean() - random.mean())
    return {
        "pairs": len(linked),
        "linked_cosine": float(linked.mean()),
        "random_cosine": float(random.mean()),
        "gain": difference / deviation if deviation else 0.0,
    }


async def _measure_gold(table: EdgeTable, neighbors: _NeighborTable, gold: Sequence[Sequence[Any]]) -> dict[str, Any]:
    positions = {id: position for position, id in enumerate(table.ids)}
    for id in (id for group in gold for id in group if id not in positions):
        raise NoLedgerEntry(f"gold: the graph has no artifact {short_repr(id)}; use the ids of artifacts")
    groups = [[positions[id] for id in group] for group in gold]
    pairs, linked, near = await run_in_slices(_count_gold_pairs(neighbors, groups))
    shares = {"gold_linked": linked / pairs, "gold_near": near / pairs} if pairs else {}
    return {"gold_pairs": pairs, **shares}


class _NeighborTable(NamedTuple):
    """The neighbours of all artifacts in either direction, as compressed sparse rows."""

    targets: Ints
    bounds: Ints

    def of(self, position: int) -> Ints:
        """Return the neighbours of an artifact."""
        return self.targets[self.bounds[position] : self.bounds[position + 1]]

    def within_two_hops(self, position: int) -> Ints:
        """Return the artifacts one or two hops away, without the artifact itself."""
        direct = self.of(position)
        near = np.unique(np.concatenate([direct, *map(self.of, direct.tolist())]))
        others: Ints = near[near != position]
        return others


class _Cosines(NamedTuple):
    """The cosines of linked pairs and of random pairs of artifacts, each `(n,) float64`.

    The cosine of two artifacts is that of their most similar records.
    """

    linked: NDArray[np.float64]
    random: NDArray[np.float64]


def _to_neighbors(table: EdgeTable) -> _NeighborTable:
    both_ways = np.stack([np.r_[table.sources, table.targets], np.r_[table.targets, table.sources]])
    pairs = np.unique(both_ways.astype(np.int64), axis=1)  # artifacts that link to each other are neighbours once
    bounds = np.searchsorted(pairs[0], np.arange(len(table.ids) + 1))
    return _NeighborTable(pairs[1].astype(np.int32), bounds.astype(np.int32))


def _quantiles(degrees: NDArray[Any]) -> dict[str, float]:
    """Return the quantiles of degrees by name; each is a degree that occurs."""
    if not len(degrees):
        return dict.fromkeys(_QUANTILES, 0.0)
    values = np.quantile(degrees, list(_QUANTILES.values()), method="inverted_cdf")
    return dict(zip(_QUANTILES, values.astype(float).tolist(), strict=True))


def gini(counts: NDArray[Any]) -> float:
    """Return the Gini coefficient of counts: 0 if all are equal, nearly 1 if one has all.

    The measure is from C. Gini, Variabilità e mutabilità, 1912.
    """
    total = int(counts.sum())
    if not total:
        return 0.0
    ranks = np.arange(1, len(counts) + 1)
    return float((2 * ranks - len(counts) - 1) @ np.sort(counts) / (len(counts) * total))


def _measure_reach(neighbors: _NeighborTable, count: int, rng: np.random.Generator) -> SlicedWork[float]:
    """Return the mean share of the other artifacts within two hops, from a sample of starts."""
    if count < 2:
        return 0.0
    starts = rng.choice(count, min(count, _SAMPLE_STARTS), replace=False)
    total = 0
    for start in starts.tolist():
        total += len(neighbors.within_two_hops(start))
        yield
    return total / (len(starts) * (count - 1))


def _count_gold_pairs(neighbors: _NeighborTable, groups: Sequence[Sequence[int]]) -> SlicedWork[tuple[int, int, int]]:
    """Return the numbers of pairs within the groups: all, linked, and within two hops."""
    pairs = linked = near = 0
    for members in (np.unique(np.array(group, np.int32)) for group in groups):
        for index, member in enumerate(members.tolist()):
            others = members[index + 1 :]
            pairs += len(others)
            linked += int(np.isin(others, neighbors.of(member)).sum())
            near += int(np.isin(others, neighbors.within_two_hops(member)).sum())
            yield
    return pairs, linked, near


async def _compare_samples(store: Store, table: EdgeTable, rng: np.random.Generator) -> _Cosines:
    linked, random = await in_thread(_sample_pairs, table, rng)
    try:
        return _Cosines(await _compare(store, table.ids, linked), await _compare(store, table.ids, random))
    except EmbedderMismatch:  # several corpora with different embedders: their vectors cannot be compared
        return _Cosines(np.empty(0), np.empty(0))


def _sample_pairs(table: EdgeTable, rng: np.random.Generator) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return linked pairs and as many pairs that are not linked."""
    count = len(table.sources)
    sample = rng.choice(count, min(count, _SAMPLE_PAIRS), replace=False)
    linked = list(zip(table.sources[sample].tolist(), table.targets[sample].tolist(), strict=True))
    # Draw random pairs from the ends of links, not from all artifacts: an artifact with many records is more similar to
    # anything, and has more links. So both samples contain equally large and equally linked artifacts.
    ends = zip(*(rng.integers(count, size=len(linked) * _DRAWS_PER_PAIR) for _ in "ab"), strict=True) if count else ()
    draws = dict.fromkeys((int(table.sources[first]), int(table.targets[second])) for first, second in ends)
    linked_draws = _select_linked(table, draws)
    return linked, [pair for pair in draws if pair[0] != pair[1] and pair not in linked_draws][: len(linked)]


def _select_linked(table: EdgeTable, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the pairs that a link connects, in either direction."""
    targets, bounds = table.to_rows()

    def is_edge(source: int, target: int) -> bool:
        row = targets[bounds[source] : bounds[source + 1]]
        index = int(np.searchsorted(row, target))
        return index < len(row) and row[index] == target

    return {(first, second) for first, second in pairs if is_edge(first, second) or is_edge(second, first)}


async def _compare(store: Store, ids: Sequence[Any], pairs: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    cosines: list[float] = []
    for start in range(0, len(pairs), _PAGE_PAIRS):
        page = pairs[start : start + _PAGE_PAIRS]
        positions = list(dict.fromkeys(position for pair in page for position in pair))
        records, vectors = await store.vectors_of([ids[position] for position in positions])
        bounds = np.cumsum([0, *map(len, records)]).tolist()
        spans = dict(zip(positions, pairwise(bounds), strict=True))
        cosines += await in_thread(_best_cosines, page, spans, vectors)
    return np.array(cosines, np.float64)


def _best_cosines(
    pairs: Sequence[tuple[int, int]], spans: Mapping[int, tuple[int, int]], vectors: Floats
) -> list[float]:
    """Return the highest cosine of each pair; skip pairs with only zero vectors on a side."""
    cosines = []
    for pair in pairs:
        first, second = (vectors[slice(*spans[position])] for position in pair)
        if first.any() and second.any():
            cosines.append(float((first @ second.T).max()))
    return cosines


def _add_findings(diagnosis: GraphDiagnosis) -> GraphDiagnosis:
    """Return the diagnosis with its conclusions; those against the graph come first."""
    checks = _CHECKS if diagnosis.edges else (_check_empty,)
    findings = [finding for check in checks for finding in check(diagnosis)]
    ordered = tuple(sorted(findings, key=lambda finding: finding.is_good))
    return replace(diagnosis, findings=ordered, outlook=_outlook(diagnosis, ordered))


def _outlook(diagnosis: GraphDiagnosis, findings: tuple[Finding, ...]) -> Outlook:
    if not diagnosis.edges:
        return "bad"
    is_good = {finding.name: finding.is_good for finding in findings}
    # Gold is direct evidence: it alone decides.
    if diagnosis.gold_near is not None:
        is_rare = diagnosis.gold_near < _THRESHOLDS.gold_least
        is_chance = diagnosis.gold_near < _THRESHOLDS.gold_lift * diagnosis.reach
        return "good" if is_good["gold"] else "bad" if is_rare or is_chance else "doubtful"
    # Without gold, links must follow the topic, and a walk must reach some artifacts but not everything.
    against = [name for name in ("isolated", "reach", "hubs") if is_good.get(name) is False]
    return "good" if is_good.get("alike") and not against else "doubtful"


def _check_empty(diagnosis: GraphDiagnosis) -> Iterator[Finding]:
    advice = (
        "compare the references of unresolved links with the indexed artifacts"
        if diagnosis.links
        else "give the source an edge extractor"
    )
    yield Finding("edges", 0, is_good=False, text=f"no link leads from one artifact to another: {advice}")


def _check_gold(diagnosis: GraphDiagnosis) -> Iterator[Finding]:
    near, linked, reach = diagnosis.gold_near, diagnosis.gold_linked, diagnosis.reach
    if near is None or linked is None:
        return
    has_lift = near >= _THRESHOLDS.gold_lift * reach
    is_good = near >= _THRESHOLDS.gold and has_lift
    if is_good:
        advice = "walking along links can find artifacts that search alone misses"
    elif has_lift:
        advice = "walks do not reach most of these pairs; extract more links, such as mentions of titles"
    else:
        advice = "links do not show which artifacts belong together; keep only stronger links"
    text = (
        f"{near:.0%} of the pairs that answer a question together are within two hops ({linked:.0%} are linked), "
        f"of all pairs {reach:.1%}: {advice}"
    )
    yield Finding("gold", near, is_good, text)


def _check_similarity(diagnosis: GraphDiagnosis) -> Iterator[Finding]:
    gain, linked, random = diagnosis.gain, diagnosis.linked_cosine, diagnosis.random_cosine
    if gain is None:
        return
    numbers = f"mean cosine {linked:.2f}, of random pairs {random:.2f}; {gain:.1f} standard deviations"
    if gain >= _THRESHOLDS.gain:
        yield Finding("alike", gain, is_good=True, text=f"linked artifacts are similar: {numbers}")
    else:
        text = (
            f"linked artifacts are hardly more similar than random ones ({numbers}): follow only some types of links, "
            "or prune weak links; if links lead to other topics on purpose, judge them by gold sets"
        )
        yield Finding("alike", gain, is_good=False, text=text)


def _check_isolated(diagnosis: GraphDiagnosis) -> Iterator[Finding]:
    if diagnosis.isolated > _THRESHOLDS.isolated:
        text = (
            f"{diagnosis.isolated:.0%} of the artifacts have no link: walks cannot leave or reach them; "
            "extract more links"
        )
        yield Finding("isolated", diagnosis.isolated, is_good=False, text=text)


def _check_reach(diagnosis: GraphDiagnosis) -> Iterator[Finding]:
    near = diagnosis.reach * (diagnosis.artifacts - 1)
    if near < _THRESHOLDS.reach_least:
        text = f"two hops lead to {near:.1f} other artifacts on average: walks have nowhere to go; extract more links"
        yield Finding("reach", diagnosis.reach, is_good=False, text=text)
    elif diagnosis.reach > _THRESHOLDS.reach and near > _THRESHOLDS.reach_budget:
        text = (
            f"two hops lead to {diagnosis.reach:.0%} of all artifacts: walk one hop, with a small fan-out, or with "
            "a policy that ranks by the query"
        )
        yield Finding("reach", diagnosis.reach, is_good=False, text=text)


def _check_hubs(diagnosis: GraphDiagnosis) -> Iterator[Finding]:
    if diagnosis.hub_share > _THRESHOLDS.hub_share and diagnosis.hubs[0][1] >= _THRESHOLDS.hub_edges:
        names = ", ".join(str(id) for id, _ in diagnosis.hubs[:3])
        text = (
            f"{diagnosis.hub_share:.0%} of the edges lead to the top 1 % of the artifacts ({names}): walk by "
            "personalized PageRank, which divides by degree, or extract no links to these"
        )
        yield Finding("hubs", diagnosis.hub_share, is_good=False, text=text)


def _check_named(diagnosis: GraphDiagnosis) -> Iterator[Finding]:
    named = diagnosis.named
    if named is None:
        return
    text = f"{named:.0%} of the artifacts are mentioned by title in others"
    if named >= _THRESHOLDS.named:
        text += ", as in an encyclopaedia: links by rare shared names can help as well (SharedNames)"
        yield Finding("named", named, is_good=True, text=text)
    elif any(count.type == _SHARES for count in diagnosis.links):
        text += ": names are no bridges here; extract no links by shared names, or compare walks with and without them"
        yield Finding("named", named, is_good=False, text=text)


def _check_unresolved(diagnosis: GraphDiagnosis) -> Iterator[Finding]:
    if diagnosis.dangling > _THRESHOLDS.dangling:
        text = (
            f"{diagnosis.dangling:.0%} of the links are dangling: see the unresolved links, and index their targets "
            "or add aliases"
        )
        yield Finding("dangling", diagnosis.dangling, is_good=False, text=text)
    if diagnosis.ambiguous > _THRESHOLDS.ambiguous:
        text = (
            f"{diagnosis.ambiguous:.0%} of the links are ambiguous, and walks do not follow them: see the unresolved "
            "links, and refer to their targets by path or id"
        )
        yield Finding("ambiguous", diagnosis.ambiguous, is_good=False, text=text)


_CHECKS: tuple[Callable[[GraphDiagnosis], Iterator[Finding]], ...] = (
    _check_gold,
    _check_similarity,
    _check_isolated,
    _check_reach,
    _check_hubs,
    _check_named,
    _check_unresolved,
)
