"""How texts and queries become the words that a lexical search compares."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from airw._base.messages import short_repr
from airw._base.tokens import Tokenizer, prepare_query, prepare_text
from airw.errors import ArgumentError

Language: TypeAlias = Literal["en"]
"""A language whose words are stemmed, and whose stop words do not count in queries."""

LANGUAGES: tuple[Language, ...] = ("en",)

_FUNCTION_WORDS = {
    "before nouns": "a an the this that these those some any all each both such other same own few more most",
    "pronouns": """
        i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
        herself it its itself they them their theirs themselves there""",
    "questions": "what which who whom whose when where why how",
    "auxiliary verbs": """
        am is are was were be been being do does did doing have has had having can could will would shall should may
        might must""",
    "conjunctions": "and or but nor if because as until while than then so whether",
    "prepositions": """
        of at by for with about against between into through during before after above below to from up down in out on
        off over under""",
    "adverbs": "again further once here no not only just too very also now",
    # Of "don't", "they've" and the like; the single letters are left out as such.
    "ends of contractions": """
        ll ve re ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren won
        wouldn""",
}
_STOP_WORDS = frozenset(" ".join(_FUNCTION_WORDS.values()).split())


@dataclass(frozen=True, slots=True)
class Analyser:
    """The way in which a corpus splits texts and queries into words.

    All stores and policies use the same one, so that they agree on which words a text contains. Words are cut as by the
    tokenizer `unicode61` of SQLite. Letters of scripts without spaces, as in Chinese, Japanese or Thai, and of Korean,
    are words alone and in pairs.

    Args:
        language: `"en"`: words are stemmed by Porter's algorithm, and stop words and single letters do not count in
            queries. `None`: words stay as they are, and all count.

    Raises:
        ArgumentError: If there is no such language.

    Example:
        >>> Analyser("en").terms("Rotating the KEYS")
        ['rotat', 'the', 'kei']
        >>> Analyser("en").query_terms(["How do I rotate the keys?", "To be or not to be"])
        [{'kei': 1, 'rotat': 1}, {'be': 2, 'not': 1, 'or': 1, 'to': 2}]
    """

    language: Language | None = "en"

    def __post_init__(self) -> None:
        """Check the language."""
        check_language(self.language)

    def terms(self, text: str) -> list[str]:
        """Return all words of a text as an index contains them, in their order.

        Stop words are among them: an index contains all words.

        Example:
            >>> Analyser(None).terms("An ox, an axe")
            ['an', 'ox', 'an', 'axe']
        """
        return self.split([text])[0]

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """Return what `terms` returns for each text, in less time.

        Example:
            >>> Analyser().split(["signed keys", "東京"])
            [['sign', 'kei'], ['東', '京', '東京']]
        """
        return _find_tokenizer(self.tokenizer).split([prepare_text(text) for text in texts])

    def count(self, text: str) -> int:
        """Return the number of words of a text, by which BM25 measures its length.

        It is that of `terms`, but for a word of more than 32,768 bytes. It counts even if its cut end makes it a word
        that no query can match.

        Example:
            >>> Analyser("en").count("An ox, an axe")
            4
        """
        return _find_tokenizer(self.tokenizer).count(prepare_text(text))

    def query_terms(self, queries: Sequence[str]) -> list[dict[str, int]]:
        """Return the words of each query that count, and how often it has each.

        They are in alphabetic order. A query of nothing but stop words keeps them all.

        Example:
            >>> Analyser(None).query_terms(["Rotate the KEYS, re-rotate!", "?!", "東京都"])
            [{'keys': 1, 're': 1, 'rotate': 2, 'the': 1}, {}, {'京都': 1, '東京': 1}]
        """
        # Cut first, and stem what is left: the stop words are whole words.
        words_by_query = _find_tokenizer("unicode61").split([prepare_query(query) for query in queries])
        if self.language is not None:
            words_by_query = [[word for word in words if not _is_stop_word(word)] or words for words in words_by_query]
            stems = _find_tokenizer(self.tokenizer).find(word for words in words_by_query for word in words)
            words_by_query = [[stem for word in words for stem in stems[word]] for words in words_by_query]
        return [dict(sorted(Counter(words).items())) for words in words_by_query]

    @property
    def tokenizer(self) -> Literal["unicode61", "porter unicode61"]:
        """Return the name of the tokenizer of FTS5 that an index needs."""
        return "unicode61" if self.language is None else "porter unicode61"


def check_language(language: object) -> Language | None:
    """Return a language if texts can be analysed for it.

    Raises:
        ArgumentError: If they cannot.

    Example:
        >>> check_language("en"), check_language(None)
        ('en', None)
    """
    for known in (*LANGUAGES, None):
        if language == known and type(language) is type(known):
            return known
    known_values = ", ".join(map(repr, LANGUAGES))
    raise ArgumentError(f"language must be {known_values}, or None for words as they are, not {short_repr(language)}")


def _is_stop_word(word: str) -> bool:
    return word in _STOP_WORDS or (len(word) == 1 and word.isascii() and word.isalpha())


@cache
def _find_tokenizer(name: Literal["unicode61", "porter unicode61"]) -> Tokenizer:
    return Tokenizer(name)
