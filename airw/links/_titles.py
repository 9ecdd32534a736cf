"""What notes are called, and how common the words of that are."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from airw._base.arrays import NDArray
from airw._base.frontmatter import note_title, read_frontmatter
from airw.errors import SourceError
from airw.links._note_names import fold, listed, scalar
from airw.values import Artifact

_WORD = re.compile(r"\w+")
_EDGE = re.compile(r"\b")
_EMPHASIS = re.compile(r"(?<!\w)_+|_+(?!\w)")
_SPACES = re.compile(r"[^\S \n]+|  +")
_CELLS = 1 << 20


def folded(text: str) -> str:
    """Fold case, composition and white space, and drop underscores around words; lines stay lines."""
    text = _SPACES.sub(" ", text.lower() if text.isascii() else fold(text))
    text = _EMPHASIS.sub("", text) if "_" in text else text
    return text.replace(" \n", "\n").replace("\n ", "\n")


def edged(text: str) -> str:
    r"""Mark where words begin and end, so that one text is found in another only as whole words.

    Example:
        >>> edged("c++ (17)")
        '\x01c\x01++ (\x0117\x01)'
    """
    return _EDGE.sub("\1", text)


def text_of(artifact: Artifact) -> str:
    """Give the text of a note.

    Raises:
        SourceError: The raw value is neither a string nor a mapping with a string `text`.
    """
    raw = artifact.raw.get("text") if isinstance(artifact.raw, Mapping) else artifact.raw
    if isinstance(raw, str):
        return raw
    given = type(artifact.raw).__name__
    raise SourceError(f"mentions are looked for in a string or a mapping with `text`; {artifact.id!r} is a {given}")


def titles_of(artifact: Artifact, text: str) -> Iterator[str]:
    """Give the title and the aliases of a note, folded; those without a letter or digit are left out."""
    front = read_frontmatter(text)
    declared = {**artifact.metadata, **front.fields}
    title = note_title(artifact.id, declared, text, front.body)
    for name in (title, *map(scalar, listed(declared.get("aliases")))):
        if _WORD.search(called := " ".join(folded(name or "").split())):
            yield called


class WordCounts:
    """Counts in how many texts each word is, in 8 MB whatever the vocabulary and whatever the order of the texts.

    A count is never too low. It is too high where the words that share its two cells, as few do, are in more texts.
    """

    def __init__(self) -> None:
        self.texts = 0
        self._counts = np.zeros((2, _CELLS), np.uint32)

    def add(self, text: str) -> None:
        """Count the words of a folded text."""
        self.texts += 1
        for row, cells in zip(self._counts, _cells(list(set(_WORD.findall(text)))), strict=True):
            row[np.unique(cells)] += np.uint32(1)

    def share(self, title: str) -> float:
        """Give the share of texts that would hold all words of a folded title if each word came by itself."""
        rows = zip(self._counts, _cells(sorted(set(_WORD.findall(title)))), strict=True)
        return float(np.prod(np.min([row[cells] for row, cells in rows], axis=0) / self.texts))


def _cells(words: Sequence[str]) -> NDArray[Any]:
    """Give the cell of each word in either row."""
    hashes = np.array([crc32(word.encode("utf-8", "surrogatepass")) for word in words], np.uint32)
    return np.stack([hashes % _CELLS, hashes >> 12])
