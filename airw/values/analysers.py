"""How texts and queries become the words that a lexical search compares."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from airw._base.messages import short_repr
from airw._base.tokens import WITH_MARKS, Tokenizer, prepare_query, prepare_text
from airw.errors import ArgumentError

Language: TypeAlias = Literal["en", "en-unicode61", "unicode61"]
"""A language whose words are stemmed, and whose stop words do not count in queries.

Corpora of earlier versions cut words at combining marks, and keep that: in English as `"en-unicode61"`, and without a
language as `"unicode61"`.
"""

LANGUAGES: tuple[Language, ...] = ("en",)
EARLIER_LANGUAGES: tuple[Language, ...] = ("en-unicode61", "unicode61")

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
    tokenizer `unicode61` of SQLite, with their combining marks. Vowel signs of Hebrew and Arabic, which few texts have,
    do not count. Letters of scripts without spaces, as in Chinese, Japanese or Thai, and of Korean, are words alone and
    in pairs.

    Args:
        language: `"en"`: words are stemmed by Porter's algorithm, and stop words and single letters do not count in
            queries. `None`: words stay as they are, and all count. `"en-unicode61"` and `"unicode61"`: the same, but
            combining marks cut words, as in corpora of earlier versions.

    Raises:
        ArgumentError: If there is no such language.

    Example:
        >>> Analyser("en").terms("Rotating the KEYS")
        ['rotat', 'the', 'kei']
        >>> Analyser("en").query_terms(["How do I rotate the keys?", "To be or not to be"])
        [{'kei': 1, 'rotat': 1}, {'be': 2, 'not': 1, 'or': 1, 'to': 2}]
        >>> Analyser(None).terms("किताब"), Analyser("unicode61").terms("किताब")
        (['किताब'], ['क', 'त', 'ब'])
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
        return _find_tokenizer(self.tokenizer).split([self.prepare(text) for text in texts])

    def count(self, text: str) -> int:
        """Return the number of words of a text, by which BM25 measures its length.

        It is that of `terms`, but for a word of more than 32,768 bytes. It counts even if its cut end makes it a word
        that no query can match.

        Example:
            >>> Analyser("en").count("An ox, an axe")
            4
        """
        return _find_tokenizer(self.tokenizer).count(self.prepare(text))

    def query_terms(self, queries: Sequence[str]) -> list[dict[str, int]]:
        """Return the words of each query that count, and how often it has each.

        They are in alphabetic order. A query of nothing but stop words keeps them all.

        Example:
            >>> Analyser(None).query_terms(["Rotate the KEYS, re-rotate!", "?!", "東京都"])
            [{'keys': 1, 're': 1, 'rotate': 2, 'the': 1}, {}, {'京都': 1, '東京': 1}]
        """
        # Cut first, and stem what is left: the stop words are whole words.
        prepared = [prepare_query(query, keeps_marks=self.keeps_marks) for query in queries]
        words_by_query = _find_tokenizer(self._cutter).split(prepared)
        if self.stems:
            words_by_query = [[word for word in words if not _is_stop_word(word)] or words for words in words_by_query]
            stems = _find_tokenizer(self.tokenizer).find(word for words in words_by_query for word in words)
            words_by_query = [[stem for word in words for stem in stems[word]] for words in words_by_query]
        return [dict(sorted(Counter(words).items())) for words in words_by_query]

    def prepare(self, text: str) -> str:
        """Return a text in the form in which the tokenizer cuts it.

        Example:
            >>> Analyser().prepare("東京 keys")
            ' 東 京 東京  keys'
        """
        return prepare_text(text, keeps_marks=self.keeps_marks)

    @property
    def stems(self) -> bool:
        """Return whether words are stemmed, and stop words do not count in queries."""
        return self.language in ("en", "en-unicode61")

    @property
    def keeps_marks(self) -> bool:
        """Return whether combining marks are parts of words."""
        return self.language not in EARLIER_LANGUAGES

    @property
    def tokenizer(self) -> str:
        """Return the name of the tokenizer of FTS5 that an index needs."""
        return f"porter {self._cutter}" if self.stems else self._cutter

    @property
    def _cutter(self) -> str:
        return WITH_MARKS if self.keeps_marks else "unicode61"


def check_language(language: object) -> Language | None:
    """Return a language if texts can be analysed for it.

    Raises:
        ArgumentError: If they cannot.

    Example:
        >>> check_language("en"), check_language(None)
        ('en', None)
    """
    for known in (*LANGUAGES, *EARLIER_LANGUAGES, None):
        if language == known and type(language) is type(known):
            return known
    known_values = ", ".join(map(repr, LANGUAGES))
    raise ArgumentError(f"language must be {known_values}, or None for words as they are, not {short_repr(language)}")


def _is_stop_word(word: str) -> bool:
    return word in _STOP_WORDS or (len(word) == 1 and word.isascii() and word.isalpha())


@cache
def _find_tokenizer(name: str) -> Tokenizer:
    return Tokenizer(name)
