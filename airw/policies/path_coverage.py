"""The policy `PathCoverage`: passages that answer a query together; it is the default."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias, cast

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import MAX_HITS, check_count, check_weight
from airw._base.concurrency import offload_if
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw.errors import ArgumentError
from airw.policies._corpora import Id, Walkable, require
from airw.policies._paths import (
    OFFLOAD_ABOVE,
    READ_PER_LEAD,
    HeldWords,
    Path,
    QueryWords,
    find_links,
    find_order,
    leave_out,
    weigh_words,
)
from airw.policies._start import find_roots, find_start
from airw.policies.artifact_memory import MAX_START, ArtifactMemory, Part, node_of_hit
from airw.policies.artifact_policy import SearchingPolicy, SearchParameters
from airw.policies.scope import ALLOW_ALL
from airw.protocols import Capability, EdgeRow, OpenCorpus, Words
from airw.retrieval import describe_mistaken_corpus
from airw.stores import OwnStore
from airw.values import SearchHit, TermCounts
from airw.values.hits import with_facts
from airw.walking import CommittedNode, Frontier, WalkPolicy, WalkState

_SEARCH_K = 50  # hits of the search, of which the first compete: a search for more fuses deeper rankings
_MAX_COSINES = 100  # artifacts compared with the query, beyond those that the search has compared
_OFFLOAD_LINKS_ABOVE = 1_000  # handling so many links takes about two milliseconds
_MAX_TEXTS = 50  # texts read


@dataclass(slots=True, eq=False)
class PathMemory(ArtifactMemory):
    """The memory of one walk of `PathCoverage`.

    Args:
        words: The words of the query.
        held: Those of them that the text of each artifact holds, as far as it was read.
        paths: The paths that compete: first those of one artifact, in the order of the start.
        leads: Those of one artifact that lead on.
        ways: The paths that lead on from each artifact whose links were read, the best first.
        compared: The artifacts that were compared with the query.
        searched: How many of them the search has compared.
        best: The best path to each artifact that competes, in the final order as far as it is known.
        committed: The path by which each artifact was committed.
    """

    words: QueryWords = field(default_factory=QueryWords)
    held: dict[Id, HeldWords] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    leads: dict[Id, Path] = field(default_factory=dict)
    ways: dict[Id, list[Path]] = field(default_factory=dict)
    compared: set[Id] = field(default_factory=set)
    searched: int = 0
    best: dict[Id, Path] = field(default_factory=dict)
    committed: dict[Id, Path] = field(default_factory=dict)

    def find_nearest(self, paths: Iterable[Path]) -> list[Path]:
        """Return the paths to the nearest artifacts, as far as texts may still be read."""
        counts, near, texts = Counter[Path | None](), set[Path](), set(self.held)
        for path in sorted(paths, key=lambda path: -path.nearness):
            if counts[path.before] < READ_PER_LEAD and (path.id in texts or len(texts) < _MAX_TEXTS):
                counts[path.before] += 1
                texts.add(path.id)
                near.add(path)
        return [path for path in paths if path in near]

    async def read_values(self, paths: Sequence[Path], coverage: float, corpus: OpenCorpus) -> None:
        """Read the texts at the ends of paths, and value the paths; one store call at most."""
        new = [id for id in dict.fromkeys(path.id for path in paths) if id not in self.held]
        texts = ["" if record is None else record.text for record in await self.best_records(new, corpus)]
        found = await offload_if(sum(map(len, texts)) > OFFLOAD_ABOVE, self.words.find_in, texts)
        self.held.update(zip(new, found, strict=True))
        for path in paths:
            path.held = self.held[path.id] if path.before is None else self.held[path.id] | path.before.held
            path.value = path.score = path.nearness + coverage * self.words.share_of(path.held)

    def explain(self, path: Path) -> dict[str, Any]:
        """Return the parts of a path's score, for the metadata of a hit."""
        return {
            "path_added": self.words.spell(path.held - path.before.held if path.before else path.held),
            "path_coverage": self.words.share_of(path.held),
            "path_cosine": path.cosines / len(path.ids),
            "path_loss": path.losses,
            "path_value": path.value,
        }

    def move(self, hit: SearchHit, path: Path) -> SearchHit:
        """Return a hit with another path to it."""
        steps = {"walk_depth": len(path.ids) - 1, "walk_parent": path.ids[-2], "walk_path": [*path.ids]}
        edge = {} if path.row is None else {"walk_edge": path.row.labels[path.place].type}
        facts = {**steps, "seed": path.ids[0], **self.explain(path), **edge}
        return replace(hit, score=path.score, metadata=with_facts(hit.metadata, facts))


State: TypeAlias = WalkState[PathMemory]


@dataclass(frozen=True, kw_only=True)
class PathCoverage(SearchParameters, SearchingPolicy[PathMemory]):
    """Find passages that together hold the words of the query, by a search and along links.

    A question of two steps names its first passage and only some words of its second one. So this policy looks at paths
    and not at single passages. A passage is an artifact's best surface. A hit shows the one that a search shows.

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
    count words, they do not count, and a path is worth its mean cosine. If no link leads to anything, the walk
    returns the first hits of a search for 50, in their order. Without a limit, at most 100 artifacts
    compete in a query, and at most 50 texts count.

    The stream follows the ranking as far as it is known: after the first hit, all leads are looked at in one step. Only
    a lead comes before the artifacts that it leads to. So if you leave early, you have nearly the best hits. A lead
    keeps its own score in the stream; in `walk.ranking` it has that of the best path to it.

    The metadata of a hit explain its score. `path_added` lists the words of the query that this passage added to its
    path. `path_value` is `path_cosine`, plus `path_coverage` times the parameter `coverage`, minus `path_loss`. A hit
    of the search may have another score, because of step 2, and `walk.ranking` another order than that of the scores,
    because of step 4.

    The other parameters are those of `SearchParameters`.

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
    _memory = PathMemory

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_count("seed_k", self.seed_k, most=MAX_HITS)
        check_count("lead_k", self.lead_k)
        check_weight("coverage", self.coverage)
        check_weight("names", self.names)

    async def seed(self, state: State, store: Walkable) -> list[Path]:
        """Return the hits of the search and the roots, as paths of one artifact."""
        memory = state.memory
        memory.keeps_records = True  # their texts are read for the words, and again for the hits
        if self.edges is not None:
            require(store, "matching", self._name, "edges=...")
        # 1. Search.
        k = max(self.seed_k, _SEARCH_K) if self.seed_k else 0
        filter = self.scope.start_filter
        found_ids = await find_start(memory, store, self._name, k=k, seeding=self.seeding, filter=filter)
        hits = found_ids[: self.seed_k]
        if not memory.compared:  # this call may be repeated
            memory.compared.update(memory.best_surfaces)
            memory.searched = len(memory.compared)
        roots = find_roots(memory, self.roots, store)
        # 2. Compare and read them, and count the words of the query.
        start = [Path((id,)) for id in dict.fromkeys([*hits, *roots])]
        first = [path.id for path in start[:MAX_START]]
        answers = list[TermCounts]()
        parts: list[Part] = [(Words([memory.query]), answers.append)] if "words" in store.store.capabilities else []
        await self._read(state, store, first, first, parts=parts)
        for counts in answers:
            is_long = len(memory.query) > OFFLOAD_ABOVE
            memory.words = await offload_if(is_long, weigh_words, memory.query, counts)
        #    An artifact without a cosine cannot be part of a path.
        paths = memory.paths = await self._compare(state, start, store)
        await memory.read_values(paths, self.coverage, store)
        # 3. The hits keep the order of the search. A root may be a hit, too.
        found = set(hits)
        own = [path for path in paths if path.id in found]
        for path, score in zip(own, sorted((path.value for path in own), reverse=True), strict=True):
            path.score = score
        memory.best = {path.id: path for path in paths}
        # 4. The leads are chosen like the final order, so that they speak of all names of the query.
        leads = islice(find_order(own, memory.held, memory.words, self.names), self.lead_k)
        memory.leads = {id: memory.best[id] for id in [*leads, *roots] if id in memory.best}
        return paths[:]

    @override
    def _count_ahead(self, state: State) -> int | None:
        return None if self.scope != ALLOW_ALL else max(_MAX_TEXTS - len(state.memory.held), 0)

    async def _compare(self, state: State, paths: Sequence[Path], corpus: Walkable) -> list[Path]:
        """Compare the ends of paths with the query; return the paths that may compete.

        Two store calls at most.
        """
        memory, ids = state.memory, list(dict.fromkeys(path.id for path in paths))
        memory.compared.update(ids)
        await self._read_surfaces(state, ids, corpus)
        excluded = self._are_excluded(state, [path.id for path in paths])
        usable = [path for path, out in zip(paths, excluded, strict=True) if not out and memory.has_surface(path.id)]
        for path in usable:
            path.cosines = memory.cosine_of[path.id] + (path.before.cosines if path.before else 0.0)
        return usable

    async def score(self, state: State, nodes: Sequence[Any], store: Walkable) -> NDArray[np.float64]:
        """Return the score of each path, which is known already; no store call."""
        return np.array([path.score for path in nodes])

    def select(self, state: State, frontier: Frontier) -> list[int]:
        """Commit artifacts in the final order, each lead before what it leads to."""
        memory, visited, nodes = state.memory, state.visited, frontier.nodes
        live: list[int] = frontier.live.tolist()
        # 1. The first hit of the search leaves at once, before any link is read.
        if not visited:
            return live[:1]
        frontier.drop([position for position in frontier.fresh if nodes[position].score == -np.inf])

        # 2. A lead is committed as a hit of the search, so that its links begin at depth 0. Another artifact comes by
        # its best path or, if a limit of the walk has kept this one out, by the best that waits.
        def preference(position: int) -> tuple[bool, bool, float]:
            path = nodes[position]
            return path is not memory.leads.get(path.id), path is not memory.best.get(path.id), -path.score

        place_of: dict[Id, int] = {}
        for position in sorted(live, key=preference):
            if nodes[position].score > -np.inf:
                place_of.setdefault(nodes[position].id, position)
        selected: dict[Id, int] = {}
        for id, path in memory.best.items():
            if id in visited:
                continue
            is_lead = id in place_of and nodes[place_of[id]] is memory.leads.get(id)
            if path.before is not None and path.before.id in place_of and not is_lead:
                # 3. The path begins with a lead that still waits. Commit this one first, and then look again.
                selected[path.before.id] = place_of[path.before.id]
                break
            if id in place_of:
                selected[id] = place_of[id]
        return list(selected.values())

    async def expand(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> Sequence[Any]:
        """Return the paths that lead on from each artifact; three store calls at most.

        The links of all leads are read in the first step.
        """
        if self._is_counting(state, committed):
            return await super().expand(state, committed, store)
        memory = state.memory
        paths = {**memory.leads, **{entry.id: entry.node for entry in committed if entry.depth}}
        new = [path for id, path in paths.items() if id not in memory.ways and memory.permissions_of(id).cross]
        if new:
            await self._read_links(state, new, store)
        return [memory.ways.get(entry.id, []) for entry in committed]

    @override
    async def _find_edges(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> Sequence[EdgeRow]:
        if self.edges is None and "edges" not in store.store.capabilities:
            return [EdgeRow(entry.node.id, (), ()) for entry in committed]
        return await super()._find_edges(state, committed, store)

    async def _read_links(self, state: State, paths: Sequence[Path], corpus: Walkable) -> None:
        """Read the links of artifacts, and choose those that compete."""
        memory = state.memory
        # 1. Read the links.
        entries = [CommittedNode(path, path.id, len(path.ids) - 1, path.score, None) for path in paths]
        rows = await self._find_edges(state, entries, corpus)
        is_long = sum(map(len, rows)) > _OFFLOAD_LINKS_ABOVE
        links = await offload_if(is_long, lambda: list(map(find_links, paths, rows)))
        # 2. Compare their ends with the query, and read the texts of the nearest.
        most = _MAX_COSINES - (len(memory.compared) - memory.searched)
        compared = await offload_if(is_long, leave_out, links, memory.compared, most)
        usable = await self._compare(state, compared, corpus)
        near = memory.find_nearest(usable)
        await memory.read_values(near, self.coverage, corpus)
        # 3. Those compete. A limit of the walk, such as `max_fanout`, cuts off the others first.
        ways = await offload_if(is_long, lambda: [sorted(own, key=lambda path: -path.value) for own in links])
        memory.ways.update(zip((path.id for path in paths), ways, strict=True))
        memory.paths += near
        for path in near:
            if path.id not in memory.best or path.score > memory.best[path.id].score:
                memory.best[path.id] = path
        if near:  # else the order is still right
            order = find_order(memory.paths, memory.held, memory.words, self.names)
            memory.best = {id: memory.best[id] for id in order}

    @override
    def _facts(self, state: State, entry: CommittedNode) -> dict[str, Any]:
        state.memory.committed[entry.id] = entry.node
        return state.memory.explain(entry.node)

    def rank(self, state: State, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """Return the hits in the final order, each with its best path."""
        memory = state.memory
        hit_of = {node_of_hit(hit, memory.best): hit for hit in hits}
        return [
            hit_of[id] if path is memory.committed[id] else memory.move(hit_of[id], path)
            for id, path in memory.best.items()
            if id in hit_of
        ]


DEFAULT_POLICY: WalkPolicy = PathCoverage()
"""The policy of `airw.traverse` and of `discover(walk=True)`, if their caller passes none."""
_NEEDED: Sequence[Capability] = ("scores", "records")


def default_policy(corpus: object) -> WalkPolicy:
    """Return the policy that `airw.traverse` takes if its caller names none, `PathCoverage()`.

    It starts from a hybrid search, or by the one channel that the store has, and follows links. If there are none, or
    the store cannot read them, `walk.ranking` has the hits of that search in their order.

    Args:
        corpus: What is to be walked: an open corpus, a `FederatedCorpus`, or a `CorpusGraph` of one.

    Raises:
        ArgumentError: If that policy cannot walk it; the message names one that can.

    Example:
        >>> default_policy(None)
        Traceback (most recent call last):
            ...
        airw.errors.ArgumentError: policy must be given to walk None: the default, PathCoverage, ...
    """
    name = type(DEFAULT_POLICY).__name__
    if mistake := describe_mistaken_corpus(corpus):
        raise ArgumentError(f"store must be an open corpus, not {mistake}")
    if not all(hasattr(corpus, part) for part in ("name", "store", "embedder")):
        raise ArgumentError(
            f"policy must be given to walk {short_repr(corpus)}: the default, {name}, walks an open corpus; pass a "
            "policy of your own, a subclass of airw.Policy"
        )
    opened = cast("OpenCorpus", corpus)
    offered = opened.store.capabilities
    channel: Capability = "lexical" if "lexical" in offered else "dense"  # it seeds by either
    missing = [capability for capability in (channel, *_NEEDED) if capability not in offered]
    if missing:
        advice = opened.store.advice.get(missing[0]) if isinstance(opened.store, OwnStore) else None
        raise ArgumentError(
            f"policy must be given to walk this corpus: its store lacks the capability {missing[0]!r}, which the "
            f"default, {name}, needs; {f'{advice}, or ' if advice else ''}pass airw.policies.LinkWalk(roots=[...]), "
            "which follows links alone, or one of your own"
        )
    return DEFAULT_POLICY
