"""Scripts without spaces between words, whose letters are indexed alone and in pairs.

The tokenizer of SQLite takes a run of letters for one word. In Chinese, Japanese and Thai that is half a sentence, so
that no query would match it. Therefore such a run is indexed as its letters and all pairs of neighbouring letters. A
query is split into pairs, or is a single letter. Korean is treated alike, because its particles are joined to words.
All other scripts stay as they are.
"""

import re
import unicodedata
from itertools import pairwise

_UNSPACED = (  # compiled at first use, since that takes a millisecond
    "["
    "\u0e01-\u0e4e\u0e80-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17d3"  # Burmese, Khmer
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Korean
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "]+"
)


def space_text(text: str) -> str:
    """Return a text to index: each run of unspaced letters as letters and pairs.

    Example:
        >>> space_text("東京都 and 鍵")
        ' 東 京 都 東京 京都  and  鍵 '
    """
    return re.sub(_UNSPACED, lambda run: _join([*(letters := _list_letters(run[0])), *_make_pairs(letters)]), text)


def space_query(text: str) -> str:
    """Return a query as words of the index: each run of unspaced letters as pairs.

    A letter that stands alone is a word.

    Example:
        >>> space_query("東京都 and 鍵")
        ' 東京 京都  and  鍵 '
    """
    return re.sub(_UNSPACED, lambda run: _join(_make_pairs(letters := _list_letters(run[0])) or letters), text)


def _list_letters(run: str) -> list[str]:
    # The tokenizer would split at vowels and tones that are written as marks, so leave them out.
    return [letter for letter in run if not unicodedata.category(letter).startswith("M")]


def _make_pairs(letters: list[str]) -> list[str]:
    return [one + two for one, two in pairwise(letters)]


def _join(words: list[str]) -> str:
    return f" {' '.join(words)} "
