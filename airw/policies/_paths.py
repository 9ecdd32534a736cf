"""Paths from the hits of a search, and what they are worth: words, values, order."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from math import fsum, log
from typing import Optional, TypeAlias

import numpy as np

from airw.policies._corpora import Id
from airw.protocols import EdgeRow
from airw.values import Analyser, Edge, TermCounts

READ_PER_LEAD = 7  # texts read behind one lead; with five leads and 15 hits, that makes 50
OFFLOAD_ABOVE = 20_000  # characters; splitting so many into words takes about two milliseconds

_CROWDING = 0.07  # what each link costs more if an artifact has `e` times as many neighbours as are read
_INCOMING = 0.85  # the weight of a link against its direction, times its own
_RELATED = 0.85  # the weight of a link of the type "related", times its own: it does not say how its ends are related

_PUNCTUATION = ".,;:!?\"'()[]{}<>*_`\u201c\u201d\u2018\u2019"
_CLOSING = "\"')]}\u201d\u2019"
_END_OF_SENTENCE = tuple(".!?:;")
_SHORT = 3  # characters; a short word with a dot, such as "J." or "Mr.", does not end a sentence

HeldWords: TypeAlias = frozenset[str]


@dataclass(slots=True, eq=False)
class Path:
    """A path to an artifact; it is a node of the walk.

    It does not compete before its text was read: it then has no words, and its value is `-inf`.

    Args:
        ids: The artifacts from the start to this one.
        before: The path that this one extends; `None` at the start.
        row: The row in which the link that led here stands; `None` at the start.
        place: Its place there.
        losses: The sum of what the links cost: one minus the weight, and more if an artifact has many neighbours.
        cosines: The sum of the cosines of the artifacts; `-inf` until the last one is compared with the query.
        held: The words of the query that their texts hold together.
        value: The value of the path; `-inf` if it does not compete.
        score: The score of the artifact by this path.
    """

    ids: tuple[Id, ...]
    before: Optional["Path"] = None
    row: EdgeRow | None = None
    place: int = 0
    losses: float = 0.0
    cosines: float = -np.inf
    held: HeldWords = frozenset()
    value: float = -np.inf
    score: float = -np.inf

    @property
    def id(self) -> Id:
        """The artifact at the end."""
        return self.ids[-1]

    @property
    def edge(self) -> Edge | None:
        """The link that led here, made now; `None` at the start."""
        return None if self.row is None else self.row[self.place]

    @property
    def nearness(self) -> float:
        """The value of the path without the words of its texts."""
        return self.cosines / len(self.ids) - self.losses


def find_links(path: Path, row: EdgeRow) -> list[Path]:
    """Return the path to each neighbour by its heaviest link; none back to the path.

    Of many neighbours, the nearest to the query are near by chance. So each link of an artifact with many costs more.
    """
    links: dict[Id, tuple[int, float]] = {}
    for place, (id, label) in enumerate(zip(row.ends, row.labels, strict=True)):
        weight = label.weight * (_RELATED if label.type == "related" else 1.0)
        weight *= _INCOMING if label.is_incoming else 1.0
        if id not in path.ids and (id not in links or weight > links[id][1]):
            links[id] = place, weight
    crowding = _CROWDING * log(max(len(links) / READ_PER_LEAD, 1))
    return [
        Path((*path.ids, id), path, row, place, path.losses + (1 - weight + crowding))
        for id, (place, weight) in links.items()
    ]


def leave_out(lists: Sequence[Sequence[Path]], known: Container[Id], most: int) -> list[Path]:
    """Return the paths of all lists, without those to new artifacts beyond the first `most`.

    They are counted in turns: the one by the heaviest link of each list, then the next ones.

    Example:
        >>> light, heavy, other = Path(("a", "b"), losses=0.5), Path(("a", "c")), Path(("z", "d"))
        >>> [path.id for path in leave_out([[light, heavy], [other]], known={"b"}, most=1)]
        ['b', 'c']
    """
    turns = zip_longest(*(sorted(paths, key=lambda path: path.losses) for paths in lists))
    paths = [path for path in chain.from_iterable(turns) if path is not None]
    new = dict.fromkeys(path.id for path in paths if path.id not in known)
    left_out = set(list(new)[max(most, 0) :])
    return [path for path in chain.from_iterable(lists) if path.id not in left_out]


def find_order(paths: Sequence[Path], held: Mapping[Id, HeldWords], words: "QueryWords", names: float) -> Iterator[Id]:
    """Yield the artifacts that paths lead to, in their final order.

    This is greedy maximum coverage (Nemhauser, Wolsey and Fisher, 1978). The next artifact is always the one with the
    largest sum: its best score, and the weights of the names that none before it holds. The first path from a lead
    also gets half of what the lead added by its names, as the mean of its two ends. So if a query compares two things,
    what lies behind each of them finds a place. Ties are in the order of the paths.

    Args:
        paths: The paths that compete: first the hits of the search and the roots, then those that links lead to.
        held: The words of the query that the text of each artifact holds.
        words: The words of the query.
        names: What an artifact is worth that holds all names of the query.
    """
    rows = {id: row for row, id in enumerate(dict.fromkeys(path.id for path in paths))}
    ids, hits = list(rows), [path for path in paths if path.before is None]
    links = paths[len(hits) :]
    scores = np.full(len(ids), -np.inf)
    scores[: len(hits)] = [path.score for path in hits]
    leads = np.array([rows[path.ids[-2]] for path in links], np.intp)
    ends = np.array([rows[path.id] for path in links], np.intp)
    own_values = np.array([path.value for path in links])
    holds = np.array([[name in held[id] for name in words.names] for id in ids], np.bool_)
    missing = np.array([names * words.shares[name] for name in words.names])
    brought, taken, follows = np.zeros(len(ids)), np.zeros(len(ids)), np.full(len(ids), 0.5)
    for _ in ids:
        # 1. The best way to each artifact: as a hit of the search, or by a link.
        values = own_values + (follows * brought)[leads]
        best = scores.copy()
        np.maximum.at(best, ends, values)
        # 2. Add the names that no artifact so far holds, and take the best.
        added = holds @ missing
        row = int(np.argmax(best + added + taken))
        if best[row] > scores[row]:
            link = np.flatnonzero((ends == row) & (values == best[row]))[0]
            follows[leads[link]] = 0.0
        # 3. What it holds is no longer missing.
        brought[row] = added[row]
        missing[holds[row]] = 0.0
        taken[row] = -np.inf
        yield ids[row]


@dataclass(frozen=True, slots=True, eq=False)
class QueryWords:
    """The words of a query as the store counts them; none if it does not count words.

    Args:
        spellings: The words in the form in which the store compares them, each with the form that the query writes.
            Words that no text holds are left out.
        shares: The weight of each word: its inverse document frequency, squared. It counts once for the query and once
            for the text, as in the cosine of two tf-idf vectors (Salton and Buckley, 1988). The sum is 1.
        names: The words that the query writes with a capital, but not at the start of a sentence.
        split: Returns the words of texts in the form of the store.
    """

    spellings: dict[str, str] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    names: Sequence[str] = ()
    split: Callable[[Sequence[str]], Sequence[Sequence[str]]] = Analyser(None).split

    def find_in(self, texts: Sequence[str]) -> list[HeldWords]:
        """Return the words that each text holds."""
        if not self.spellings:
            return [frozenset()] * len(texts)
        return [frozenset(filter(self.spellings.__contains__, words)) for words in self.split(texts)]

    def share_of(self, held: HeldWords) -> float:
        """Return the share of the words that is held, from 0 to 1.

        Example:
            >>> QueryWords(shares={"go": 0.25, "bergen": 0.75}).share_of(frozenset({"go"}))
            0.25
        """
        return fsum(map(self.shares.__getitem__, held))  # the same in any order

    def spell(self, held: HeldWords) -> list[str]:
        """Return these words as the query writes them, without duplicates."""
        return list(dict.fromkeys(spelling for term, spelling in self.spellings.items() if term in held))


def weigh_words(query: str, counts: TermCounts) -> QueryWords:
    """Return the words of a query with their weights."""
    terms = [term for term, frequency in counts.frequencies.items() if frequency]
    if not terms:
        return QueryWords()
    # 1. A name has a capital and at least two characters, and does not begin a sentence.
    words: list[str] = []
    are_names: list[bool] = []
    for line in query.splitlines():
        begins = True
        for written in line.split():
            word = written.strip(_PUNCTUATION)
            words.append(word)
            are_names.append(len(word) > 1 and word[0].isupper() and not begins)
            is_short = written.endswith(".") and len(written) <= _SHORT
            begins = written.rstrip(_CLOSING).endswith(_END_OF_SENTENCE) and not is_short
    # 2. Find them in the form of the store. The rules of another store are not known: its words are taken as they are.
    split = (counts.analyser or Analyser(None)).split
    spellings, names = dict[str, str](), set[str]()
    for word, is_name, own in zip(words, are_names, split(words), strict=True):
        for term in own:
            spellings.setdefault(term, word)  # the first spelling of a word counts
        if is_name:
            names.update(own)
    weights = {term: counts.weigh(term) ** 2 for term in terms}
    total = sum(weights.values()) or 1.0
    return QueryWords(
        {term: spellings.get(term, term) for term in terms},
        {term: weight / total for term, weight in weights.items()},
        [term for term in terms if term in names],
        split,
    )
