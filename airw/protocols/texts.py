"""What a store can do with words: rank texts, count words, and know their language."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from airw.values import Language, Ranking, TermCounts
from airw.values.filters import Filter


class TextSearch(Protocol):
    """Ranks records by BM25."""

    async def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Return, per query, the `k` best records that contain at least one of its words.

        This is the lexical channel of a search; scores are BM25. Parameters and order are those of `search_vectors`.
        `airw.values.Analyser` splits texts and queries into words. A word that a query has several times counts as
        often. Word statistics are those of the whole corpus, regardless of the filter, and all scores are positive. A
        query without words has an empty ranking.
        """
        ...


@runtime_checkable
class TermStatistics(TextSearch, Protocol):
    """Ranks records by BM25 with the word counts of several corpora.

    If all corpora of a discovery have this capability and one language, they rank texts as one corpus with all their
    records would. It asks each for its counts, adds them with `TermCounts.sum`, and passes the sum to each search.

    Example:
        >>> import anyio
        >>> from airw.stores import MemoryStore
        >>> from airw.testing.changes import put
        >>> from airw.values import TermCounts
        >>> async def main():
        ...     async with MemoryStore() as one, MemoryStore() as two:
        ...         await one.apply([put("a", "rotate the keys"), put("b", "the weather")])
        ...         await two.apply([put("c", "keys, keys and keys")])
        ...         pooled = TermCounts.sum([await store.term_statistics(["keys"]) for store in (one, two)])
        ...         rankings = [await store.search_text(["keys"], 10, statistics=pooled) for store in (one, two)]
        ...         return pooled.frequencies, [ranking.artifact_ids for [ranking] in rankings]
        >>> anyio.run(main)
        ({'kei': 2}, [['a'], ['c']])
    """

    async def term_statistics(self, queries: Sequence[str]) -> TermCounts:
        """Return the counts behind the BM25 scores of these queries, for the whole corpus.

        They are the same for any filter and any surfaces. A word that no record contains has a frequency of 0. Words
        that do not count, such as stop words, have none. The `analyser` of the counts splits other texts likewise.
        """
        ...

    async def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
        statistics: TermCounts | None = None,
    ) -> list[Ranking]:
        """Return, per query, the `k` best records that contain at least one of its words.

        Scores computed with the counts of several stores equal, to the last bit, those of one store with all records.

        Args:
            queries: The queries, in plain words.
            k: The largest number of results per query.
            filter: A condition on the metadata of records.
            surfaces: The surface kinds to search; `None` for all.
            per_artifact: Whether to rank artifacts, each by its best record.
            statistics: The counts to compute scores with; `None` for those of this store.

        Raises:
            ArgumentError: If the statistics are of another formula, or lack a word of the queries.
        """
        ...


@runtime_checkable
class LanguageKeeper(Protocol):
    """Knows the language of its texts, and can index them for another one.

    Example:
        >>> import anyio
        >>> from airw.stores import MemoryStore
        >>> from airw.testing.changes import put
        >>> async def main():
        ...     async with MemoryStore(language=None) as store:
        ...         await store.apply([put("a", "signing keys")])
        ...         before = await store.search_text(["sign the key"], 10)
        ...         await store.set_language("en")
        ...         after = await store.search_text(["sign the key"], 10)
        ...         return [ranking.artifact_ids for ranking in (*before, *after)]
        >>> anyio.run(main)
        [[], ['a']]
    """

    async def language(self) -> Language | None:
        """Return the language of the texts; `None` for words as they are."""
        ...

    async def set_language(self, language: Language | None) -> None:
        """Index all texts again for a language, unless it is the present one.

        Vectors and links stay as they are. Others who read the corpus see it at their next call.

        Raises:
            ArgumentError: If there is no such language.
            StoreError: If the texts cannot be stored.
        """
        ...
