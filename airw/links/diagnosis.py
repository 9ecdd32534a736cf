"""What a graph is like, and whether it can help to find things: its measures, and what follows from them."""

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
from airw.links._structure import EdgeTable, Ints, Slices, labelled, read_edges, sliced
from airw.protocols import Store
from airw.values import LinkCount, LinkFilter, NodeId

_QUANTILES = {"min": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "max": 1.0}
_HUBS = 5
_FEWEST = 30  # pairs of a kind: the error of a mean is then a fifth of the spread
_PAIRS = 1_000  # sampled of each kind: the error of the mean is then a thirtieth of the spread
_STARTS = 200
_AT_ONCE = 50  # pairs whose vectors are held together, as an artifact may have thousands
_TRIES = 10  # at pairs that are not linked, for each one wanted

Outlook: TypeAlias = Literal["good", "doubtful", "bad"]


class _Thresholds(NamedTuple):
    """Where a number begins to speak for a graph, or against it.

    The reasons name what was measured on ten public sets: three markdown vaults, the hyperlinks of a small Wikipedia,
    two citation graphs, and title mentions in three multi-hop question sets.
    """

    dangling: float = 0.25  # the vaults have 4 to 24 %, mostly links to files that were left out
    ambiguous: float = 0.05  # the vaults have under 1 %: more is a sign of names that say too little
    isolated: float = 2 / 3  # sets with up to 58 % still gain from links; with more, most queries find no link
    hub_share: float = 0.4  # links that people wrote: 4 to 25 %; mentions of common titles, which mislead: 54 %
    hub_edges: int = 10  # fewer crowd out nothing
    gain: float = 0.3  # links to read on have 0.5 to 1.6 deviations; co-citations before weak ones are pruned 0.2
    reach: float = 0.25  # a quarter of everything within two hops: having been reached says little
    reach_budget: int = 64  # so many are no flood, whatever their share: the default node budget of a walk
    reach_least: int = 1  # fewer artifacts within two hops: next to nothing to walk to
    gold: float = 0.25  # title mentions bring 37 to 70 % of the pairs of multi-hop questions within two hops
    gold_least: float = 0.1  # under this, nine chains of ten break
    gold_lift: float = 2  # so much oftener than any two artifacts should a pair that belongs together be near


_AT = _Thresholds()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a diagnosis says.

    Args:
        name: What it is about, such as `"dangling"`.
        value: The number behind it.
        is_good: Whether it speaks for the graph, or against it.
        text: What was found, and what would do.
    """

    name: str
    value: float
    is_good: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDiagnosis:
    """What a graph is like, and whether it can help to find things.

    Shares are from 0 to 1; printed, it is a report of a few lines.

    Args:
        artifacts: How many there are.
        edges: The ordered pairs of them that a link leads between.
        links: All links by type, origin and state.
        dangling: The share of links whose target is not there.
        ambiguous: The share of links that may mean several artifacts.
        isolated: The share of artifacts without any edge.
        largest_component: The share of artifacts in the largest group that edges connect.
        in_degrees: Edges to an artifact: the least, quantiles, and the most.
        out_degrees: Edges from an artifact, in the same way.
        in_gini: How unequal in-degrees are: 0 where all are equal, nearly 1 where one artifact has all edges.
        hub_share: The share of edges that lead to the hundredth of artifacts with most, at least to one.
        hubs: The five artifacts to which most edges lead, with their number.
        reach: The share of the other artifacts that is within two hops of one, on average.
        pairs: Linked pairs whose vectors were compared.
        linked_cosine: How alike these are, on average; `None` where too few have vectors.
        random_cosine: How alike pairs are that are made of the ends of different links.
        gain: How many standard deviations linked pairs are more alike than these (Cohen's d).
        gold_pairs: Pairs of artifacts that answer one question together; `None` where no gold was given.
        gold_linked: The share of these that a link connects.
        gold_near: The share of these that are within two hops.
        findings: What follows, the gravest first.
        outlook: Whether walking along links can help to find things: `"good"`, `"doubtful"` or `"bad"`.
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
        """Give all fields as JSON-clean values."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **{name: json_clean(value) for name, value in plain.items()},
            "links": [_plain(count) for count in self.links],
            "hubs": [{"id": json_clean(id), "edges": edges} for id, edges in self.hubs],
            "findings": [_plain(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        """Write the report."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"outlook: {self.outlook}"
        yield from (f"{'+' if finding.is_good else '-'} {finding.text}" for finding in self.findings)
        yield f"artifacts: {self.artifacts:,}, {self.isolated:.0%} of them without any edge"
        yield f"edges: {self.edges:,}; {self.largest_component:.0%} of the artifacts hang together"
        for count in self.links:
            yield f"links of type {count.type}, {count.origin}, {count.state}: {count.count:,}"
        for name, degrees in (("in", self.in_degrees), ("out", self.out_degrees)):
            yield f"{name}-degree: {', '.join(f'{each} {value:g}' for each, value in degrees.items())}"
        yield f"in-degrees are unequal by {self.in_gini:.2f} (Gini); the top 1 % have {self.hub_share:.0%} of the edges"
        if self.hubs:
            yield f"hubs: {', '.join(f'{id} ({edges:,})' for id, edges in self.hubs)}"
        yield f"within two hops of an artifact: {self.reach:.1%} of the others"


def _plain(value: Any) -> dict[str, Any]:
    return {each.name: json_clean(getattr(value, each.name)) for each in fields(value)}


async def diagnose(
    store: Store, *, gold: Sequence[Sequence[Any]] | None, seed: int, has_vectors: bool
) -> GraphDiagnosis:
    """Measure all that a diagnosis says, and judge it."""
    table = await read_edges(store, LinkFilter())
    near = await in_thread(_surroundings, table)
    labels = await sliced(labelled(table))
    rng = np.random.default_rng(seed)
    found = {
        **_of_links(await store.link_counts()),
        **await in_thread(_of_degrees, table, near, labels),
        "reach": await sliced(_reach_of(near, len(table.ids), rng)),
        **(await _of_cosines(store, table, rng) if has_vectors else {}),
        **(await _of_gold(table, near, gold) if gold is not None else {}),
    }
    return _judged(GraphDiagnosis(**found))


def _of_links(links: Sequence[LinkCount]) -> dict[str, Any]:
    total = sum(each.count for each in links)

    def share(state: str) -> float:
        return sum(each.count for each in links if each.state == state) / total if total else 0.0

    return {"links": tuple(links), "dangling": share("dangling"), "ambiguous": share("ambiguous")}


def _of_degrees(table: EdgeTable, near: _Surroundings, labels: Ints) -> dict[str, Any]:
    count, edges = len(table.ids), len(table.sources)
    incoming = np.bincount(table.targets, minlength=count)
    most = np.argsort(-incoming, kind="stable")
    top = int(incoming[most[: max(1, count // 100)]].sum())
    return {
        "artifacts": count,
        "edges": edges,
        "isolated": float((np.diff(near.bounds) == 0).mean()) if count else 0.0,
        "largest_component": float(np.bincount(labels).max() / count) if count else 0.0,
        "in_degrees": _quantiles(incoming),
        "out_degrees": _quantiles(np.bincount(table.sources, minlength=count)),
        "in_gini": gini(incoming),
        "hub_share": top / edges if edges else 0.0,
        "hubs": tuple((table.ids[at], int(incoming[at])) for at in most[:_HUBS].tolist() if incoming[at]),
    }


async def _of_cosines(store: Store, table: EdgeTable, rng: np.random.Generator) -> dict[str, Any]:
    linked, random = await _cosines_of(store, table, rng)
    if min(len(linked), len(random)) < _FEWEST:
        return {"pairs": len(linked)}
    spread = float(np.sqrt((linked.var(ddof=1) + random.var(ddof=1)) / 2))
    apart = float(linked.mean() - random.mean())
    return {
        "pairs": len(linked),
        "linked_cosine": float(linked.mean()),
        "random_cosine": float(random.mean()),
        "gain": apart / spread if spread else 0.0,
    }


async def _of_gold(table: EdgeTable, near: _Surroundings, gold: Sequence[Sequence[Any]]) -> dict[str, Any]:
    places = {id: place for place, id in enumerate(table.ids)}
    for id in (id for each in gold for id in each if id not in places):
        raise NoLedgerEntry(f"the graph holds no artifact {short_repr(id)}; gold is made of artifacts by id")
    pairs, linked, close = await sliced(_gold_linkage(near, [[places[id] for id in each] for each in gold]))
    shares = {"gold_linked": linked / pairs, "gold_near": close / pairs} if pairs else {}
    return {"gold_pairs": pairs, **shares}


# What the numbers are; sampled where all would be too much.


class _Surroundings(NamedTuple):
    """The neighbours of each artifact, whichever way links lead: all one after another, and the bounds of each."""

    flat: Ints
    bounds: Ints

    def of(self, place: int) -> Ints:
        """Return the neighbours of one artifact."""
        return self.flat[self.bounds[place] : self.bounds[place + 1]]

    def within_two(self, place: int) -> Ints:
        """Return what is one or two hops away, without the artifact itself."""
        near = self.of(place)
        found = np.unique(np.concatenate([near, *map(self.of, near.tolist())]))
        others: Ints = found[found != place]
        return others


class _Cosines(NamedTuple):
    """How alike artifacts are, by their most alike records: linked ones, and random ones; in all `(n,) float64`."""

    linked: NDArray[np.float64]
    random: NDArray[np.float64]


def _surroundings(table: EdgeTable) -> _Surroundings:
    """Turn edges into neighbours, each once."""
    pairs = np.unique(
        np.stack([np.r_[table.sources, table.targets], np.r_[table.targets, table.sources]]).astype(np.int64), axis=1
    )
    bounds = np.searchsorted(pairs[0], np.arange(len(table.ids) + 1))
    return _Surroundings(pairs[1].astype(np.int32), bounds.astype(np.int32))


def _quantiles(degrees: NDArray[Any]) -> dict[str, float]:
    """Return the spread of degrees, by name; values that occur."""
    if not len(degrees):
        return dict.fromkeys(_QUANTILES, 0.0)
    values = np.quantile(degrees, list(_QUANTILES.values()), method="inverted_cdf")
    return dict(zip(_QUANTILES, values.astype(float).tolist(), strict=True))


def gini(counts: NDArray[Any]) -> float:
    """Return how unequal counts are: 0 where all are equal, nearly 1 where one has everything (Gini, 1912)."""
    total = int(counts.sum())
    if not total:
        return 0.0
    ranks = np.arange(1, len(counts) + 1)
    return float((2 * ranks - len(counts) - 1) @ np.sort(counts) / (len(counts) * total))


def _reach_of(near: _Surroundings, count: int, rng: np.random.Generator) -> Slices[float]:
    """Return the share of the other artifacts that are within two hops of a random one, on average."""
    if count < 2:
        return 0.0
    starts = rng.choice(count, min(count, _STARTS), replace=False)
    total = 0
    for start in starts.tolist():
        total += len(near.within_two(start))
        yield
    return total / (len(starts) * (count - 1))


def _gold_linkage(near: _Surroundings, gold: Sequence[Sequence[int]]) -> Slices[tuple[int, int, int]]:
    """Count the pairs in sets of artifacts: all, those that are linked, and those that are within two hops."""
    pairs = linked = close = 0
    for places in (np.unique(np.array(each, np.int32)) for each in gold):
        for at, one in enumerate(places.tolist()):
            others = places[at + 1 :]
            pairs += len(others)
            linked += int(np.isin(others, near.of(one)).sum())
            close += int(np.isin(others, near.within_two(one)).sum())
            yield
    return pairs, linked, close


async def _cosines_of(store: Store, table: EdgeTable, rng: np.random.Generator) -> _Cosines:
    """Compare linked artifacts with random ones; none of either where they have no vectors in common.

    Random pairs are made of the two ends of different links, so that both kinds are of equally large, equally linked
    artifacts: whoever has more records is more like anything.
    """
    linked, random = await in_thread(_samples, table, rng)
    try:
        return _Cosines(await _compared(store, table.ids, linked), await _compared(store, table.ids, random))
    except EmbedderMismatch:  # of several corpora whose embedders differ
        return _Cosines(np.empty(0), np.empty(0))


def _samples(table: EdgeTable, rng: np.random.Generator) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    count = len(table.sources)
    chosen = rng.choice(count, min(count, _PAIRS), replace=False)
    linked = list(zip(table.sources[chosen].tolist(), table.targets[chosen].tolist(), strict=True))
    ends = zip(*(rng.integers(count, size=len(linked) * _TRIES) for _ in "ab"), strict=True) if count else ()
    drawn = dict.fromkeys((int(table.sources[one]), int(table.targets[other])) for one, other in ends)
    known = _linked_among(table, drawn)
    return linked, [pair for pair in drawn if pair[0] != pair[1] and pair not in known][: len(linked)]


def _linked_among(table: EdgeTable, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return those pairs that a link connects, one way or the other."""
    flat, bounds = table.rows()

    def leads(one: int, other: int) -> bool:
        row = flat[bounds[one] : bounds[one + 1]]
        at = int(np.searchsorted(row, other))
        return at < len(row) and row[at] == other

    return {(one, other) for one, other in pairs if leads(one, other) or leads(other, one)}


async def _compared(store: Store, ids: Sequence[Any], pairs: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    found: list[float] = []
    for at in range(0, len(pairs), _AT_ONCE):
        page = pairs[at : at + _AT_ONCE]
        places = list(dict.fromkeys(place for pair in page for place in pair))
        records, rows = await store.vectors_of([ids[place] for place in places])
        bounds = np.cumsum([0, *map(len, records)]).tolist()
        spans = dict(zip(places, pairwise(bounds), strict=True))
        found += await in_thread(_best_cosines, page, spans, rows)
    return np.array(found, np.float64)


def _best_cosines(pairs: Sequence[tuple[int, int]], spans: Mapping[int, tuple[int, int]], rows: Floats) -> list[float]:
    """Return the largest cosine of each pair; none for one where either has no vector but zeros."""
    best = []
    for pair in pairs:
        one, other = (rows[slice(*spans[place])] for place in pair)
        if one.any() and other.any():
            best.append(float((one @ other.T).max()))
    return best


# What follows from them.


def _judged(diagnosis: GraphDiagnosis) -> GraphDiagnosis:
    """Return a diagnosis with what follows from its numbers: what speaks against the graph first."""
    checks = _CHECKS if diagnosis.edges else (_empty,)
    findings = [finding for check in checks for finding in check(diagnosis)]
    ordered = tuple(sorted(findings, key=lambda finding: finding.is_good))
    return replace(diagnosis, findings=ordered, outlook=_outlook(diagnosis, ordered))


def _outlook(diagnosis: GraphDiagnosis, findings: tuple[Finding, ...]) -> Outlook:
    """Go by gold where there is some; else by what is walked to, which must be there, and follow the topic."""
    if not diagnosis.edges:
        return "bad"
    good = {finding.name: finding.is_good for finding in findings}
    if diagnosis.gold_near is not None:
        is_useless = diagnosis.gold_near < _AT.gold_least or diagnosis.gold_near < _AT.gold_lift * diagnosis.reach
        return "good" if good["gold"] else "bad" if is_useless else "doubtful"
    against = [name for name, is_good in good.items() if not is_good and name in ("isolated", "reach", "hubs")]
    return "good" if good.get("alike") and not against else "doubtful"


def _empty(found: GraphDiagnosis) -> Iterator[Finding]:
    text = (
        "no link leads from one artifact to another: give the source an edge_extractor"
        if not found.links
        else "no link leads from one artifact to another: compare what links name (unresolved) with what is there"
    )
    yield Finding("edges", 0, is_good=False, text=text)


def _gold(found: GraphDiagnosis) -> Iterator[Finding]:
    if found.gold_near is None or found.gold_linked is None:
        return
    text = (
        f"{found.gold_near:.0%} of the pairs that answer a question together are within two hops "
        f"({found.gold_linked:.0%} linked), against {found.reach:.1%} of any two: "
    )
    lift = found.gold_near >= _AT.gold_lift * found.reach
    is_good = found.gold_near >= _AT.gold and lift
    advice = (
        "walking along links can find what search alone misses"
        if is_good
        else "most such pairs cannot be walked to; extract more links, such as mentions of titles"
        if lift
        else "links do not tell what belongs together; keep only stronger links"
    )
    yield Finding("gold", found.gold_near, is_good, text + advice)


def _alike(found: GraphDiagnosis) -> Iterator[Finding]:
    if found.gain is None:
        return
    numbers = f"mean cosine {found.linked_cosine:.2f} against {found.random_cosine:.2f}, {found.gain:.1f} deviations"
    if found.gain >= _AT.gain:
        yield Finding("alike", found.gain, is_good=True, text=f"links follow the topic: {numbers}")
    else:
        text = (
            f"linked artifacts are hardly more alike than random ones ({numbers}): follow some types of links only, or "
            "prune weak links; if links lead on to other topics on purpose, judge by gold"
        )
        yield Finding("alike", found.gain, is_good=False, text=text)


def _isolated(found: GraphDiagnosis) -> Iterator[Finding]:
    if found.isolated > _AT.isolated:
        text = (
            f"{found.isolated:.0%} of the artifacts have no link: a walk must start from a search, and stays there; "
            "extract more links"
        )
        yield Finding("isolated", found.isolated, is_good=False, text=text)


def _reach(found: GraphDiagnosis) -> Iterator[Finding]:
    near = found.reach * (found.artifacts - 1)
    if near < _AT.reach_least:
        text = f"two hops lead to {near:.1f} others on average: there is next to nothing to walk to; extract more links"
        yield Finding("reach", found.reach, is_good=False, text=text)
    elif found.reach > _AT.reach and near > _AT.reach_budget:
        text = (
            f"two hops lead to {found.reach:.0%} of everything: walk one hop, with a small max_fanout, or with a "
            "policy that ranks by the query"
        )
        yield Finding("reach", found.reach, is_good=False, text=text)


def _hubs(found: GraphDiagnosis) -> Iterator[Finding]:
    if found.hub_share > _AT.hub_share and found.hubs[0][1] >= _AT.hub_edges:
        names = ", ".join(str(id) for id, _ in found.hubs[:3])
        text = (
            f"{found.hub_share:.0%} of the edges lead to the top 1 % ({names}): go by PersonalizedPageRank, which "
            "divides by degree, or leave such names out of the links"
        )
        yield Finding("hubs", found.hub_share, is_good=False, text=text)


def _unresolved(found: GraphDiagnosis) -> Iterator[Finding]:
    if found.dangling > _AT.dangling:
        text = (
            f"{found.dangling:.0%} of the links dangle: see unresolved for what they name, and index it or add aliases"
        )
        yield Finding("dangling", found.dangling, is_good=False, text=text)
    if found.ambiguous > _AT.ambiguous:
        text = (
            f"{found.ambiguous:.0%} of the links may mean several artifacts and lead nowhere: see unresolved for "
            "which, and name them by path or id"
        )
        yield Finding("ambiguous", found.ambiguous, is_good=False, text=text)


_CHECKS: tuple[Callable[[GraphDiagnosis], Iterator[Finding]], ...] = (
    _gold,
    _alike,
    _isolated,
    _reach,
    _hubs,
    _unresolved,
)
