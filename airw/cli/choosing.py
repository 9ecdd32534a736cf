"""Which corpus a command means, which query, and what of it."""

import argparse
import json
import os
from collections.abc import Iterable
from typing import Any

from airw.corpora import corpus_names, list_corpora
from airw.errors import ArgumentError, CorpusNotFound

__all__ = ["chosen", "corpus_and_word", "json_filter", "known_names", "named"]


def named(arguments: argparse.Namespace) -> str | None:
    """Give the corpus that a command names, as a word or as an option.

    Raises:
        ArgumentError: It is named both ways.
    """
    word, option = arguments.name, arguments.corpus
    if word and option:
        raise ArgumentError(f"give one corpus, not {word!r} and -c {option!r}")
    return str(word or option) if word or option else None


def known_names() -> list[str]:
    """Give the names of all corpora that are built or registered, sorted, one that is both as it was built."""
    names = {name.casefold(): name for name in (*list_corpora(), *corpus_names())}
    return [names[folded] for folded in sorted(names)]


def chosen(given: str | None, known: Iterable[str] | None = None) -> str:
    """Give the corpus that is meant: named, or `$AIRW_CORPUS`, or the only one of those known, or else built.

    Raises:
        CorpusNotFound: None is named, and there is not exactly one.
    """
    if name := given or os.environ.get("AIRW_CORPUS"):
        return name
    names = corpus_names() if known is None else list(known)
    if len(names) == 1:
        return names[0]
    known = f"say which of {', '.join(names)}, with -c" if names else "`airw build FOLDER` makes one"
    raise CorpusNotFound(f"{'no corpus named' if names else 'no corpora yet'}: {known}")


def corpus_and_word(
    arguments: argparse.Namespace, what: str = "QUERY, the query as one quoted word"
) -> tuple[str, str]:
    """Give the corpus that is meant, and the word after it; `what` says what that word is.

    Raises:
        ArgumentError: There are more words than that.
        CorpusNotFound: No corpus is named, and there is not exactly one.
    """
    words = list(arguments.words)
    if len(words) > 2 or (len(words) == 2 and arguments.corpus):
        raise ArgumentError(f"give [CORPUS] {what}, not {' '.join(map(repr, words))}")
    return words.pop(0) if len(words) == 2 else chosen(arguments.corpus), words[0]


def json_filter(text: str | None) -> Any:
    """Give the filter that an option holds as JSON.

    Raises:
        ArgumentError: It is no JSON.
    """
    try:
        return None if text is None else json.loads(text)
    except json.JSONDecodeError as error:
        raise ArgumentError(
            f'--filter must be JSON such as \'{{"status": "Final"}}\', not {text!r}: {error}'
        ) from error
