"""One spelling for letters that look alike, and words in scripts that have no spaces.

An index, and the embedder `"light"`, compare words letter by letter. So a text and a query are first spelt alike:
without case and without the differences between characters that a reader takes for the same.

A run of letters counts as one word. In Chinese, Japanese and Thai that is half a sentence, so that no query would match
it. Therefore such a run is indexed as its letters and all pairs of neighbouring letters. A query is split into pairs,
or is a single letter. Korean is treated alike, because its particles are joined to words.
"""

import re
import unicodedata
from contextlib import suppress
from itertools import pairwise

# Expressions are compiled at first use, since that takes a millisecond.
UNSPACED = (
    "["
    "\u0e01-\u0e4e\u0e80-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17d3"  # Burmese, Khmer
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Korean
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "]"
)
"""A letter of a script without spaces between words."""

_UNSEEN = (
    "["
    # The marks of Latin, Greek and Cyrillic.
    "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u2de0-\u2dff\ua66f-\ua67d\ua69e\ua69f"
    "\ufe20-\ufe2f"
    # Signs that only some writers add: vowels and accents in Hebrew and Arabic, and the stretching of letters.
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    # Where a word may be divided, which letters are joined, in which direction they run.
    "\u00ad\u061c\u180b-\u180f\u200c-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    # Those that choose between forms of one character, such as a colourful heart.
    "\ufe00-\ufe0f\U000e0100-\U000e01ef"
    "]"
)
"""What makes no difference to a word."""

# A letter with a stroke, hook or tail is named after the letter without.
_NAME_WITHOUT = "(LATIN|CYRILLIC) SMALL LETTER .*(?= WITH )"
_OTHERWISE = {
    "\u0131": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th",
    # An apostrophe ends a word, also the one that is written as a letter; and so does the sign of a trademark.
    "\u02bb": " ", "\u02bc": " ", "™": " ", "℠": " ",
}  # fmt: skip
_MAX_SPELLINGS = 1 << 15  # characters of which the spelling is remembered: more than any but Chinese texts have


class _Spellings(dict[int, str]):
    """How each character is spelt: in letters, as a space that ends a word, or not at all."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _MAX_SPELLINGS:
            self.clear()
        self[code] = spelling = _spell(chr(code))
        return spelling


_SPELLINGS = _Spellings()


def fold(text: str) -> str:
    """Return a text as words of letters, marks and digits in one spelling.

    All other characters are spaces, but those of ASCII stay. Case, width, ligatures, strokes through letters and
    characters without a width make no difference, nor do the marks of Latin, Greek and Cyrillic. Those of other
    scripts are parts of words.

    Example:
        >>> fold("Die Größe, ﬁxed"), fold("đường ở Huế · Ⅷ")
        ('die grosse, fixed', 'duong o hue   viii')
    """
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text.translate(_SPELLINGS))


def _spell(character: str) -> str:
    category = unicodedata.category(character)
    if re.match(_UNSEEN, character) or (category[0] == "M" and re.match(UNSPACED, character)):
        return ""
    if character.isascii() or character in _OTHERWISE:
        return _OTHERWISE.get(character, character.lower())
    simpler = unicodedata.normalize("NFKD", character)
    if simpler == character:
        simpler = character.casefold()
    if simpler == character and (named := re.match(_NAME_WITHOUT, unicodedata.name(character, ""))):
        with suppress(KeyError):  # of a few, there is no letter without
            simpler = unicodedata.lookup(named[0])
    if simpler != character:
        return "".join(map(_spell, simpler))
    return character if category[0] in "LN" or category in ("Co", "Mn", "Mc") else " "


def space(text: str, *, letters: bool) -> str:
    """Return a text in which each run of unspaced letters is its pairs of letters, as words.

    Args:
        text: The text.
        letters: Whether the letters are words, too: those of a text to index are. In a query only a lone one is.

    Example:
        >>> space("東京都 and 鍵", letters=True), space("東京都 and 鍵", letters=False)
        (' 東 京 都 東京 京都  and  鍵 ', ' 東京 京都  and  鍵 ')
    """

    def space_run(run: re.Match[str]) -> str:
        # Vowels and tones that are written as marks are left out, as many texts lack some of them.
        alone = [letter for letter in run[0] if unicodedata.category(letter)[0] != "M"]
        pairs = [one + two for one, two in pairwise(alone)]
        return f" {' '.join([*alone, *pairs] if letters else pairs or alone)} "

    return re.sub(f"{UNSPACED}+", space_run, text)
