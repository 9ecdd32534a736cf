"""The policy `PathCoverage`: passages that answer a query together."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import MAX_HITS, check_count, check_weight
from airw._base.concurrency import map_bounded, offload_if
from airw._base.overriding import override
from airw.links.columns import Numbers
from airw.policies._capabilities import Walkable, has_method, require
from airw.policies._paths import READ_PER_LEAD, Hop, Path, PathMemory, find_links, limit_new, to_ways
from airw.policies._query_words import read_query_words
from airw.policies._read_ahead import ReadOptions
from airw.policies._roots import check_roots, find_roots
from airw.policies._seeding import find_start
from airw.policies._several_corpora import Id
from airw.policies.artifact_memory import node_of_hit
from airw.policies.artifact_policy import ArtifactPolicy
from airw.stores.steps import reads_steps
from airw.values import SearchHit
from airw.values.hits import add_facts
from airw.walking import CommittedNode, Frontier, WalkState

_SEARCH_K = 50  # hits of the search, of which the first compete: a search for more fuses deeper rankings
_MAX_COSINES = 100  # artifacts compared with the query, beyond those that the search has compared
_OFFLOAD_ABOVE = 1_000  # links; handling so many takes about two milliseconds
_MAX_TEXTS = 50  # texts read

State: TypeAlias = WalkState[PathMemory]


@dataclass(frozen=True, kw_only=True)
class PathCoverage(ArtifactPolicy[PathMemory]):
    """Find passages that together hold the words of the query, by a search and along links.

    A question of two steps names its first passage and only some words of its second one. So this policy looks at paths
    and not at single passages. A passage is an artifact's best surface, which is also the hit.

    1. Search as `search` does. The first `seed_k` hits compete, and the first of them is the first hit of the walk.
    2. Value each hit as a path of its own: its cosine, plus `coverage` times the share of the query's words that it
       holds. The i-th hit of the search then gets the i-th largest value, so the hits keep the order of the search.
    3. Follow the links of `lead_k` of them, to the seven nearest artifacts each. A path is worth the mean cosine of its
       passages, plus `coverage` times the share of the words that they hold together. A link of weight `w` costs it
       `1 - w`. An incoming link counts 0.85 times its weight, and so does one of the type `"related"`, which does not
       say how its ends are related. Of more than seven neighbours the nearest are near by chance: a link to one of `n`
       costs 0.07 ln(n / 7) more.
    4. Rank the passages one by one. The next one has the largest sum of its value and of what its new names are worth:
       `names` times the share of the query's names that no passage before it holds. The first path from a lead also
       gets half of what the lead added. This is greedy maximum coverage (Nemhauser, Wolsey and Fisher, 1978).
    5. The leads of step 3 are the first hits of the search in that same order.

    Words are those of the store's lexical search, weighted by their squared inverse document frequency (Salton and
    Buckley, 1988). A name is a word that the query writes with a capital inside a sentence. If the store has no
    `term_statistics`, words do not count, and a path is worth its mean cosine. If no link leads to anything, the walk
    returns the first hits of a search for 50, in their order. Without a limit, a query compares at most 100 artifacts
    and reads at most 50 texts.

    The stream follows the ranking as far as it is known: after the first hit, all leads are looked at in one step. Only
    a lead comes before the artifacts that it leads to. So if you leave early, you have nearly the best hits. A lead
    keeps its own score in the stream; in `walk.ranking` it has that of the best path to it.

    The metadata of a hit explain its score. `path_added` lists the words of the query that this passage added to its
    path. `path_value` is `path_cosine`, plus `path_coverage` times the parameter `coverage`, minus `path_loss`. A hit
    of the search may have another score, because of step 2, and `walk.ranking` another order than that of the scores,
    because of step 4.

    The other parameters are those of `ArtifactPolicy`.

    Args:
        seed_k: The number of hits of the search that compete; 0 to start from `roots` alone.
        lead_k: The number of these hits whose links are followed. Roots are leads, too.
        coverage: What a path is worth if it holds all words of the query, compared with a cosine.
        names: What a passage is worth if it holds all names of the query, and none before it holds any.
        max_depth: The depth cap if the caller of `traverse` passes none; `None` for no cap.

    Raises:
        ArgumentError: If a parameter cannot be used.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping, traverse
        >>> from airw.links import extractor_from
        >>> from airw.stores import MemoryStore
        >>> texts = {
        ...     "kestrel": "The Kestrel team trains at the harbour.",
        ...     "harbour": "The harbour lies in Bergen, a city in the west.",
        ...     "home": "A team is a home, they say.",
        ... }
        >>> links = extractor_from(lambda id, _: {"at": ["harbour"]} if id == "kestrel" else {}, id="links")
        >>> async def main():
        ...     source = from_mapping(texts, name="notes", embedder="light", edge_extractor=links)
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         query = "Which city is the home of the Kestrel team?"
        ...         walk = traverse(query, corpus, policy=PathCoverage(seed_k=2))
        ...         async for _ in walk:
        ...             pass
        ...         return [(hit.metadata["walk_path"], hit.metadata["path_added"]) for hit in walk.ranking]
        >>> (_, (path, added), *_) = anyio.run(main)
        >>> path, added
        (['kestrel', 'harbour'], ['city'])
    """

    seed_k: int = 15
    lead_k: int = 5
    coverage: float = 0.5
    names: float = 1.0
    max_depth: int | None = 1
    keeps_frontier = True
    scores_paths = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_count("seed_k", self.seed_k, most=MAX_HITS)
        check_count("lead_k", self.lead_k)
        check_weight("coverage", self.coverage)
        check_weight("names", self.names)

    @override
    def begin(self, state: State) -> PathMemory:
        # Records are kept: their texts are read for the words, and again for the hits.
        return PathMemory(state.query, self.scope, keeps_records=True)

    async def seed(self, state: State, store: Walkable) -> list[Path]:
        """Return the hits of the search and the roots, as paths of one artifact."""
        memory = state.memory
        if self.edges is not None:
            require(store, "matching", self._name, "edges=...")
        # 1. Search, and count the words of the query meanwhile.
        hits = await self._search(memory, store)
        roots = find_roots(memory, self.roots, store)
        # 2. Compare and read them. An artifact without a cosine cannot be part of a path.
        start = list(dict.fromkeys([*hits, *roots]))
        if start and reads_steps(store.store):
            await self._read_ahead(state, [], start, store)
        ids = await self._compare(state, start, store)
        await memory.read_texts(ids, store)
        # 3. Value each as a path of its own.
        paths = memory.extend([Hop(None, id) for id in ids], self.coverage)
        memory.start(paths, len(set(ids).intersection(hits)), self.lead_k, self.names, roots)
        return list(memory.seeds.values())

    @property
    @override
    def _read_options(self) -> ReadOptions:
        options = super()._read_options
        # The nearest ends are not always those of the best paths, as links have weights.
        return options._replace(max_records=max(options.max_records, 2 * READ_PER_LEAD))

    async def _search(self, memory: PathMemory, corpus: Walkable) -> list[Id]:
        """Return the first hits of the search; count the query's words meanwhile."""

        async def find() -> list[Id]:
            k = max(self.seed_k, _SEARCH_K) if self.seed_k else 0
            filter = self.scope.start_filter
            return await find_start(memory, corpus, self._name, k=k, seeding=self.seeding, filter=filter)

        async def count() -> list[Id]:
            memory.words = await read_query_words(memory.query, corpus)
            return []

        calls: list[Callable[[], Awaitable[list[Id]]]] = [find, count]
        hits, _ = await map_bounded(lambda call: call(), calls, limit=2)
        return hits[: self.seed_k]

    async def _compare(self, state: State, ids: Sequence[Id], corpus: Walkable) -> list[Id]:
        """Compare artifacts with the query; return those that may be part of a path.

        Two store calls at most.
        """
        memory = state.memory
        memory.compared += sum(id not in memory.best_surfaces for id in ids)
        await memory.score(ids, corpus)
        await check_roots(memory, corpus)
        await memory.apply_scope(ids, corpus)
        excluded = self._are_excluded(state, ids)
        return [id for id, out in zip(ids, excluded, strict=True) if not out and memory.has_surface(id)]

    async def score(self, state: State, nodes: Sequence[Any] | Numbers, store: Walkable) -> NDArray[np.float64]:
        """Return the score of each path, which is known already; no store call."""
        return np.array([node.score if isinstance(node, Path) else -np.inf for node in nodes], np.float64)

    def select(self, state: State, frontier: Frontier) -> list[int]:
        """Commit artifacts in the final order, each lead before what it leads to."""
        memory, visited, nodes = state.memory, state.visited, frontier.nodes
        live: list[int] = frontier.live.tolist()
        # 1. The first hit of the search leaves at once, before any link is read.
        if not visited:
            return live[:1]
        frontier.drop([position for position in frontier.fresh if nodes[position].score == -np.inf])
        place_of = {nodes[position]: position for position in live}
        best_place: dict[Id, int] = {}
        for place in sorted(live, key=lambda place: -nodes[place].score):  # ties in order of discovery
            if nodes[place].score > -np.inf:
                best_place.setdefault(nodes[place].id, place)
        selected: dict[Id, int] = {}
        for path in [path for id, path in memory.best.items() if id not in visited]:
            # 2. A lead is committed as a hit of the search, so that its links begin at depth 0.
            position = place_of.get(memory.leads.get(path.id, path))
            if position is None and len(path.ids) > 1 and path.ids[-2] not in visited:
                # 3. The path begins with a lead that still waits. Commit this one first, and then look again.
                lead = memory.leads[path.ids[-2]]
                if lead in place_of:
                    selected.setdefault(lead.id, place_of[lead])
                    break
            # 4. A limit of the walk may have kept this path out. Another path may wait, such as the hit of the search.
            position = best_place.get(path.id) if position is None else position
            if position is not None:
                selected.setdefault(path.id, position)
        return list(selected.values())

    async def expand(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> list[Any]:
        """Return the paths that lead on from each artifact; three store calls at most.

        The links of all leads are read in the first step.
        """
        if self._is_counting(state, committed):
            if not self._can_read(store):
                return [[] for _ in committed]
            return cast("list[Any]", await super().expand(state, committed, store))
        memory = state.memory
        paths = {**memory.leads, **{entry.id: entry.node for entry in committed if entry.depth}}
        new = [path for id, path in paths.items() if id not in memory.ways and memory.permissions_of(id).cross]
        if new:
            await self._read_links(state, new, store)
        return [memory.ways.get(entry.id, []) for entry in committed]

    def _can_read(self, corpus: Walkable) -> bool:
        return self.edges is not None or has_method(corpus, "neighbors")

    async def _read_links(self, state: State, paths: Sequence[Path], corpus: Walkable) -> None:
        """Read the links of artifacts, and choose those that compete."""
        memory = state.memory
        # 1. Read the links.
        entries = [CommittedNode(path, path.id, len(path.ids) - 1, path.score, None) for path in paths]
        neighbors = await self._neighbors(state, entries, corpus) if self._can_read(corpus) else [[] for _ in paths]
        is_long = sum(map(len, neighbors)) > _OFFLOAD_ABOVE
        links = await offload_if(is_long, lambda: list(map(find_links, paths, neighbors)))
        # 2. Compare their ends with the query, and read the texts of the nearest.
        most = _MAX_COSINES - memory.compared
        ids = await offload_if(is_long, lambda: limit_new(_heaviest_first(links), memory.best_surfaces, most))
        usable = set(await self._compare(state, ids, corpus))
        near = _find_nearest(memory, [link for own in links for link in own if link.id in usable])
        await memory.read_texts([link.id for link in near], corpus)
        # 3. Value the paths to them, which then compete.
        found = memory.extend(near, self.coverage)
        memory.add_links(found, self.names)
        read = {path.ids: path for path in found}
        ways = await offload_if(is_long, lambda: [to_ways(*pair, read) for pair in zip(paths, links, strict=True)])
        memory.ways.update(zip((path.id for path in paths), ways, strict=True))

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each best surface, with the parts of its score; no store call."""
        memory = state.memory
        hits = await super().to_hits(state, committed, store)
        for entry, hit in zip(committed, hits, strict=True):
            memory.committed[entry.id] = entry.node
            if hit is not None:
                add_facts(hit.metadata, memory.explain(entry.node))
        return hits

    def rank(self, state: State, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """Return the hits in the final order, each with its best path."""
        memory = state.memory
        places = {id: place for place, id in enumerate(memory.best)}
        hit_of = {node_of_hit(hit, places): hit for hit in hits}
        return [
            hit_of[id] if memory.best[id] is memory.committed[id] else memory.move(hit_of[id], memory.best[id])
            for id in sorted(hit_of, key=places.__getitem__)
        ]


def _heaviest_first(links: Sequence[Sequence[Hop]]) -> list[list[Id]]:
    return [[link.id for link in sorted(own, key=lambda link: link.loss)] for own in links]


def _find_nearest(memory: PathMemory, links: Sequence[Hop]) -> list[Hop]:
    """Return the links to the nearest artifacts, as far as texts may still be read."""
    cosines, lengths = memory.add_cosines(links)
    values = cosines / lengths - np.array([link.loss + (link.path.losses if link.path else 0.0) for link in links])
    counts: dict[Path | None, int] = {}
    near: set[Hop] = set()
    texts = set(memory.held)
    for row in np.argsort(-values, kind="stable").tolist():
        link = links[row]
        if counts.get(link.path, 0) < READ_PER_LEAD and (link.id in texts or len(texts) < _MAX_TEXTS):
            counts[link.path] = counts.get(link.path, 0) + 1
            texts.add(link.id)
            near.add(link)
    return [link for link in links if link in near]
