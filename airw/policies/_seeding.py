"""Where a walk starts: a search by cosine, by words or by both, artifacts that the query names, given ids."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, cast

from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, NoLedgerEntry
from airw.policies._artifacts import ArtifactNode, best_of, query_vector
from airw.protocols import OpenCorpus
from airw.retrieval import MODES, Mode, channel_rankings, channels_of, check_corpus, hybrid_depth
from airw.retrieval.fusion import fuse_ranks
from airw.values import NodeId
from airw.values.filters import Filter, matches, parse_filter
from airw.walking import WalkState

AnyFilter: TypeAlias = Mapping[str, Any] | Filter | None
Seeding: TypeAlias = Literal["dense", "lexical", "hybrid", "titles"]

SEEDINGS: tuple[Seeding, ...] = (*MODES, "titles")
"""The ways to find a start: the modes of a search, and artifacts whose names the query holds."""

_WORD = re.compile(r"\w+(?:[-'\u2019.&/]\w+)*")
_LONGEST = 8  # words in a name
_SHORTEST = 3  # characters: shorter ones stand in a query by chance


def check_nodes(name: str, given: object) -> tuple[NodeId, ...]:
    """Give the items of a list when each is an id or a pair of a corpus and an id there.

    Raises:
        ArgumentKindError: It is no list.
        ArgumentError: An item is neither.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentKindError(f"{name} must be a list of ids, not {short_repr(given)}; one is [{short_repr(given)}]")
    return tuple(_checked_node(name, each) for each in given)


def _checked_node(name: str, given: object) -> NodeId:
    match given:
        case str():
            return given
        case [str() as source, str() as id]:
            return source, id
    raise ArgumentError(f"{name} must be ids or (source, id) pairs, not {short_repr(given)}")


def member_names(corpus: OpenCorpus) -> Collection[str]:
    """Give the names of the corpora that an open corpus is made of; none where it is a single one."""
    names: Collection[str] = getattr(corpus, "members", ())
    return names


def root_ids(roots: Sequence[NodeId], corpus: OpenCorpus) -> list[Any]:
    """Give roots as the store knows them: ids, where a pair may name the corpus itself; of several corpora pairs.

    Raises:
        NoLedgerEntry: One is of another corpus; or of several, and it does not say of which.
    """
    members = member_names(corpus)
    return [_root_id(root, check_corpus(corpus).name, members) for root in dict.fromkeys(roots)]


def _root_id(root: NodeId, name: str, members: Collection[str]) -> NodeId:
    source, id = (None, root) if isinstance(root, str) else root
    if members and source in members:
        return root
    if not members and source in (None, name):
        return id
    wanted = f"a (source, id) pair, the source one of {', '.join(map(repr, members))}" if members else "an id in it"
    raise NoLedgerEntry(f"corpus {name!r} holds no artifact {short_repr(root)}; a root is {wanted}")


async def seed_artifacts(
    state: WalkState, corpus: OpenCorpus, *, k: int, seeding: Seeding, roots: Sequence[NodeId], filter: AnyFilter
) -> list[ArtifactNode]:
    """Give the `k` artifacts that are found, best first, then the given roots; each once.

    Raises:
        NoLedgerEntry: A root is not of this corpus.
    """
    given = root_ids(roots, corpus)
    found = await _found(state, corpus, k, seeding, filter) if k else ()
    return [ArtifactNode(id) for id in dict.fromkeys([*found, *given])]


async def _found(state: WalkState, corpus: OpenCorpus, k: int, seeding: Seeding, filter: AnyFilter) -> Sequence[str]:
    if seeding != "titles":
        return await _searched(state, corpus, k, seeding, filter)
    named = await named_artifacts(state.query, corpus)
    return (await _satisfying([id for ids in named for id in ids], corpus, filter))[:k]


async def _searched(state: WalkState, corpus: OpenCorpus, k: int, mode: Mode, filter: AnyFilter) -> list[str]:
    """Find the artifacts that `retrieve` finds; no records are read, and cosines are kept: two store calls fewer."""
    channels, depth = channels_of(mode), hybrid_depth(k) if mode == "hybrid" else k
    vector = partial(query_vector, state, corpus)
    rankings = await channel_rankings(
        check_corpus(corpus), channels, state.query, vector, depth, filter=filter, per_artifact=True
    )
    found = [id for id, _ in fuse_ranks([ranking.artifact_ids for ranking in rankings])[:k]]
    for channel, ranking in zip(channels, rankings, strict=True):
        if channel == "dense":
            best = zip(ranking.artifact_ids, zip(ranking.record_ids, ranking.scores.tolist(), strict=True), strict=True)
            # What was filtered may not be the best surface of what is not started from.
            best_of(state).update(best if filter is None else ((id, each) for id, each in best if id in found))
    return found


async def _satisfying(ids: Sequence[str], corpus: OpenCorpus, filter: AnyFilter) -> Sequence[str]:
    """Give the artifacts with a surface that satisfies the filter; one store call, none without a filter."""
    parsed = parse_filter(filter)
    if parsed is None:
        return ids
    found = zip(ids, await corpus.store.records_of(ids), strict=True)
    return [id for id, records in found if any(matches(parsed, record.metadata) for record in records or ())]


async def named_artifacts(query: str, corpus: OpenCorpus) -> list[list[str]]:
    """Give for each name that the query holds the artifacts it means; longer names first, then as they stand there.

    Names are what links go by: ids, titles, aliases. Of overlapping names the longest counts. One store call.
    """
    query = unicodedata.normalize("NFC", query)
    spans = list(_spans(query))
    texts = [" ".join(query[start:end].split()) for start, end in spans]
    forms = [form for text in texts for form in (text, _fold(text))]
    found = await check_corpus(corpus).store.resolve(forms)
    named, taken = cast("list[list[str]]", []), set[int]()
    for at, (start, end) in enumerate(spans):
        meant = found[2 * at] or found[2 * at + 1]
        if meant and taken.isdisjoint(range(start, end)):
            taken.update(range(start, end))
            named.append(meant)
    return named


def _spans(query: str) -> Iterator[tuple[int, int]]:
    """Give where each run of words starts and ends, those of the most words first."""
    flat = "".join("a" if unicodedata.category(letter).startswith("M") else letter for letter in query)
    words = [match.span() for match in _WORD.finditer(flat)]  # where marks count as letters, as they do not to `re`
    for length in range(min(_LONGEST, len(words)), 0, -1):
        for at in range(len(words) - length + 1):
            start, end = words[at][0], words[at + length - 1][1]
            if end - start >= _SHORTEST:
                yield start, end


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
