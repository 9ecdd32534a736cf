"""How texts and queries become the words that a lexical search compares."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from airw._base.folding import UNSPACED, fold, space
from airw._base.messages import short_repr
from airw._base.tokens import WORD_LETTER, Tokenizer
from airw.errors import ArgumentError

Language: TypeAlias = Literal["en", "en-unicode61", "unicode61"]
"""A language whose words are stemmed, and whose stop words do not count in queries.

Corpora of the first edition cut words by the rules of SQLite, and keep that: in English as `"en-unicode61"`, and
without a language as `"unicode61"`.
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
    # Of "don't", "they've" and the like; single letters after an apostrophe are left out as such.
    "ends of contractions": """
        ll ve re ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren won
        wouldn""",
}
_STOP_WORDS = frozenset(" ".join(_FUNCTION_WORDS.values()).split())
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
# Letters that are no words: the ends of "what's" and "I'd", and those of "e.g." and "J. R. Smith".
_PARTS_OF_WORDS = "(?<=\\w)['\u2019\u02bc\uff07]\\w\\b|\\b[^\\W\\d_]\\.(?=\\s*\\S)|(?<=\\.)[^\\W\\d_]\\b"
_LONGEST_WORD = 1 << 13  # characters: FTS5 indexes 32,768 bytes of a word


@dataclass(frozen=True, slots=True)
class Analyser:
    """The way in which a corpus splits texts and queries into words.

    All stores and policies use the same one, so that they agree on which words a text contains. Words are runs of
    letters and digits. Letters that look alike are one letter: case, width, ligatures, soft hyphens, strokes, and the
    marks of Latin, Greek and Cyrillic make no difference. The marks of other scripts belong to their word, but vowel
    signs of Hebrew and Arabic, which few texts have, do not count. Letters of scripts without spaces, as in Chinese,
    Japanese or Thai, and of Korean, are words alone and in pairs.

    Args:
        language: `"en"`: words are stemmed by Porter's algorithm, and in queries neither stop words count nor the end
            of "what's". `None`: words stay as they are, and all count. `"en-unicode61"` and `"unicode61"`: the same in
            corpora of the first edition, where marks cut words, and single letters do not count in English.

    Raises:
        ArgumentError: If there is no such language.

    Example:
        >>> Analyser("en").terms("Rotating the KEYS")
        ['rotat', 'the', 'kei']
        >>> Analyser("en").query_terms(["How do I rotate the keys?", "To be or not to be"])
        [{'kei': 1, 'rotat': 1}, {'be': 2, 'not': 1, 'or': 1, 'to': 2}]
        >>> Analyser(None).terms("किताब in Köln"), Analyser("unicode61").terms("किताब")
        (['किताब', 'in', 'koln'], ['क', 'त', 'ब'])
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

    def cut(self, texts: Sequence[str]) -> list[list[str]]:
        """Return all words of each text, without stems.

        Example:
            >>> Analyser().cut(["signed keys"])
            [['signed', 'keys']]
        """
        return _find_tokenizer(self._cutter).split([self.prepare(text) for text in texts])

    def phrases(self, term: str) -> list[str]:
        """Return the words that follow each other in a text that contains a term.

        They are joined by spaces. There are several lists if unspaced letters stand beside other words, as an index has
        the pairs of such letters behind the letters.

        Example:
            >>> Analyser().phrases("Signing-keys"), Analyser().phrases("the 東京都 map")
            (['signing keys'], ['the', '東京 京都', 'map'])
        """
        parts = [self._prepare(part, letters=False) for part in re.split(f"({UNSPACED}+)", self._spell(term))]
        return [" ".join(words) for words in _find_tokenizer(self._cutter).split(parts) if words]

    def stem(self, phrase: str) -> list[str]:
        """Return the words of a phrase, one of `phrases`, as an index contains them.

        Example:
            >>> Analyser().stem("signing keys")
            ['sign', 'kei']
        """
        return _find_tokenizer(self.tokenizer).split([phrase])[0]

    def list_stems(self, beginning: str) -> list[str]:
        """Return stems that do not tell whether their words begin so.

        A stem may be shorter than the beginning, or end otherwise: "happi" of "happy", "capabl" of "capability", "give"
        of "giving". All other words that begin so have stems which do.

        Example:
            >>> Analyser().list_stems("gi"), Analyser().list_stems("hap"), Analyser(None).list_stems("hap")
            (['gi'], ['ha', 'hai', 'hae'], [])
        """
        if not self.stems:
            return []
        ends = range(2, len(beginning))
        stems = [beginning[:end] + last for end in ends for last in ("", "i", "e")]
        stems += [f"{beginning[:end]}l" for end in ends if beginning[end - 1 : end + 1] == "bi"]
        stems = [stem for stem in stems if not stem.startswith(beginning) and stem not in _STOP_WORDS]
        return [*stems, beginning] if beginning.endswith(("i", "e", "l")) else stems

    def query_terms(self, queries: Sequence[str]) -> list[dict[str, int]]:
        """Return the words of each query that count, and how often it has each.

        They are in alphabetic order. A query of nothing but stop words keeps them all.

        Example:
            >>> Analyser(None).query_terms(["Rotate the KEYS, re-rotate!", "?!", "東京都"])
            [{'keys': 1, 're': 1, 'rotate': 2, 'the': 1}, {}, {'京都': 1, '東京': 1}]
        """
        counted = list[dict[str, int]]()
        for given in queries:
            query = given
            if self.folds and self.stems:
                whole = unicodedata.normalize("NFC", given)
                shorter = re.sub(_PARTS_OF_WORDS, " ", whole)
                # A query of nothing but such parts, as "U.S.", keeps them all.
                query = shorter if shorter == whole or self.cut([shorter])[0] else whole
            # Cut first, and stem what is left: the stop words are whole words.
            [words] = _find_tokenizer(self._cutter).split([self._prepare(query, letters=False)])
            if self.stems:
                stop_words = _STOP_WORDS if self.folds else _STOP_WORDS | _LETTERS
                words = [word for word in words if word not in stop_words] or words
                stems = _find_tokenizer(self.tokenizer).find(words)
                words = [stem for word in words for stem in stems[word]]
            # In corpora of the first edition, the index cuts a very long word inside a character: it matches no query.
            counted.append(dict(sorted(Counter(word for word in words if "\ufffd" not in word).items())))
        return counted

    def prepare(self, text: str) -> str:
        """Return a text in the form in which the tokenizer cuts it.

        Example:
            >>> Analyser().prepare("東京 keys")
            ' 東 京 東京  keys'
        """
        return self._prepare(text, letters=True)

    def _prepare(self, text: str, *, letters: bool) -> str:
        spelt = self._spell(text)
        if not spelt.isascii():
            spelt = space(spelt, letters=letters)
        if self.folds and len(spelt) > _LONGEST_WORD and max(map(len, spelt.split()), default=0) > _LONGEST_WORD:
            spelt = re.sub(f"{WORD_LETTER}{{{_LONGEST_WORD}}}", r"\g<0> ", spelt)
        return spelt

    def _spell(self, text: str) -> str:
        return fold(text) if self.folds else unicodedata.normalize("NFC", text)

    @property
    def stems(self) -> bool:
        """Return whether words are stemmed, and stop words do not count in queries."""
        return self.language in ("en", "en-unicode61")

    @property
    def folds(self) -> bool:
        """Return whether letters that look alike are one letter."""
        return self.language not in EARLIER_LANGUAGES

    @property
    def tokenizer(self) -> str:
        """Return the name of the tokenizer of FTS5 that an index needs."""
        return f"porter {self._cutter}" if self.stems else self._cutter

    @property
    def _cutter(self) -> str:
        return "ascii" if self.folds else "unicode61"


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


@cache
def _find_tokenizer(name: str) -> Tokenizer:
    return Tokenizer(name)
