"""The word index of a corpus on a server, in rows that contain many words.

The index is a list of runs. A run indexes the records with the numbers of a range; ranges do not overlap. A word is
known by a hash of 64 bits. The first bits of the hash tell the row of a run that contains the word, so that a search
reads one row per word and run. A row has a directory, the words in it with the number of their records, and the
entries: each record, how often it contains the word, and the number of all words in it. The entries of a common word
are in several rows, its parts, so that a change of one record changes few bytes.

A write adds a run. Runs of about the same size are merged once there are some, so that there are never many.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import index, itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.messages import short_repr
from airw.stores._stored_values import DamagedValue, detect_damage
from airw.values import Analyser, Language

Hashes: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.int64]

COLUMNS = ("code", "run", "part", "directory", "entries")
"""The columns of the table `posting`."""

Row: TypeAlias = tuple[int, int, int, bytes, bytes]
"""A row of the table `posting`."""

SPAN = 1 << 19
"""The numbers of a run are less than its first plus this."""

MAX_PAIRS = 1 << 19
"""The pairs of a record and one of its words in a run; a single record may have more."""

_DEPTHS = range(0, 17, 2)  # how many bits of a hash can tell the row: so rows are alike in size, in runs of any size
_ROW_PAIRS = 256  # pairs in a row, at most on average
_COMMON = 512  # pairs of a word in a run, above which they are in parts
_PART_BITS = 10  # a part has the records of 1,024 numbers
_LONG = 8_192  # letters with at most 32,768 bytes
_FANOUT = 8  # runs of one size that are merged
_COUNT_BITS, _LENGTH_BITS = 20, 24  # besides 19 bits of a number, in an entry of 8 bytes
_DIRECTORY = np.dtype([("word", "<u8"), ("size", "<u4")])


class Pairs(NamedTuple):
    """Pairs of a record and one of its words, as columns of equal length.

    Args:
        words: The hashes of the words.
        numbers: The numbers of the records.
        counts: How often each record contains the word.
        lengths: The number of all words in each record.
    """

    words: Hashes
    numbers: Numbers
    counts: Numbers
    lengths: Numbers

    def take(self, places: Any) -> "Pairs":
        """Return the pairs at these places."""
        return Pairs(*(column[places] for column in self))

    @classmethod
    def join(cls, parts: Sequence["Pairs"]) -> "Pairs":
        """Return the pairs of all parts."""
        return parts[0] if len(parts) == 1 else cls(*map(np.concatenate, zip(*parts, strict=True)))


class Run(NamedTuple):
    """A row of the table `text_run`.

    Args:
        first: The first number of its range.
        last: The last number of its range.
        records: The number of its records.
        words: The number of words in them.
        pairs: The number of pairs of a record and one of its words.
        depth: How many bits of a hash tell the row of a word.
    """

    first: int
    last: int
    records: int
    words: int
    pairs: int
    depth: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextWords:
    """The words of some texts.

    Args:
        language: The language they were analysed for.
        pairs: Pairs of a text and one of its words. The places of texts stand for numbers of records.
        lengths: The number of words in each text.
    """

    language: Language | None
    pairs: Pairs
    lengths: Numbers


def analyse(texts: Sequence[str], language: Language | None) -> TextWords:
    """Return the words of texts; a thread should do it for more than a few."""
    words_by_text = Analyser(language).split(texts)
    sizes = np.fromiter(map(len, words_by_text), np.int64, len(texts))
    places = {word: place for place, word in enumerate(dict.fromkeys(chain.from_iterable(words_by_text)))}
    of_texts = np.fromiter(map(places.__getitem__, chain.from_iterable(words_by_text)), np.int64, int(sizes.sum()))
    keys, counts = np.unique(np.repeat(np.arange(len(texts)), sizes) << 32 | of_texts, return_counts=True)
    # A length also counts words that are too long for any query; they are very rare.
    long = [place for place, text in enumerate(texts) if len(text) > _LONG and _has_long_word(text)]
    lengths = sizes.copy()
    lengths[long] = [Analyser(language).count(texts[place]) for place in long]
    at = keys >> 32
    hashes = hash_words(places)[keys & 0xFFFFFFFF]
    return TextWords(language, Pairs(hashes, at, counts.astype(np.int64), lengths[at]), lengths)


def _has_long_word(text: str) -> bool:
    """Return whether a word may have more than 32,768 bytes, and be cut inside a character."""
    return not text.isascii() and max(map(len, text.split()), default=0) > _LONG


def hash_words(words: Iterable[str]) -> Hashes:
    """Return the hash of each word."""
    digests = [hashlib.blake2b(word.encode(), digest_size=8).digest() for word in words]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def list_codes(words: Hashes) -> list[int]:
    """Return the codes of all rows that can contain one of the words, in runs of any depth."""
    return sorted({code for depth in _DEPTHS for code in find_codes(words, depth).tolist()})


def find_codes(words: Hashes, depth: int) -> Numbers:
    """Return the code of the row with each word, in runs of a depth.

    It is the first bits of the hash, after a 1. So rows of different depths have different codes.
    """
    # A shift by all 64 bits would change nothing.
    bits = words >> np.uint64(64 - depth) if depth else np.zeros(len(words), np.uint64)
    return bits.astype(np.int64) | 1 << depth


def split_runs(pairs: Pairs, numbers: Numbers, lengths: Numbers) -> list[tuple[Run, Pairs]]:
    """Return the runs of new records, with their pairs.

    Args:
        pairs: The pairs of these records, in their order.
        numbers: The numbers of the records, ascending.
        lengths: The number of words in each.
    """
    runs, start = list[tuple[Run, Pairs]](), 0
    ends = np.searchsorted(pairs.numbers, numbers, "right")  # the pairs up to each record
    while start < len(numbers):
        done = int(ends[start - 1]) if start else 0
        end = min(
            int(np.searchsorted(ends, done + MAX_PAIRS, "right")),
            int(np.searchsorted(numbers, numbers[start] + SPAN, "left")),
        )
        end = max(end, start + 1)
        part = pairs.take(slice(done, int(ends[end - 1])))
        count, words = len(part.words), int(lengths[start:end].sum())
        run = Run(int(numbers[start]), int(numbers[end - 1]), end - start, words, count, choose_depth(count))
        runs.append((run, part))
        start = end
    return runs


def merge_runs(runs: Sequence[Run]) -> Run:
    """Return the run that takes the place of some that follow each other."""
    pairs = sum(run.pairs for run in runs)
    records, words = sum(run.records for run in runs), sum(run.words for run in runs)
    return Run(runs[0].first, runs[-1].last, records, words, pairs, choose_depth(pairs))


def find_keys(run: Run, pairs: Pairs) -> Numbers:
    """Return the codes, runs and parts of all rows of a run that can contain one of the pairs."""
    codes = find_codes(pairs.words, run.depth)
    parts = np.concatenate([np.zeros(len(codes), np.int64), _find_parts(run, pairs)])
    keys = np.unique(np.stack([np.tile(codes, 2), parts]), axis=1)
    return np.stack([keys[0], np.full(keys.shape[1], run.first), keys[1]])


def _find_parts(run: Run, pairs: Pairs) -> Numbers:
    return 1 + (pairs.numbers - run.first >> _PART_BITS)


def choose_depth(pair_count: int) -> int:
    """Return how many bits of a hash tell the row, in a run with so many pairs."""
    return next((depth for depth in _DEPTHS if pair_count >> depth <= _ROW_PAIRS), _DEPTHS[-1])


def pack_rows(run: Run, pairs: Pairs) -> list[Row]:
    """Return the rows of a run."""
    if np.any(np.diff(pairs.numbers) < 0):
        pairs = pairs.take(np.argsort(pairs.numbers, kind="stable"))
    _, ranks, sizes = np.unique(pairs.words, return_inverse=True, return_counts=True)
    # One number a pair, of the rank of its word and its place: sorting these takes a tenth of the time of `lexsort`.
    order = np.sort(ranks << 32 | np.arange(len(ranks))) & 0xFFFFFFFF
    pairs, is_common = pairs.take(order), np.repeat(sizes > _COMMON, sizes)
    codes, parts = find_codes(pairs.words, run.depth), np.where(is_common, _find_parts(run, pairs), 0)
    # The order of words is that of codes, so only parts have to be moved.
    if np.any(is_common):
        order = np.argsort(codes << 32 | parts, kind="stable")
        codes, parts, pairs = codes[order], parts[order], pairs.take(order)
    return _pack(codes, np.full(len(codes), run.first), parts, pairs)


def drop_records(rows: Sequence[Row], numbers: Numbers) -> tuple[list[Row], int]:
    """Return rows without the records with these numbers, and how many pairs these had."""
    blocks = Blocks(rows)
    pairs = blocks.to_pairs()
    stay = np.flatnonzero(~np.isin(pairs.numbers, numbers))
    labels = np.array([row[:3] for row in blocks.sorted], np.int64).reshape(-1, 3)[blocks.rows[stay]]
    codes, runs, parts = labels.T
    return _pack(codes, runs, parts, pairs.take(stay)), len(pairs.words) - len(stay)


def _pack(codes: Numbers, runs: Numbers, parts: Numbers, pairs: Pairs) -> list[Row]:
    """Return rows of the table, of pairs in the order of rows and of the words in them."""
    if not len(codes):
        return []
    words, numbers, counts, lengths = pairs
    is_first = np.concatenate([[True], (np.diff(codes) != 0) | (np.diff(runs) != 0) | (np.diff(parts) != 0)])
    row_starts = np.flatnonzero(is_first)
    is_first[1:] |= words[1:] != words[:-1]
    word_starts = np.flatnonzero(is_first)
    directory = np.empty(len(word_starts), _DIRECTORY)
    directory["word"], directory["size"] = words[word_starts], np.diff(word_starts, append=len(words))
    offsets = numbers - runs
    entries = ((offsets << _COUNT_BITS | counts) << _LENGTH_BITS | lengths).astype("<i8").tobytes()
    # An entry has 8 bytes, in all rows but those with a very high count or length.
    is_wide = np.logical_or.reduceat((counts >> _COUNT_BITS > 0) | (lengths >> _LENGTH_BITS > 0), row_starts).tolist()
    labels = zip(*(column[row_starts].tolist() for column in (codes, runs, parts)), strict=True)
    names, size, rows = directory.tobytes(), _DIRECTORY.itemsize, list[Row]()
    word_bounds = [*np.searchsorted(word_starts, row_starts).tolist(), len(word_starts)]
    bounds = [*row_starts.tolist(), len(words)]
    for place, label in enumerate(labels):
        start, end = bounds[place], bounds[place + 1]
        data = entries[start * 8 : end * 8]
        if is_wide[place]:
            data = np.stack([column[start:end] for column in (offsets, counts, lengths)]).astype("<u4").tobytes()
        rows.append((*label, names[word_bounds[place] * size : word_bounds[place + 1] * size], data))
    return rows


@detect_damage()
def to_runs(rows: Iterable[Sequence[Any]]) -> list[Run]:
    """Return rows of the table `text_run`, checked.

    Raises:
        DamagedValue: If airw never writes one of them.
    """
    runs = [Run(*map(index, row)) for row in rows]
    for run in runs:
        if not (0 <= run.first <= run.last < run.first + SPAN and run.records > 0 and run.depth in _DEPTHS):
            raise DamagedValue(f"the word index has the run {short_repr(tuple(run))}")
    return runs


class Blocks:
    """Rows of runs, read from the table.

    Args:
        rows: Rows, in any order.

    Raises:
        DamagedValue: If a row is not one that `pack_rows` returns.
    """

    @detect_damage()
    def __init__(self, rows: Iterable[Row]) -> None:
        # In the order of runs and parts, the records of a word are in the order of their numbers.
        self.sorted = sorted(rows, key=itemgetter(1, 2))
        directories, entries = [row[3] for row in self.sorted], [row[4] for row in self.sorted]
        self._directory = np.frombuffer(b"".join(directories), _DIRECTORY)
        self._ends = np.cumsum(self._directory["size"], dtype=np.int64)
        lengths = np.fromiter(map(len, directories), np.int64, len(directories)) // _DIRECTORY.itemsize
        if not lengths.all() or not self._directory["size"].all() or lengths.sum() != len(self._directory):
            raise DamagedValue("a row of the word index has no words")
        sizes = np.diff(self._ends[np.cumsum(lengths) - 1], prepend=0)
        self.offsets, self.counts, self.lengths = _unpack_entries(entries, sizes.tolist())
        if len(self.offsets) and not 0 <= self.offsets.min() <= self.offsets.max() < SPAN:
            raise DamagedValue("a row of the word index has records outside of its run")
        self.rows = np.repeat(np.arange(len(sizes)), sizes)
        self.runs = np.array([row[1] for row in self.sorted], np.int64)[self.rows]

    def to_pairs(self) -> Pairs:
        """Return all pairs."""
        words = np.repeat(self._directory["word"], self._directory["size"]).astype(np.uint64)
        return Pairs(words, self.runs + self.offsets, self.counts, self.lengths)

    def find(self, word: int) -> NDArray[np.int64]:
        """Return the places of the entries of a word, in the order of the numbers of records."""
        found = np.flatnonzero(self._directory["word"] == np.uint64(word)).tolist()
        if not found:
            return np.empty(0, np.int64)
        sizes = self._directory["size"]
        return np.concatenate([np.arange(self._ends[place] - sizes[place], self._ends[place]) for place in found])


@detect_damage()
def count_records(directories: Iterable[bytes], words: Hashes) -> list[int]:
    """Return the number of records with each word, from the directories of their rows."""
    directory = np.frombuffer(b"".join(directories), _DIRECTORY)
    return [int(directory["size"][directory["word"] == word].sum()) for word in words]


def _unpack_entries(entries: Sequence[bytes], sizes: Sequence[int]) -> tuple[Numbers, Numbers, Numbers]:
    """Return offsets, counts and lengths; `sizes` are the numbers of entries of each row."""
    if any(len(data) != 8 * size for data, size in zip(entries, sizes, strict=True)):
        pairs = zip(entries, sizes, strict=True)
        columns = [_unpack(data) if len(data) == 8 * size else _unpack_wide(data, size) for data, size in pairs]
        offsets, counts, lengths = map(np.concatenate, zip(*columns, strict=True))
        return offsets, counts, lengths
    return _unpack(b"".join(entries))


def _unpack(data: bytes) -> tuple[Numbers, Numbers, Numbers]:
    packed = np.frombuffer(data, "<i8").astype(np.int64, copy=False)
    offsets = packed >> (_COUNT_BITS + _LENGTH_BITS)
    return offsets, packed >> _LENGTH_BITS & (1 << _COUNT_BITS) - 1, packed & (1 << _LENGTH_BITS) - 1


def _unpack_wide(data: bytes, size: int) -> tuple[Numbers, Numbers, Numbers]:
    offsets, counts, lengths = np.frombuffer(data, "<u4").astype(np.int64).reshape(3, size)
    return offsets, counts, lengths


def find_group(runs: Sequence[Run]) -> slice | None:
    """Return which runs to merge into one, if any; they follow each other.

    Runs have levels: each has up to eight times the size of the one below. Eight runs that follow each other on a
    level, or below it, are merged. So a pair is merged about once per level, and few runs are on each.
    """
    start = 0
    for end in [*(place for place, run in enumerate(runs) if run.pairs > MAX_PAIRS // 2), len(runs)]:
        # Runs of more than half the largest size stay as they are.
        for level in range(_level_of(MAX_PAIRS) + 1):
            low = end
            while low > start and _level_of(runs[low - 1].pairs) <= level:
                low -= 1
            group = _trim(runs, low, end) if end - low >= _FANOUT else None
            if group is not None:
                return group
        start = end + 1
    return None


def _trim(runs: Sequence[Run], start: int, end: int) -> slice | None:
    """Return the first of these runs, at least two, that together are not too large for one."""
    while start < end - 1:
        pairs, place = runs[start].pairs, start + 1
        while place < end and pairs + runs[place].pairs <= MAX_PAIRS and runs[place].last - runs[start].first < SPAN:
            pairs += runs[place].pairs
            place += 1
        if place - start > 1:
            return slice(start, place)
        start += 1
    return None


def _level_of(pairs: int) -> int:
    return (max(pairs, 1).bit_length() - 1) // 3
