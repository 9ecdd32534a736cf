"""Diagnosis of a graph: whether its links can help, and which are missing.

First the graph is measured, then the measures are compared with thresholds. What would take too long for a large graph
is sampled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import in_thread
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import EmbedderMismatch, NoLedgerEntry
from airw.links._structure import EdgeTable, Ints, SlicedWork, label_components, read_edges, run_in_slices
from airw.links.unresolved import count_links, read_unresolved
from airw.protocols import Store, VectorsOf, ask
from airw.values import LinkCount, LinkFilter, NodeId, UnresolvedLink

_MENTIONS, _SHARES = "mentions", "shares"  # the types of links that `TitleMentions` and `SharedNames` find
_HUBS, _MOST_MISSING = 5, 10
_MIN_PAIRS = 30  # below this, the error of a mean cosine is more than a fifth of the standard deviation
_SAMPLE_PAIRS = 1_000  # with this many, the error of the mean is a thirtieth of the standard deviation
_SAMPLE_STARTS = 200
_PAGE_PAIRS = 50  # pairs whose vectors are in memory together: an artifact may have thousands of vectors
_DRAWS_PER_PAIR = 10  # random draws per unlinked pair: some draws are linked, equal or duplicates
_GOLD_LIFT = 2  # pairs that belong together should be near at least twice as often as any two artifacts

Outlook: TypeAlias = Literal["good", "doubtful", "bad"]
_Neighbors: TypeAlias = tuple[Ints, Ints]  # as `EdgeTable.to_rows` returns them


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
        missing: The references that most links without a target have, at most ten: the reference, the number of its
            links, and their state.
        isolated: The share of artifacts without any edge.
        largest_component: The share of artifacts in the largest component.
        hub_share: The share of edges that lead to the 1 % of artifacts with the most edges, at least to one.
        hubs: The five artifacts to which most edges lead, each with their number.
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
    missing: tuple[tuple[str, int, str], ...]
    isolated: float
    largest_component: float
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
        missing = [{"ref": ref, "links": count, "state": state} for ref, count, state in self.missing]
        hubs = [{"id": id, "edges": edges} for id, edges in self.hubs]
        cleaned: dict[str, Any] = json_clean({**asdict(self), "missing": missing, "hubs": hubs})
        return cleaned

    def __str__(self) -> str:
        """Return the report."""
        lines = [
            f"outlook: {self.outlook}",
            *(f"{'+' if finding.is_good else '-'} {finding.text}" for finding in self.findings),
            f"artifacts: {self.artifacts:,}; {self.isolated:.0%} of them have no edge",
            f"edges: {self.edges:,}; the largest component has {self.largest_component:.0%} of the artifacts",
            *(f"links of type {item.type}, {item.origin}, {item.state}: {item.count:,}" for item in self.links),
            *(f"missing: {short_repr(ref)} ({count:,}, {state})" for ref, count, state in self.missing),
            f"hubs: {', '.join(f'{id} ({edges:,})' for id, edges in self.hubs) or 'none'}",
            f"the top 1 % of the artifacts have {self.hub_share:.0%} of the edges",
            f"within two hops of an artifact, on average: {self.reach:.1%} of the others",
        ]
        named = [] if self.named is None else [f"mentioned by title: {self.named:.1%} of the artifacts"]
        return "\n".join([*lines, *named])


async def diagnose(
    store: Store, *, gold: Sequence[Sequence[Any]] | None, seed: int, has_vectors: bool
) -> GraphDiagnosis:
    """Measure a graph and draw conclusions; see `CorpusGraph.diagnose`."""
    table = await read_edges(store, LinkFilter())
    # One generator for all samples, used in this order: the result follows from the seed alone.
    rng = np.random.default_rng(seed)
    links = await count_links(store)
    measures = await in_thread(_measure_links, links, await read_unresolved(store))
    if any((item.type, item.origin) == (_MENTIONS, "derived") for item in links):
        mentions = await read_edges(store, LinkFilter(types=[_MENTIONS], origins=["derived"]))
        measures["named"] = len(await in_thread(np.unique, mentions.targets)) / max(1, len(mentions.ids))
    neighbors = await in_thread(_to_neighbors, table)
    measures |= await in_thread(_measure_degrees, table, neighbors, await run_in_slices(label_components(table)))
    measures["reach"] = await run_in_slices(_measure_reach(neighbors, rng))
    measures |= await _measure_cosines(store, table, rng) if has_vectors else {}
    measures |= {} if gold is None else await run_in_slices(_measure_gold(table, neighbors, gold))
    return _judge(GraphDiagnosis(**measures))


def _measure_links(links: Sequence[LinkCount], unresolved: Sequence[UnresolvedLink]) -> dict[str, Any]:
    counts = Counter[str]()
    for item in links:
        counts[item.state] += item.count
    shares = {state: counts[state] / (counts.total() or 1) for state in ("dangling", "ambiguous")}
    missing = Counter((found.link.target_ref, found.state) for found in unresolved if found.state in shares)
    common = sorted(missing.items(), key=lambda item: (-item[1], item[0]))[:_MOST_MISSING]
    return {"links": tuple(links), **shares, "missing": tuple((ref, count, state) for (ref, state), count in common)}


def _to_neighbors(table: EdgeTable) -> _Neighbors:
    """Return the edges in both directions, as compressed sparse rows."""
    both_ways = np.stack([np.r_[table.sources, table.targets], np.r_[table.targets, table.sources]])
    both_ways = np.unique(both_ways, axis=1)  # artifacts that link to each other are neighbours once
    return EdgeTable(table.ids, both_ways[0], both_ways[1]).to_rows()


def _measure_degrees(table: EdgeTable, neighbors: _Neighbors, labels: Ints) -> dict[str, Any]:
    count, edges = len(table.ids), len(table.sources)
    in_degrees = np.bincount(table.targets, minlength=count)
    order = np.argsort(-in_degrees, kind="stable")
    hubs = [position for position in order[:_HUBS].tolist() if in_degrees[position]]
    return {
        "artifacts": count,
        "edges": edges,
        "isolated": float((np.diff(neighbors[1]) == 0).mean()) if count else 0.0,
        "largest_component": float(np.bincount(labels).max() / count) if count else 0.0,
        "hub_share": int(in_degrees[order[: max(1, count // 100)]].sum()) / max(1, edges),
        "hubs": tuple((table.ids[position], int(in_degrees[position])) for position in hubs),
    }


def _find_near(neighbors: _Neighbors, position: int) -> tuple[Ints, Ints]:
    """Return the neighbours of an artifact, and all others within two hops."""
    targets, bounds = neighbors
    direct = targets[bounds[position] : bounds[position + 1]]
    near = np.unique(np.concatenate([direct, *(targets[bounds[one] : bounds[one + 1]] for one in direct.tolist())]))
    return direct, near[near != position]


def _measure_reach(neighbors: _Neighbors, rng: np.random.Generator) -> SlicedWork[float]:
    """Return the mean share of the other artifacts within two hops, from a sample of starts."""
    count, total = len(neighbors[1]) - 1, 0
    starts = rng.choice(count, min(count, _SAMPLE_STARTS), replace=False) if count > 1 else np.empty(0, np.int64)
    for start in starts.tolist():
        total += len(_find_near(neighbors, start)[1])
        yield
    return total / max(1, len(starts) * (count - 1))


async def _measure_cosines(store: Store, table: EdgeTable, rng: np.random.Generator) -> dict[str, Any]:
    if not len(table.sources):
        return {}
    linked_pairs, random_pairs = await in_thread(_sample_pairs, table, rng)
    try:
        linked, random = [await _compare(store, table.ids, pairs) for pairs in (linked_pairs, random_pairs)]
    except EmbedderMismatch:  # several corpora with different embedders: their vectors cannot be compared
        return {}
    if min(len(linked), len(random)) < _MIN_PAIRS:
        return {"pairs": len(linked)}
    means = float(linked.mean()), float(random.mean())
    deviation = float(np.sqrt((linked.var(ddof=1) + random.var(ddof=1)) / 2))
    gain = (means[0] - means[1]) / deviation if deviation else 0.0
    return {"pairs": len(linked), "linked_cosine": means[0], "random_cosine": means[1], "gain": gain}


def _sample_pairs(table: EdgeTable, rng: np.random.Generator) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return linked pairs and as many pairs that are not linked."""
    count, artifacts = len(table.sources), len(table.ids)
    sample = rng.choice(count, min(count, _SAMPLE_PAIRS), replace=False)
    linked = list(zip(table.sources[sample].tolist(), table.targets[sample].tolist(), strict=True))
    # Draw random pairs from the ends of links, not from all artifacts: an artifact with many records is more similar to
    # anything, and has more links. So both samples contain equally large and equally linked artifacts.
    draws = rng.integers(count, size=(2, len(linked) * _DRAWS_PER_PAIR))
    first, second = table.sources[draws[0]].astype(np.int64), table.targets[draws[1]].astype(np.int64)
    edges = table.sources.astype(np.int64) * artifacts + table.targets
    is_linked = np.isin(first * artifacts + second, edges) | np.isin(second * artifacts + first, edges)
    is_apart = ~is_linked & (first != second)
    apart = zip(first[is_apart].tolist(), second[is_apart].tolist(), strict=True)
    return linked, list(dict.fromkeys(apart))[: len(linked)]


async def _compare(store: Store, ids: Sequence[Any], pairs: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Return the highest cosine of each pair of artifacts.

    Pairs with only zero vectors on a side are skipped.
    """
    cosines: list[float] = []
    for start in range(0, len(pairs), _PAGE_PAIRS):
        page = pairs[start : start + _PAGE_PAIRS]
        positions = list(dict.fromkeys(position for pair in page for position in pair))
        records, vectors = await ask(store, VectorsOf([ids[position] for position in positions]))
        parts = np.split(vectors, np.cumsum([len(group) for group in records])[:-1])
        vectors_of = dict(zip(positions, parts, strict=True))
        sides = [(vectors_of[first], vectors_of[second]) for first, second in page]
        compared = [(first, second) for first, second in sides if first.any() and second.any()]
        cosines += await in_thread(lambda both: [float((one @ other.T).max()) for one, other in both], compared)
    return np.array(cosines, np.float64)


def _measure_gold(table: EdgeTable, neighbors: _Neighbors, gold: Sequence[Sequence[Any]]) -> SlicedWork[dict[str, Any]]:
    positions = {id: position for position, id in enumerate(table.ids)}
    pairs = linked = near = 0
    for group in gold:
        for id in group:
            if id not in positions:
                raise NoLedgerEntry(f"gold: the graph has no artifact {short_repr(id)}; use the ids of artifacts")
        members = np.unique(np.array([positions[id] for id in group], np.int32))
        for index, member in enumerate(members.tolist()):
            direct, both = _find_near(neighbors, member)
            others = members[index + 1 :]
            pairs += len(others)
            linked += int(np.isin(others, direct).sum())
            near += int(np.isin(others, both).sum())
            yield
    return {"gold_pairs": pairs, **({"gold_linked": linked / pairs, "gold_near": near / pairs} if pairs else {})}


def _judge(found: GraphDiagnosis) -> GraphDiagnosis:
    """Return the diagnosis with its conclusions; those against the graph come first.

    The comments give measurements on ten public data sets: three markdown vaults, the hyperlinks of a small Wikipedia,
    two citation graphs, and title mentions in three multi-hop question sets.
    """
    findings = [*_find_evidence(found), *(_find_faults(found) if found.edges else [_explain_empty(found)])]
    findings.sort(key=lambda finding: finding.is_good)
    is_good = {finding.name: finding.is_good for finding in findings}
    against = [name for name in ("edges", "isolated", "reach", "hubs") if is_good.get(name) is False]
    # Links must follow the topic, and a walk must reach some artifacts but not everything.
    outlook: Outlook = "bad" if not found.edges else "good" if is_good.get("alike") and not against else "doubtful"
    # Gold is direct evidence: it alone decides. With a tenth of the pairs, nine of ten chains of evidence are broken.
    if found.edges and found.gold_near is not None:
        is_rare = found.gold_near < max(0.1, _GOLD_LIFT * found.reach)
        outlook = "good" if is_good["gold"] else "bad" if is_rare else "doubtful"
    return replace(found, findings=tuple(findings), outlook=outlook)


def _find_evidence(found: GraphDiagnosis) -> Iterator[Finding]:
    """Yield what speaks for or against links in general."""
    if found.gold_near is not None and found.edges:
        # Title mentions bring 37 to 70 % of the pairs of multi-hop questions within two hops.
        has_lift = found.gold_near >= _GOLD_LIFT * found.reach
        is_good = found.gold_near >= 0.25 and has_lift
        advice = "links do not show which artifacts belong together; keep only stronger links"
        if has_lift:
            advice = "walks do not reach most of these pairs; extract more links, such as mentions of titles"
        if is_good:
            advice = "walking along links can find artifacts that search alone misses"
        pairs = f"{found.gold_near:.0%} of the pairs that answer a question together are within two hops"
        text = f"{pairs} ({found.gold_linked:.0%} are linked), of all pairs {found.reach:.1%}: {advice}"
        yield Finding("gold", found.gold_near, is_good, text)
    if found.gain is not None:
        # Links for further reading have a gain of 0.5 to 1.6; unpruned co-citations have 0.2.
        is_good = found.gain >= 0.3
        text = "linked artifacts are similar"
        if not is_good:
            text = "linked artifacts are hardly more similar than others: prune weak links, or judge them by gold sets"
        means = f"mean cosine {found.linked_cosine:.2f}, of random pairs {found.random_cosine:.2f}"
        yield Finding("alike", found.gain, is_good, f"{text} ({means}; {found.gain:.1f} standard deviations)")
    # Six multi-hop sets over an encyclopaedia have 17 to 27 %; six sets of other texts 0 to 8 %.
    is_good = found.named is not None and found.named >= 0.125
    if found.named is not None and (is_good or any(item.type == _SHARES for item in found.links)):
        advice = (
            "as in an encyclopaedia: links by rare shared names can help as well (SharedNames)"
            if is_good
            else ("names are no bridges here: extract no links by shared names, or compare walks with and without them")
        )
        text = f"{found.named:.0%} of the artifacts are mentioned by title in others, {advice}"
        yield Finding("named", found.named, is_good, text)


def _find_faults(found: GraphDiagnosis) -> Iterator[Finding]:
    """Yield what hinders walks, each with its share and with advice."""
    near, hubs = found.reach * (found.artifacts - 1), ", ".join(str(id) for id, _ in found.hubs[:3])
    # Sets with up to 58 % still gain from links; above, most queries meet no link at all.
    if found.isolated > 0.6:
        yield _fault("isolated", found.isolated, "of the artifacts have no link: extract more links")
    if near < 1:
        text = (
            f"of the artifacts are within two hops, {near:.1f} on average: walks have nowhere to go; extract more links"
        )
        yield _fault("reach", found.reach, text)
    # If a quarter is near, being reached means little. The default node budget of a walk, 64, is never too many.
    if found.reach > 0.25 and near > 64:
        text = "of all artifacts are within two hops: walk one hop, with a small fan-out, or rank by the query"
        yield _fault("reach", found.reach, text)
    # Links written by people have 4 to 25 %; misleading mentions of common titles 54 %. Small hubs do not crowd.
    if found.hub_share > 0.4 and found.hubs[0][1] >= 10:
        text = (
            f"of the edges lead to the top 1 % of the artifacts ({hubs}): walk by personalized PageRank, which divides"
        )
        yield _fault("hubs", found.hub_share, f"{text} by degree, or extract no links to these")
    # The vaults have 4 to 24 % that dangle, mostly links to files that were not indexed, and less than 1 % ambiguous.
    if found.dangling > 0.25:
        text = "of the links are dangling: see the missing references, and index their targets or add aliases"
        yield _fault("dangling", found.dangling, text)
    if found.ambiguous > 0.05:
        text = "of the links are ambiguous, and walks do not follow them: refer to their targets by path or id"
        yield _fault("ambiguous", found.ambiguous, text)


def _explain_empty(found: GraphDiagnosis) -> Finding:
    advice = (
        "compare the missing references with the indexed artifacts"
        if found.links
        else "give the source an edge extractor"
    )
    return Finding("edges", 0, is_good=False, text=f"no link leads from one artifact to another: {advice}")


def _fault(name: str, value: float, text: str) -> Finding:
    return Finding(name, value, is_good=False, text=f"{value:.0%} {text}")
