"""An embedder without a model: feature hashing of words and word pairs.

Each distinct word and pair of neighbouring words adds `±(1 + ln count)` to one of `dim` cells; cell and sign come from
its hash (Weinberger, Dasgupta, Langford, Smola and Attenberg, "Feature Hashing for Large Scale Multitask Learning",
ICML 2009). Grams that share a cell add up or cancel, so a cosine is exact only in expectation; its error shrinks with
`1 / sqrt(dim)`. The vectors know spelling, not meaning.

A slice of texts is hashed as one array of code points. The hash of a token is a polynomial in its code points modulo
2^64: with prefix sums over the whole slice, two lookups and one multiplication give it for any token, and as arithmetic
modulo 2^64 is exact, it depends neither on the token's place nor on its neighbours. The same holds for the vectors:
weights are whole multiples of 2^-16, so that sums are exact in any order.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from anyio.lowlevel import checkpoint

from airw._base.arrays import Floats, NDArray
from airw._base.checks import check_count, check_texts
from airw._base.concurrency import in_thread
from airw.errors import EmbedderError

Hashes = NDArray[np.uint64]

_SLICE_CHARS = 1 << 16  # about 1.5 ms of work, and 4 MB of arrays
_SLICE_TEXTS = 1 << 12  # a text's position in its slice takes 12 bits of a key, a gram's hash the other 52
_SLICE_CELLS = 1 << 19  # rows times dim: 4 MB, which stays in the cache
_INLINE_CHARS = 1 << 12  # up to here the work is shorter than the way to a worker thread
_HASH_BITS = np.uint64(52)
_GRID = 1 << 16

_BASE = 0x5851F42D4C957F2D  # any large odd number: odd ones have an inverse modulo 2^64
_PAIR = np.uint64(0x9E3779B97F4A7C15)

_BETWEEN, _LETTER, _IDEOGRAPH, _MARK = range(4)
_ASCII = bytes(_LETTER if chr(code).isalnum() or chr(code) == "_" else _BETWEEN for code in range(128)) + bytes(128)
# Han and kana, which are written without spaces.
_IDEOGRAPHS = "[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]"


@dataclass(frozen=True, slots=True)
class HashingEmbedder:
    """Embeds by hashing lower-cased words and pairs of words: no model, no download, the same vectors everywhere.

    Texts are normalised (NFKC), so composed and decomposed accents agree. A word is a run of letters, digits and `_`
    with the marks on them; each Han or kana character is a word of its own. A text's vector depends on nothing but the
    text: not on its neighbours, the process or the platform. A text without words gives the zero vector.

    Args:
        dim: The width of the vectors; wider means fewer grams that share a cell.

    Raises:
        ArgumentError: `dim` is not a whole number of at least 1.

    Example:
        >>> import anyio
        >>> embedder = HashingEmbedder()
        >>> vectors = anyio.run(embedder.embed_documents, ["Bake the bread", "bake THE bread!", "rotate keys"])
        >>> vectors.shape, (vectors @ vectors[0]).round(2).tolist()
        ((3, 512), [1.0, 1.0, 0.0])
    """

    dim: int = 512

    def __post_init__(self) -> None:
        """Check the width at birth."""
        check_count("dim", self.dim, least=1)

    @property
    def id(self) -> str:
        """Name the hash and the width: `hashing-v1-512`."""
        return f"hashing-v1-{self.dim}"

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return `(len(texts), dim) float32` rows, unit or zero, in the order of the texts.

        The work is done in a worker thread, in slices of about 1.5 ms (a longer text is a slice of its own);
        cancellation takes effect between them.

        Raises:
            EmbedderError: `texts` is one string, or holds something that is not a string.
        """
        given = check_texts(texts, of=self.id, error=EmbedderError)
        rows = np.zeros((len(given), self.dim), np.float32)
        for start, stop in _slices(given, self.dim):
            part = given[start:stop]
            if sum(map(len, part)) <= _INLINE_CHARS:
                await checkpoint()
                rows[start:stop] = _embed(part, self.dim)
            else:
                rows[start:stop] = await in_thread(_embed, part, self.dim)
        return rows

    async def embed_query(self, text: str) -> Floats:
        """Return `(dim,) float32`, the same vector that the text has as a document."""
        row: Floats = (await self.embed_documents([text]))[0]
        return row


def _slices(texts: list[str], dim: int) -> Iterator[tuple[int, int]]:
    """Cut the texts into runs of bounded length, at least one text each."""
    most = max(1, min(_SLICE_TEXTS, _SLICE_CELLS // dim))
    start = size = 0
    for at, text in enumerate(texts):
        if at > start and (at - start == most or size + len(text) > _SLICE_CHARS):
            yield start, at
            start, size = at, 0
        size += len(text)
    if texts:
        yield start, len(texts)


def _embed(texts: list[str], dim: int) -> Floats:
    """Return the rows of one slice."""
    keys = _gram_keys(*_token_hashes(texts))
    rows = np.zeros((len(texts), dim), np.float32)
    if not keys.size:
        return rows
    keys.sort()
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    counts = np.diff(first, append=keys.size)
    weights = np.rint((1 + np.log(np.arange(1, counts.max() + 1))) * _GRID)[counts - 1]
    grams = keys[first]
    hashes = grams & np.uint64((1 << int(_HASH_BITS)) - 1)
    cells = (grams >> _HASH_BITS) * np.uint64(dim) + (hashes >> np.uint64(1)) % np.uint64(dim)
    signed = np.where(hashes & np.uint64(1), weights, -weights)
    sums = np.bincount(cells.view(np.int64), signed, len(texts) * dim).reshape(len(texts), dim)
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    lengths[lengths == 0] = 1
    np.divide(sums, lengths[:, None], out=rows, casting="same_kind")
    return rows


def _gram_keys(tokens: Hashes, rows: Hashes) -> Hashes:
    """Return one key for each word and each pair of neighbours of a row: the row above 52 bits of the gram's hash."""
    paired = rows[1:] == rows[:-1]
    pairs = _mixed((tokens[:-1] * _PAIR + tokens[1:])[paired])
    grams = np.concatenate([tokens, pairs])
    return np.concatenate([rows, rows[1:][paired]]) << _HASH_BITS | grams >> (np.uint64(64) - _HASH_BITS)


def _token_hashes(texts: list[str]) -> tuple[Hashes, Hashes]:
    """Return the hash of every token in order, and the number of the text that it stands in."""
    plain = [_normalised(text) for text in texts]
    encoded = "\n".join([*plain, ""]).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(encoded, "<u4")
    kinds = _kinds(codes)
    before, after = np.roll(kinds, 1), np.roll(kinds, -1)  # the last character is a line break, so both ends fit
    alone = kinds == _IDEOGRAPH
    starts = np.flatnonzero((kinds != _BETWEEN) & ((kinds != before) | alone))
    stops = np.flatnonzero((kinds != _BETWEEN) & ((kinds != after) | alone)) + 1
    powers, inverses = _powers(len(codes))
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(codes * powers[: len(codes)], out=sums[1:])
    hashes = _mixed((sums[stops] - sums[starts]) * inverses[starts])
    ends = np.cumsum([len(text) + 1 for text in plain])
    rows = np.repeat(np.arange(len(texts), dtype=np.uint64), np.diff(np.searchsorted(starts, ends), prepend=0))
    return hashes, rows


def _normalised(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).lower()


def _kinds(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return what every code point is to a word; marks become part of the word they stand on, or nothing."""
    low = np.minimum(codes, 128).astype(np.uint8).tobytes()
    kinds = np.frombuffer(bytearray(low.translate(_ASCII)), np.uint8)
    high = np.flatnonzero(codes >= 128)
    if high.size:
        distinct, which = np.unique(codes[high], return_inverse=True)
        kinds[high] = np.array([_kind(chr(code)) for code in distinct.tolist()], np.uint8)[which]
        marks = np.flatnonzero(kinds == _MARK)
        carriers = np.maximum.accumulate(np.where(kinds == _MARK, 0, np.arange(len(kinds))))[marks]
        kinds[marks] = np.where(kinds[carriers] == _LETTER, _LETTER, _BETWEEN)
    return kinds


def _kind(character: str) -> int:
    if re.match(_IDEOGRAPHS, character):
        return _IDEOGRAPH
    if character.isalnum():
        return _LETTER
    return _MARK if unicodedata.category(character).startswith("M") else _BETWEEN


def _powers(count: int) -> tuple[Hashes, Hashes]:
    """Return at least the first `count` powers of the base modulo 2^64, and their inverses."""
    return _common_powers() if count <= 2 * _SLICE_CHARS else _new_powers(count)


@cache
def _common_powers() -> tuple[Hashes, Hashes]:
    return _new_powers(2 * _SLICE_CHARS)


def _new_powers(count: int) -> tuple[Hashes, Hashes]:
    def of(base: int) -> Hashes:
        factors = np.full(count, base, np.uint64)
        factors[0] = 1
        return np.multiply.accumulate(factors)

    return of(_BASE), of(pow(_BASE, -1, 1 << 64))


def _mixed(hashes: Hashes) -> Hashes:
    """Spread every input bit over all bits: the finaliser of MurmurHash3 (Austin Appleby, public domain)."""
    mixed = hashes ^ (hashes >> np.uint64(33))
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    mixed ^= mixed >> np.uint64(33)
    return mixed
