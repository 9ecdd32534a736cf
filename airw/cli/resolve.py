"""Finds the corpora and documents that the words of a command name."""

import argparse
import difflib
import json
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from airw import corpora
from airw._base.concurrency import in_thread
from airw.cli.printing import print_note
from airw.corpora.naming import list_similar_first
from airw.errors import ArgumentError, CorpusNotFound, NoLedgerEntry
from airw.protocols import ArtifactIds, Ledger, Matching, Names, OpenCorpus, ask
from airw.stores import is_server_address
from airw.values import fold_name
from airw.values.hits import POINTERS

QUERY = "QUERY, the query as one quoted word"
"""What commands that search expect after the corpus."""

_MOST_COMPARED = 20_000  # ids; comparing them takes about half a second
_MOST_NAMED = 5


def corpus_argument(arguments: argparse.Namespace) -> str | None:
    """Return the corpus that a command names, as a word or as an option.

    Raises:
        ArgumentError: If it is named both ways.
    """
    word, option = arguments.name, arguments.corpus
    if word and option:
        raise ArgumentError(f"name one corpus, not {word!r} and -c {option!r}")
    return str(word or option) if word or option else None


def list_names() -> list[str]:
    """Return the names of all built or registered corpora, sorted, without duplicates.

    If the two spell a name differently, the built corpus decides.
    """
    names = {name.casefold(): name for name in (*corpora.list_corpora(), *corpora.corpus_names())}
    return [names[folded] for folded in sorted(names)]


def choose_corpus(name: str | None, candidates: Iterable[str] | None = None) -> str:
    """Return the name of the corpus that a command is about.

    It is the named one, else `$AIRW_CORPUS`, else the only candidate. Candidates default to all built corpora.

    Raises:
        CorpusNotFound: If no corpus is named, and there is not exactly one candidate.
    """
    if chosen := name or os.environ.get("AIRW_CORPUS"):
        return chosen
    names = corpora.corpus_names() if candidates is None else list(candidates)
    if len(names) == 1:
        return names[0]
    if names:
        raise CorpusNotFound(f"no corpus named; choose one of {list_similar_first('', names)} and put its name first")
    raise CorpusNotFound("no corpora yet; `airw build FOLDER` builds one")


def corpus_and_word(arguments: argparse.Namespace, expected: str = QUERY) -> tuple[str, str]:
    """Return the corpus that a command is about, and the word after it.

    Args:
        arguments: Of the command; `words` are one or two.
        expected: What the word is, for the error message.

    Raises:
        ArgumentError: If there are too many words.
        CorpusNotFound: If no corpus is named, and there is not exactly one.
    """
    words = list(arguments.words)
    if len(words) > 2 or (len(words) == 2 and arguments.corpus):
        raise ArgumentError(f"expected [CORPUS] {expected}, not {' '.join(map(repr, words))}")
    if len(words) == 1 and not arguments.corpus and (missing := describe_missing_word(words[0], expected)):
        raise ArgumentError(missing)
    corpus = words.pop(0) if len(words) == 2 else choose_corpus(arguments.corpus)
    return corpus, words[0]


def is_corpus(word: str) -> bool:
    """Return True if a word is the name, the path or the address of a corpus."""
    if is_server_address(word):
        return True
    if not corpora.is_corpus_name(word):
        return word.endswith(".airw") and os.path.isfile(word)  # noqa: PTH113 - a Path's may raise
    return word.casefold() in map(str.casefold, (*list_names(), *corpora.PRESETS))


def describe_missing_word(word: str, expected: str = QUERY) -> str | None:
    """Return the error that only a corpus is named, or None if the word is no corpus."""
    if not is_corpus(word):
        return None
    return (
        f"{word!r} is a corpus, so the second word is missing: {expected}; if {word!r} itself is meant, "
        f"name the corpus with -c"
    )


def parse_filter(text: str | None) -> Any:
    """Parse the JSON of `--filter`.

    Raises:
        ArgumentError: If it is not JSON.
    """
    try:
        return None if text is None else json.loads(text)
    except json.JSONDecodeError as error:
        raise ArgumentError(
            f'--filter must be JSON such as \'{{"status": "Final"}}\', not {text!r}: {error}'
        ) from error


async def ensure_built(name: str, embedder: str | None = None) -> str:
    """Build a preset if it is not built yet, with a note on stderr; return its name."""
    if name.casefold() in corpora.PRESETS and not await _is_built(name):
        from airw.cli import output
        from airw.cli.progress import show_progress

        print_note(f"corpus {name!r} is not built yet; building it now")
        with show_progress(f"building {name}") as show:
            building = corpora.build_corpus(name, on_error="skip", embedder=embedder, progress=partial(show, name))
            async with building as corpus:
                problems = corpus.report.problems if corpus.report else ()
        output.print_problems([problem for problem in problems if problem.lost], verbose=True)
    return name


async def _is_built(name: str) -> bool:
    """Return True if a preset is built."""
    place, _ = corpora.locate(name)
    if isinstance(place, Path):
        return place.exists()
    try:
        async with corpora.use_store(name):
            return True
    except CorpusNotFound:
        return False


async def find_artifact_ids(corpus: OpenCorpus, words: Sequence[str]) -> list[str]:
    """Return the id of the artifact that each word names.

    A word is an id, else the path of a file, else a name that links use.

    It needs at most six store calls, for any number of words.

    Raises:
        ArgumentError: If a word matches several artifacts; the message lists them.
        NoLedgerEntry: If a word matches none; the message lists similar ids.
    """
    # An id wins over a path, and a path over a name: what is unique must not become ambiguous by a weaker match.
    entries = await ask(corpus.store, Ledger(words)) if words else []
    matches = {word: [word] for word, entry in zip(words, entries, strict=True) if entry is not None}
    matches |= await _find_by_path(corpus, [word for word in words if word not in matches])
    matches |= await _find_by_name(corpus, [word for word in words if word not in matches])
    for word in words:
        if word not in matches:
            await _raise_not_found(corpus, word)
        if len(matches[word]) > 1:
            ids = ", ".join(map(repr, matches[word][:_MOST_NAMED]))
            more = f" and {len(matches[word]) - _MOST_NAMED} more" if len(matches[word]) > _MOST_NAMED else ""
            raise ArgumentError(
                f"{word!r} matches several documents of {corpus.name!r}: {ids}{more}; use the id of one"
            )
    return [matches[word][0] for word in words]


async def _find_by_path(corpus: OpenCorpus, words: Sequence[str]) -> dict[str, list[str]]:
    """Find words that are paths of existing files, by the path in the metadata of artifacts."""
    paths = [(word, path) for word in words for path in _existing_paths(word)]
    queries = [(field, path) for field in POINTERS for _, path in paths]
    id_lists = await ask(corpus.store, Matching(queries)) if queries else []
    matches: dict[str, list[str]] = {}
    for (word, _), ids in zip(paths * len(POINTERS), id_lists, strict=True):
        if ids:
            matches.setdefault(word, ids)
    return matches


def _existing_paths(word: str) -> list[str]:
    if not os.path.exists(word):  # noqa: PTH110 - a Path's may raise
        return []
    # Metadata contains either form: with symbolic links, or with links resolved.
    return list(dict.fromkeys([os.path.abspath(word), os.path.realpath(word)]))  # noqa: PTH100


async def _find_by_name(corpus: OpenCorpus, words: Sequence[str]) -> dict[str, list[str]]:
    """Find words that are names, first as written, then ignoring case."""
    matches: dict[str, list[str]] = {}
    for normalize in (str, fold_name):
        rest = [word for word in words if word not in matches]
        id_lists = await ask(corpus.store, Names([normalize(word) for word in rest])) if rest else []
        matches |= {word: ids for word, ids in zip(rest, id_lists, strict=True) if ids}
    return matches


async def _raise_not_found(corpus: OpenCorpus, word: str) -> NoReturn:
    ids = (await ask(corpus.store, ArtifactIds()))[:_MOST_COMPARED]
    similar = await in_thread(_similar_ids, word, ids)
    hint = f"; similar: {', '.join(map(repr, similar))}" if similar else ""
    note = " (the file exists, but is not indexed)" if _existing_paths(word) else ""
    raise NoLedgerEntry(f"corpus {corpus.name!r} contains no document with the id, path or name {word!r}{note}{hint}")


def _similar_ids(word: str, ids: Sequence[str]) -> list[str]:
    # Users type a file's name rather than its whole id, so compare with the last part of each id too.
    id_by_form: dict[str, str] = {}
    for id in ids:
        name = id.rpartition("/")[2]
        for form in (id, name, name.rpartition(".")[0] or name):
            id_by_form.setdefault(fold_name(form), id)
    forms = difflib.get_close_matches(fold_name(word), id_by_form, n=_MOST_NAMED)
    return list(dict.fromkeys(id_by_form[form] for form in forms))
