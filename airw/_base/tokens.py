"""The words of texts, as the tokenizers of SQLite's full-text search cut and stem them.

`unicode61` cuts a text at all characters but letters, digits and perhaps marks, folds case, and drops the diacritics of
Latin. `porter` then stems the words ([Porter, 1980](https://tartarus.org/martin/PorterStemmer/)). SQLite itself does
both here, in a table in memory, so that the words are those of an index in any script.
"""

import re
import unicodedata
import weakref
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from airw._base.unspaced import space_query, space_text

if TYPE_CHECKING:
    import sqlite3

WITH_MARKS = "unicode61 categories 'L* N* Co Mn Mc'"
"""The tokenizer of FTS5 to which the vowel signs of Hindi or Tamil are parts of words, as letters are."""

# Signs that only some writers add to a word: vowels and accents in Hebrew and Arabic, and the stretching of letters.
# And those that choose between forms of one character, such as a colourful heart.
_OPTIONAL = (
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    "\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_WORD = re.compile("[a-z0-9]+")
_MAX_TOKEN = 32_768  # FTS5 indexes only this many bytes of a word
_MAX_KNOWN = 1 << 17  # parts of texts whose words are remembered
_LONGEST_KNOWN = 64  # letters of such a part


def prepare_text(text: str, *, keeps_marks: bool) -> str:
    """Return a text to index: composed (NFC), and with runs of unspaced letters cut.

    FTS5 would cut a word before a combining mark, unless the tokenizer is `WITH_MARKS`.

    Args:
        text: The text.
        keeps_marks: Whether that is the tokenizer. Marks that not everybody writes are then left out.

    Example:
        >>> prepare_text("東京 keys", keeps_marks=True)
        ' 東 京 東京  keys'
    """
    return text if text.isascii() else space_text(_compose(text, keeps_marks=keeps_marks))


def prepare_query(text: str, *, keeps_marks: bool) -> str:
    """Return a query in the form in which texts are indexed.

    Example:
        >>> prepare_query("東京 keys", keeps_marks=True)
        ' 東京  keys'
    """
    return text if text.isascii() else space_query(_compose(text, keeps_marks=keeps_marks))


def _compose(text: str, *, keeps_marks: bool) -> str:
    composed = unicodedata.normalize("NFC", text)
    return re.sub(_OPTIONAL, "", composed) if keeps_marks else composed


class Tokenizer:
    """Cuts prepared texts into words; several threads may use it.

    The words of short parts are remembered, since most of them come again.

    Args:
        name: The tokenizer of FTS5.

    Example:
        >>> Tokenizer("porter unicode61").split(["Rotating the KEYS"])
        [['rotat', 'the', 'kei']]
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._stems = name.startswith("porter")
        self._known: dict[str, Sequence[str]] = {}  # it only grows; a full one is replaced
        # One call at a time uses a connection. So a short call, perhaps of an event loop, never waits for a long one.
        self._idle: list[sqlite3.Connection] = []  # `pop` and `append` need no lock
        weakref.finalize(self, _close_all, self._idle)

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """Return all words of each prepared text, in their order."""
        # For plain ASCII without stems, a regular expression has the same result as FTS5.
        if not self._stems and all(map(str.isascii, texts)):
            return [_find_words(text) for text in texts]
        parts_by_text = [_cut(text) for text in texts]
        words = self.find(chain.from_iterable(parts_by_text))
        return [[word for part in parts for word in words[part]] for parts in parts_by_text]

    def find(self, parts: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Return the words of each part, and perhaps of others.

        A part is a word, or any text without spaces.
        """
        # Another thread may replace what is known, but never empties it.
        known = self._known
        missing = [part for part in dict.fromkeys(parts) if part not in known]
        if not missing:
            return known
        found = dict(zip(missing, self._tokenize(missing), strict=True))
        if len(known) > _MAX_KNOWN:
            self._known = {}
        self._known.update(item for item in found.items() if len(item[0]) <= _LONGEST_KNOWN)
        is_complete = self._known is known and len(max(missing, key=len)) <= _LONGEST_KNOWN
        return known if is_complete else ChainMap(found, known)  # without a copy of all that is known

    def count(self, text: str) -> int:
        """Return the number of words of a prepared text in an index of FTS5.

        Among them are those that `split` leaves out: very long ones, which FTS5 cuts inside a character.
        """
        with self._index([text]) as connection:
            (count,) = connection.execute("SELECT count(*) FROM word").fetchone()
        return int(count)

    def _tokenize(self, parts: Sequence[str]) -> list[Sequence[str]]:
        if not self._stems and all(map(str.isascii, parts)):
            return [_find_words(part) for part in parts]
        words: list[list[str]] = [[] for _ in parts]
        with self._index(parts) as connection:
            for row, word in connection.execute("SELECT doc, term FROM word ORDER BY doc, offset"):
                if "\ufffd" not in word:  # else FTS5 cut a long word inside a character, and no query can match it
                    words[row].append(word)
        return list(map(tuple, words))

    @contextmanager
    def _index(self, parts: Sequence[str]) -> "Iterator[sqlite3.Connection]":
        """Enter with the words of these parts, and of no others, in the table `word`."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        connection.execute("BEGIN")
        try:
            rows = ((row, part.encode(errors="replace").decode()) for row, part in enumerate(parts))
            connection.executemany("INSERT INTO piece (rowid, text) VALUES (?, ?)", rows)
            yield connection
        finally:
            connection.execute("ROLLBACK")
            self._idle.append(connection)

    def _connect(self) -> "sqlite3.Connection":
        import sqlite3

        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.text_factory = lambda data: data.decode(errors="replace")
        connection.execute(f"CREATE VIRTUAL TABLE piece USING fts5 (text, content='', tokenize=\"{self._name}\")")
        connection.execute("CREATE VIRTUAL TABLE word USING fts5vocab (piece, instance)")
        return connection


def _close_all(connections: "list[sqlite3.Connection]") -> None:
    while connections:
        connections.pop().close()


def _find_words(text: str) -> list[str]:
    return [word[:_MAX_TOKEN] for word in _WORD.findall(text.lower())]


def _cut(text: str) -> list[str]:
    """Return the words of ASCII in a text, and its other parts between spaces."""
    if text.isascii():
        return _find_words(text)
    return [part for piece in text.split() for part in (_find_words(piece) if piece.isascii() else (piece,))]
