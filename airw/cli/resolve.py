"""Which corpora and which artifacts the words of a command mean."""

import argparse
import difflib
import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from airw import corpora
from airw._base.concurrency import in_thread
from airw.errors import ArgumentError, CorpusNotFound, NoLedgerEntry
from airw.protocols import OpenCorpus

_PATHS = ("path", "skill_path")
_MOST_COMPARED = 20_000  # ids, in about half a second
_MOST_NAMED = 5


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
    names = {name.casefold(): name for name in (*corpora.list_corpora(), *corpora.corpus_names())}
    return [names[folded] for folded in sorted(names)]


def chosen(given: str | None, known: Iterable[str] | None = None) -> str:
    """Give the corpus that is meant: named, or `$AIRW_CORPUS`, or the only one of those known, or else built.

    Raises:
        CorpusNotFound: None is named, and there is not exactly one.
    """
    if name := given or os.environ.get("AIRW_CORPUS"):
        return name
    names = corpora.corpus_names() if known is None else list(known)
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


async def ready(name: str) -> str:
    """Return a name once its corpus can be asked: a preset that was never built is built first, and stderr says so."""
    is_missing = corpora.is_corpus_name(name) and not corpora.corpus_path(name).exists()
    if is_missing and name.casefold() in corpora.PRESETS:
        from airw.cli import output

        print(f"airw: {name!r} was never built; building it now", file=sys.stderr)
        async with corpora.build_corpus(name, on_error="skip") as corpus:
            found = corpus.report.problems if corpus.report else ()
        output.problems([problem for problem in found if problem.lost], verbose=True)
    return name


async def artifact_ids(corpus: OpenCorpus, words: Sequence[str]) -> list[str]:
    """Give the artifact that each word means: by its id, else the path of its file, else a name that links give it.

    Six store calls at most, however many words there are.

    Raises:
        ArgumentError: One means several; the message names them.
        NoLedgerEntry: One means none; the message names ids like it.
    """
    entries = await corpus.store.ledger(words) if words else []
    found = {word: [word] for word, entry in zip(words, entries, strict=True) if entry is not None}
    found |= await _by_path(corpus, [word for word in words if word not in found])
    found |= await _by_name(corpus, [word for word in words if word not in found])
    for word in words:
        if word not in found:
            await _refuse(corpus, word)
        if len(found[word]) > 1:
            named = ", ".join(map(repr, found[word][:_MOST_NAMED]))
            more = f" and {len(found[word]) - _MOST_NAMED} more" if len(found[word]) > _MOST_NAMED else ""
            raise ArgumentError(
                f"{word!r} means several documents of {corpus.name!r}: {named}{more}; give the id of one"
            )
    return [found[word][0] for word in words]


async def _by_path(corpus: OpenCorpus, words: Sequence[str]) -> dict[str, list[str]]:
    """Find those that are paths of files here, as the metadata of artifacts tell theirs."""
    paths = [(word, path) for word in words for path in _paths(word)]
    wanted = [(field, path) for field in _PATHS for _, path in paths]
    matches = await corpus.store.matching(wanted) if wanted else []
    found: dict[str, list[str]] = {}
    for (word, _), ids in zip(paths * len(_PATHS), matches, strict=True):
        if ids:
            found.setdefault(word, ids)
    return found


def _paths(word: str) -> list[str]:
    if not os.path.exists(word):  # noqa: PTH110 - a Path's may raise
        return []
    return list(dict.fromkeys([os.path.abspath(word), os.path.realpath(word)]))  # noqa: PTH100 - links as they are, too


async def _by_name(corpus: OpenCorpus, words: Sequence[str]) -> dict[str, list[str]]:
    """Find those that are names, as they are, else whatever their case."""
    found: dict[str, list[str]] = {}
    for spelled in (str, _folded):
        left = [word for word in words if word not in found]
        meant = await corpus.store.resolve([spelled(word) for word in left]) if left else []
        found |= {word: ids for word, ids in zip(left, meant, strict=True) if ids}
    return found


def _folded(word: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).casefold())


async def _refuse(corpus: OpenCorpus, word: str) -> NoReturn:
    known = (await corpus.store.artifact_ids())[:_MOST_COMPARED]
    near = await in_thread(_near, word, known)
    hint = f"; similar: {', '.join(map(repr, near))}" if near else ""
    here = ", though there is such a file" if _paths(word) else ""
    raise NoLedgerEntry(f"corpus {corpus.name!r} holds no {word!r}, as an id, a path or a name{here}{hint}")


def _near(word: str, ids: Sequence[str]) -> list[str]:
    by_fold: dict[str, str] = {}
    for id in ids:
        name = id.rpartition("/")[2]
        for form in (id, name, name.rpartition(".")[0] or name):
            by_fold.setdefault(_folded(form), id)
    matches = difflib.get_close_matches(_folded(word), by_fold, n=_MOST_NAMED)
    return list(dict.fromkeys(by_fold[form] for form in matches))
