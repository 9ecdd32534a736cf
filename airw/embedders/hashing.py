"""An embedder without a model: feature hashing of words and word pairs.

Each distinct word and pair of neighbouring words adds `±(1 + ln count)` to one of `dim` cells; cell and sign come from
its hash (Weinberger, Dasgupta, Langford, Smola and Attenberg, "Feature Hashing for Large Scale Multitask Learning",
ICML 2009). Grams that share a cell add up or cancel, so a cosine is exact only in expectation; its error shrinks with
`1 / sqrt(dim)`. The vectors know spelling, not meaning.

A slice of texts is hashed as one array of code points. The hash of a token is a polynomial in its code points modulo
2^64. Prefix sums over the whole slice give it for any token with two look-ups and one multiplication. Arithmetic modulo
2^64 is exact, so a hash does not depend on the token's place or neighbours. Vectors are exact too: weights are whole
multiples of 2^-16, so their sums are the same in any order.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
from anyio.lowlevel import checkpoint

from airw._base.arrays import Floats, NDArray
from airw._base.checks import check_choice, check_count, check_texts
from airw._base.concurrency import in_thread
from airw._base.folding import UNSPACED, fold
from airw.errors import EmbedderError

Hashes = NDArray[np.uint64]

_SLICE_CHARS = 1 << 16  # about 1.5 ms of work and 4 MB of arrays
_SLICE_TEXTS = 1 << 12  # 12 bits of a key are the position of a text in its slice, the other 52 a gram's hash
_SLICE_CELLS = 1 << 19  # rows times dim: 4 MB, which fit into the cache of the CPU
_MOST_CODES = 3 * _SLICE_CHARS  # of a slice: spaces stand around letters that are words alone
_INLINE_CHARS = 1 << 12  # hashing fewer characters takes less time than reaching a worker thread
_HASH_BITS = np.uint64(52)
_GRID = 1 << 16

_BASE = 0x5851F42D4C957F2D  # any large odd number; odd numbers have an inverse modulo 2^64
_PAIR = np.uint64(0x9E3779B97F4A7C15)

Version: TypeAlias = Literal["v1", "v2"]
"""The rules by which texts become words. Vectors of different ones cannot be compared."""

# In the first version, only these are words alone.
_HAN_KANA = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"


@dataclass(frozen=True, slots=True)
class HashingEmbedder:
    """An embedder that hashes words and pairs of words.

    It needs no model and no download, and its vectors are the same everywhere. Letters that look alike are one letter,
    as in a lexical search, and each letter of a script without spaces is a word. The vector of a text depends only on
    the text, not on other texts, the process or the platform. A text without words has the zero vector.

    Args:
        dim: The width of the vectors. In wider vectors, fewer grams share a cell.
        version: `"v1"` makes the vectors of corpora of the first edition, to which letters with an accent are others.

    Raises:
        ArgumentError: If `dim` is not a whole number of at least 1, or there is no such version.

    Example:
        >>> import anyio
        >>> embedder = HashingEmbedder()
        >>> vectors = anyio.run(embedder.embed_documents, ["Bake the bread", "bake THE bread!", "rotate keys"])
        >>> vectors.shape, (vectors @ vectors[0]).round(2).tolist()
        ((3, 512), [1.0, 1.0, 0.0])
    """

    dim: int = 512
    version: Version = field(default="v2", kw_only=True)

    def __post_init__(self) -> None:
        """Check the width and the version."""
        check_count("dim", self.dim, least=1)
        check_choice("version", self.version, ("v1", "v2"))

    @property
    def id(self) -> str:
        """Return the name of the hash function and the width: `hashing-v2-512`."""
        return f"hashing-{self.version}-{self.dim}"

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return `(len(texts), dim) float32` rows, unit or zero, in the order of the texts.

        A worker thread does the work, in slices of about 1.5 ms; a longer text is a slice of its own. Cancellation
        takes effect between slices.

        Raises:
            EmbedderError: If `texts` is one string, or contains a value that is not a string.
        """
        checked = check_texts(texts, of=self.id, error=EmbedderError)
        rows = np.zeros((len(checked), self.dim), np.float32)
        for start, stop in _slices(checked, self.dim):
            part = checked[start:stop]
            if sum(map(len, part)) <= _INLINE_CHARS:
                await checkpoint()
                rows[start:stop] = _embed(part, self.dim, self.version)
            else:
                rows[start:stop] = await in_thread(_embed, part, self.dim, self.version)
        return rows

    async def embed_query(self, text: str) -> Floats:
        """Return `(dim,) float32`, the same vector as for the text as a document."""
        row: Floats = (await self.embed_documents([text]))[0]
        return row


def _slices(texts: list[str], dim: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of slices of bounded size, with at least one text each."""
    most = max(1, min(_SLICE_TEXTS, _SLICE_CELLS // dim))
    start = size = 0
    for position, text in enumerate(texts):
        if position > start and (position - start == most or size + len(text) > _SLICE_CHARS):
            yield start, position
            start, size = position, 0
        size += len(text)
    if texts:
        yield start, len(texts)


def _embed(texts: list[str], dim: int, version: Version) -> Floats:
    """Return the rows of one slice."""
    keys = _gram_keys(*_token_hashes(texts, version))
    rows = np.zeros((len(texts), dim), np.float32)
    if not keys.size:
        return rows
    # Count equal grams of a text: sorted, they are neighbours, so each run of equal keys is one gram.
    keys.sort()
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    counts = np.diff(first, append=keys.size)
    # The weight of a gram grows with the logarithm of its count, so that repetition does not hide other words.
    weights = np.rint((1 + np.log(np.arange(1, counts.max() + 1))) * _GRID)[counts - 1]
    # The hash chooses cell and sign; random signs make grams in one cell cancel on average (Weinberger et al.).
    grams = keys[first]
    hashes = grams & np.uint64((1 << int(_HASH_BITS)) - 1)
    cells = (grams >> _HASH_BITS) * np.uint64(dim) + (hashes >> np.uint64(1)) % np.uint64(dim)
    signed = np.where(hashes & np.uint64(1), weights, -weights)
    sums = np.bincount(cells.view(np.int64), signed, len(texts) * dim).reshape(len(texts), dim)
    # Scale the rows to length one; zero rows stay zero.
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    lengths[lengths == 0] = 1
    np.divide(sums, lengths[:, None], out=rows, casting="same_kind")
    return rows


def _gram_keys(tokens: Hashes, rows: Hashes) -> Hashes:
    """Return a key for each word and each pair of neighbouring words of a text.

    The upper 12 bits of a key are the row of the text, the lower 52 bits the hash of the gram.
    """
    # Neighbours in the array are a pair only within one text.
    paired = rows[1:] == rows[:-1]
    pairs = _mix_bits((tokens[:-1] * _PAIR + tokens[1:])[paired])
    grams = np.concatenate([tokens, pairs])
    return np.concatenate([rows, rows[1:][paired]]) << _HASH_BITS | grams >> (np.uint64(64) - _HASH_BITS)


def _token_hashes(texts: list[str], version: Version) -> tuple[Hashes, Hashes]:
    """Return the hash of every token in order, and the position of the text that contains it."""
    # One array of code points for all texts, each ended by a line break, which no token contains.
    spell, letters = _RULES[version]
    spelt = [text.lower() if text.isascii() else spell(text) for text in texts]
    codes = np.frombuffer("\n".join([*spelt, ""]).encode("utf-32-le"), "<u4")
    # All characters that are not ASCII have the last place in the table of letters.
    places = np.minimum(codes, 128).astype(np.uint8).tobytes()
    is_letter = np.frombuffer(places.translate(letters), np.bool_)
    edges = np.flatnonzero(np.diff(is_letter, prepend=False))
    starts, stops = edges[::2], edges[1::2]
    # Prefix sums give the polynomial of a token, times a power of the base; the inverse of this power removes it.
    powers, inverses = _powers(_MOST_CODES) if len(codes) <= _MOST_CODES else _powers.__wrapped__(len(codes))
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(codes * powers[: len(codes)], out=sums[1:])
    hashes = _mix_bits((sums[stops] - sums[starts]) * inverses[starts])
    # Tokens are in order, so counting those before the end of each text gives the text of each token.
    ends = np.cumsum([len(text) + 1 for text in spelt])
    rows = np.repeat(np.arange(len(texts), dtype=np.uint64), np.diff(np.searchsorted(starts, ends), prepend=0))
    return hashes, rows


def _spell(text: str) -> str:
    return _set_apart(UNSPACED, fold(text))


def _spell_as_first(text: str) -> str:
    """Return a text in lower case (NFKC), without signs, and with spaces around Han and kana."""
    spelt = _set_apart(f"[{_HAN_KANA}]", unicodedata.normalize("NFKC", text).lower())
    other = f"[^\\w\x00-\x7f{_HAN_KANA}]"
    spelt = re.sub(other, lambda sign: sign[0] if unicodedata.category(sign[0]).startswith("M") else " ", spelt)
    # What is left of the others are marks. Those on no letter are no words.
    return re.sub(f"(^|[\x00-\x7f](?<!\\w)){other}+", r"\1 ", spelt)


def _set_apart(letters: str, text: str) -> str:
    """Return a text with spaces around each of these letters."""
    return re.sub(f"{letters}+", lambda run: f" {' '.join(run[0])} ", text)


def _letters(*more: str) -> bytes:
    return bytes(chr(code).isalnum() or chr(code) in more for code in range(128)) + b"\1" * 128


_RULES: Mapping[Version, tuple[Callable[[str], str], bytes]] = {
    "v1": (_spell_as_first, _letters("_")),
    "v2": (_spell, _letters()),
}
"""How a text is spelt that is not ASCII, and which characters of ASCII are letters then."""


@cache
def _powers(count: int) -> tuple[Hashes, Hashes]:
    """Return the first powers of the base modulo 2^64, and their inverses."""

    def powers_of(base: int) -> Hashes:
        factors = np.full(count, base, np.uint64)
        factors[0] = 1
        return np.multiply.accumulate(factors)

    return powers_of(_BASE), powers_of(pow(_BASE, -1, 1 << 64))


def _mix_bits(hashes: Hashes) -> Hashes:
    """Spread every bit over all bits, by the finalizer of MurmurHash3 (Austin Appleby)."""
    mixed = hashes ^ (hashes >> np.uint64(33))
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    mixed ^= mixed >> np.uint64(33)
    return mixed
