"""The words of prepared texts, as SQLite's full-text search cuts and stems them.

Its tokenizer `ascii` cuts a text at the characters of ASCII but letters and digits; `unicode61`, in corpora of the
first edition, at all characters but letters and digits. `porter` then stems the words
([Porter, 1980](https://tartarus.org/martin/PorterStemmer/)). SQLite itself does all but the first here, in a table in
memory, so that the words are those of an index.
"""

import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

WORD_LETTER = "[a-z0-9\x80-\U0010ffff]"
"""What the tokenizer `ascii` takes for a part of a word, in a text without upper case."""

_MAX_KNOWN = 1 << 21  # bytes, roughly, of parts of texts whose words are remembered
_PART = 8  # of them for each part, and one for each letter


class Tokenizer:
    """Cuts prepared texts into words; several threads may use it.

    The words of parts are remembered, since most of them come again.

    Args:
        name: The tokenizer of FTS5.

    Example:
        >>> Tokenizer("porter ascii").split(["rotating the keys"])
        [['rotat', 'the', 'kei']]
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[str, Sequence[str]] = {}  # it only grows; a full one is replaced, but not for its users
        self._size = 0
        # One call at a time uses a connection. So a short call, perhaps of an event loop, never waits for a long one.
        self._idle: list[sqlite3.Connection] = []  # `pop` and `append` need no lock
        weakref.finalize(self, _close_all, self._idle)

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """Return all words of each prepared text, in their order."""
        part = f"{WORD_LETTER}+" if self._name.endswith("ascii") else r"\S+"
        parts_by_text = [re.findall(part, text) for text in texts]
        if self._name == "ascii":
            return parts_by_text
        words = self.find(chain.from_iterable(parts_by_text))
        return [[word for part in parts for word in words[part]] for parts in parts_by_text]

    def find(self, parts: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Return the words of each part, and perhaps of others.

        A part is a word, or any text without spaces.
        """
        known = self._known
        missing = [part for part in dict.fromkeys(parts) if part not in known]
        if missing:
            known.update(zip(missing, self._tokenize(missing), strict=True))
            self._size += sum(map(len, missing)) + _PART * len(missing)
            if self._size > _MAX_KNOWN:
                self._known, self._size = {}, 0
        return known

    def _tokenize(self, parts: Sequence[str]) -> list[Sequence[str]]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        words: list[list[str]] = [[] for _ in parts]
        connection.execute("BEGIN")
        try:
            rows = ((row, part.encode(errors="replace").decode()) for row, part in enumerate(parts))
            connection.executemany("INSERT INTO piece (rowid, text) VALUES (?, ?)", rows)
            for row, word in connection.execute("SELECT doc, term FROM word ORDER BY doc, offset"):
                words[row].append(word)
        finally:
            connection.execute("ROLLBACK")
            self._idle.append(connection)
        return list(map(tuple, words))

    def _connect(self) -> "sqlite3.Connection":
        import sqlite3

        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.text_factory = lambda data: data.decode(errors="replace")
        connection.execute(f"CREATE VIRTUAL TABLE piece USING fts5 (text, content='', tokenize='{self._name}')")
        connection.execute("CREATE VIRTUAL TABLE word USING fts5vocab (piece, instance)")
        return connection


def _close_all(connections: "list[sqlite3.Connection]") -> None:
    while connections:
        connections.pop().close()
