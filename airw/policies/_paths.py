"""Paths from the hits of a search, and what a walk of `PathCoverage` remembers."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import offload_if
from airw.policies._path_value import PathPool, keep_order, share_of
from airw.policies._query_words import QueryWords
from airw.policies._several_corpora import Id
from airw.policies.artifact_memory import ArtifactMemory
from airw.policies.artifact_policy import ArtifactNode
from airw.protocols import OpenCorpus, RecordLookup
from airw.values import Edge, SearchHit
from airw.values.hits import with_facts
from airw.walking import LazyNeighbors

READ_PER_LEAD = 7  # texts read behind one lead; with five leads and 15 hits, that makes 50
_CROWDING = 0.07  # what each link costs more if an artifact has `e` times as many neighbours as are read

_OFFLOAD_ABOVE = 20_000  # characters; splitting so many into words takes about two milliseconds
_INCOMING = 0.85  # the weight of a link against its direction, times its own
_RELATED = 0.85  # the weight of a link of the type "related", times its own: it does not say how its ends are related


@dataclass(frozen=True, slots=True, eq=False)
class Hop:
    """A link to follow from a path.

    Args:
        path: The path that it extends; `None` at the start.
        id: The artifact that it leads to.
        edge: The edge; `None` at the start.
        loss: What it costs: one minus its weight, and more if the path's end has many neighbours.
    """

    path: "Path | None"
    id: Id
    edge: Edge | None = None
    loss: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """A path to an artifact; it is a node of the walk.

    Args:
        ids: The artifacts from the start to this one.
        edge: The link that led here; `None` at the start.
        cosines: The sum of their cosines.
        losses: The sum of the losses of the links.
        held: Which words of the query their texts hold together, `(words,) bool`.
        added: Which of them the text of this artifact added.
        coverage: The share of the query's words that is held.
        value: The value of the path; `-inf` if it does not compete.
        score: The score of the artifact by this path.
    """

    ids: tuple[Id, ...]
    edge: Edge | None
    cosines: float
    losses: float
    held: NDArray[np.bool_]
    added: NDArray[np.bool_]
    coverage: float
    value: float
    score: float

    @property
    def id(self) -> Id:
        """The artifact at the end."""
        return self.ids[-1]


@dataclass(slots=True, eq=False)
class PathMemory(ArtifactMemory):
    """The memory of one walk of `PathCoverage`.

    Args:
        words: The words of the query.
        held: Which of them the text of each artifact holds, as far as it was read.
        seeds: The path of one artifact to each artifact of the start, in order.
        leads: Those of them that lead on.
        ways: The paths that lead on from each artifact whose links were read.
        links: Those of them that compete, because their texts were read.
        compared: How many artifacts were compared with the query, besides those that the search has compared.
        best: The best path to each artifact that competes, in the final order as far as it is known.
        committed: The path by which each artifact was committed.
    """

    words: QueryWords = field(default_factory=QueryWords)
    held: dict[Id, NDArray[np.bool_]] = field(default_factory=dict)
    seeds: dict[Id, Path] = field(default_factory=dict)
    leads: dict[Id, Path] = field(default_factory=dict)
    ways: dict[Id, LazyNeighbors] = field(default_factory=dict)
    links: list[Path] = field(default_factory=list)
    compared: int = 0
    best: dict[Id, Path] = field(default_factory=dict)
    committed: dict[Id, Path] = field(default_factory=dict)

    async def read_texts(self, ids: Iterable[Id], corpus: OpenCorpus[RecordLookup]) -> None:
        """Note which words of the query each best surface holds; one store call at most."""
        new = [id for id in dict.fromkeys(ids) if id not in self.held]
        records = await self.best_records(new, corpus)
        texts = ["" if record is None else record.text for record in records]
        rows = await offload_if(sum(map(len, texts)) > _OFFLOAD_ABOVE, self.words.find_in, texts)
        self.held.update(zip(new, rows, strict=True))

    def extend(self, links: Sequence[Hop], coverage: float) -> list[Path]:
        """Return the path that each link leads to; the texts have been read."""
        shape, paths = (len(links), len(self.words.terms)), [link.path for link in links]
        none = np.zeros(shape[1], np.bool_)
        own = np.array([self.held[link.id] for link in links], np.bool_).reshape(shape)
        before = np.array([none if path is None else path.held for path in paths], np.bool_).reshape(shape)
        held = own | before
        shares = share_of(held, self.words.weights)
        cosines, lengths = self.add_cosines(links)
        losses = np.array([link.loss + (link.path.losses if link.path else 0.0) for link in links])
        values = cosines / lengths + coverage * shares - losses
        columns = (cosines.tolist(), losses.tolist(), held, own & ~before, shares.tolist(), values.tolist())
        return [
            Path(
                (*(link.path.ids if link.path else ()), link.id),
                link.edge,
                total,
                loss,
                words,
                added,
                share,
                value,
                value,
            )
            for link, total, loss, words, added, share, value in zip(links, *columns, strict=True)
        ]

    def add_cosines(self, links: Sequence[Hop]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return the sum of the cosines of the path to each link's end, and its length."""
        before = [link.path.cosines if link.path else 0.0 for link in links]
        lengths = [len(link.path.ids) + 1 if link.path else 1 for link in links]
        return self.cosines(link.id for link in links) + before, np.array(lengths, np.intp)

    def start(self, paths: Sequence[Path], hit_count: int, lead_count: int, names: float, roots: Sequence[Id]) -> None:
        """Remember the hits of the search, which keep their order, and the roots.

        A root may be a hit, too.
        """
        scores = keep_order(np.array([path.value for path in paths[:hit_count]])).tolist()
        hits = [replace(path, score=score) for path, score in zip(paths, scores, strict=False)]
        self.seeds = {path.id: path for path in (*hits, *paths[hit_count:])}
        self.best = dict(self.seeds)
        # The leads are chosen like the final order, so that they speak of all names of the query.
        leads = [hits[row] for row in self._pool(hits, [], names).order(lead_count)]
        leads += [self.seeds[id] for id in roots if id in self.seeds]
        self.leads = {path.id: path for path in leads}

    def add_links(self, paths: Sequence[Path], names: float) -> None:
        """Add paths that compete, and find the final order."""
        self.links += paths
        if not self.links:
            return  # no link leads anywhere: the order is that of the search
        for path in paths:
            known = self.best.get(path.id)
            if known is None or path.score > known.score:
                self.best[path.id] = path
        seeds = list(self.seeds.values())
        ids = list(dict.fromkeys([*self.seeds, *(path.id for path in self.links)]))
        rows = self._pool(seeds, self.links, names).order()
        self.best = {ids[row]: self.best[ids[row]] for row in rows}

    def _pool(self, hits: Sequence[Path], links: Sequence[Path], names: float) -> PathPool:
        rows = {path.id: row for row, path in enumerate(hits)}
        for path in links:
            rows.setdefault(path.id, len(rows))
        scores = np.full(len(rows), -np.inf)
        scores[: len(hits)] = [path.score for path in hits]
        weights = self.words.weights
        shares = weights[self.words.are_names] / weights.sum() if len(weights) else weights
        held = np.array([self.held[id] for id in rows], np.bool_).reshape(len(rows), len(weights))
        return PathPool(
            scores,
            held[:, self.words.are_names],
            names * shares,
            np.array([rows[path.ids[-2]] for path in links], np.intp),
            np.array([rows[path.id] for path in links], np.intp),
            np.array([path.value for path in links], np.float64),
        )

    def explain(self, path: Path) -> dict[str, Any]:
        """Return the parts of a path's score, for the metadata of a hit."""
        return {
            "path_added": self.words.spell(path.added),
            "path_coverage": path.coverage,
            "path_cosine": path.cosines / len(path.ids),
            "path_loss": path.losses,
            "path_value": path.value,
        }

    def move(self, hit: SearchHit, path: Path) -> SearchHit:
        """Return a hit with another path to it."""
        steps = {"walk_depth": len(path.ids) - 1, "walk_parent": path.ids[-2], "walk_path": [*path.ids]}
        edge = {} if path.edge is None else {"walk_edge": path.edge.type}
        facts = {**steps, "seed": path.ids[0], **self.explain(path), **edge}
        return replace(hit, score=path.score, metadata=with_facts(hit.metadata, facts))


def find_links(path: Path, nodes: Sequence[ArtifactNode]) -> list[Hop]:
    """Return one link to each neighbour, the heaviest; none back to the path.

    Of many neighbours, the nearest to the query are near by chance. So each link of an artifact with many costs more.
    """
    links: dict[Id, tuple[Edge | None, float]] = {}
    for node in nodes:
        weight = 1.0 if node.edge is None else _weigh(node.edge, path.id)
        known = links.get(node.id)
        if node.id not in path.ids and (known is None or weight > known[1]):
            links[node.id] = node.edge, weight
    crowding = _CROWDING * log(max(len(links) / READ_PER_LEAD, 1))
    return [Hop(path, id, edge, 1 - weight + crowding) for id, (edge, weight) in links.items()]


def _weigh(edge: Edge, start: Id) -> float:
    """Return the weight of an edge that is followed from `start`."""
    weight = edge.weight * (_RELATED if edge.type == "related" else 1.0)
    return weight if edge.source == start else weight * _INCOMING


def limit_new(lists: Sequence[Sequence[Id]], known: Container[Id], most: int) -> list[Id]:
    """Return the distinct ids of all lists, the first of each list in turns.

    Of those that are not known, there are at most `most`.

    Example:
        >>> limit_new([["a", "b", "c"], ["d", "e"]], known={"c"}, most=3)
        ['a', 'd', 'b', 'c']
    """
    ids: dict[Id, None] = {}
    for place in range(max(map(len, lists), default=0)):
        for own in lists:
            if place >= len(own) or own[place] in ids:
                continue
            is_new = own[place] not in known
            if not is_new or most > 0:
                most -= is_new
                ids[own[place]] = None
    return list(ids)


def to_ways(path: Path, links: Sequence[Hop], read: Mapping[tuple[Id, ...], Path]) -> LazyNeighbors:
    """Return all paths that lead on from an artifact, the best first.

    Those whose texts were not read do not compete and come last. So a limit of the walk, such as `max_fanout`, cuts
    them off first. They are made only if the walk reads them.
    """
    none = np.empty(0, np.bool_)
    values = {link.id: read[ids].value for link in links if (ids := (*path.ids, link.id)) in read}
    order = sorted(links, key=lambda link: -values.get(link.id, -np.inf))

    def make(part: slice) -> list[Path]:
        return [
            read.get((*path.ids, link.id))
            or Path((*path.ids, link.id), link.edge, -np.inf, link.loss, none, none, 0.0, -np.inf, -np.inf)
            for link in order[part]
        ]

    return LazyNeighbors([link.id for link in order], make)
