"""The command that puts whole documents together: context."""

import argparse
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from airw._base.concurrency import in_thread
from airw.cli import linking_output as output
from airw.cli.artifacts import artifact_ids
from airw.cli.choosing import chosen
from airw.cli.corpora import ready
from airw.cli.links import link_choice, link_limits, unembedded
from airw.corpora import Corpus, open_corpus
from airw.errors import ArgumentError
from airw.views import Bundling, EdgeChoice, bundle, bundle_document, walk_links
from airw.views.bundled import DOCUMENTS, FormName

__all__ = ["context"]


async def context(arguments: argparse.Namespace) -> int:
    """Put whole documents together and print them, as text each at once."""
    if not (arguments.walk or arguments.note or arguments.query is not None):
        raise ArgumentError("context takes what to print: --note ID, --walk ID or --query TEXT, or several of them")
    choice, words = link_choice(arguments), await _notes(arguments.note)
    count = await in_thread(_counter, arguments)
    sink = output.Sink(arguments.output)
    async with _opened(arguments) as corpus:
        roots, notes = await artifact_ids(corpus, arguments.walk), await artifact_ids(corpus, words)
        limits = {**link_limits(arguments), "timeout": arguments.timeout}
        bundling = bundle(
            corpus,
            walk=walk_links(corpus, roots, **choice, **limits) if roots else None,
            notes=notes,
            query=arguments.query,
            k=arguments.k,
            mode=arguments.mode,
            form=arguments.format,
            max_chars=arguments.max_chars,
            max_tokens=arguments.max_tokens,
            count_tokens=count,
            edges=EdgeChoice(**choice),
        )
        async with bundling:
            await _print(bundling, arguments.format, sink)
    sink.close()
    return 0


async def _notes(given: list[str]) -> list[str]:
    """Give the words that name documents; those of standard input, one a line, where `-` stands."""
    if given.count("-") > 1:
        raise ArgumentError("--note - reads standard input to its end; give it once")
    read = await in_thread(sys.stdin.read) if "-" in given else ""
    listed = [line.strip() for line in read.splitlines() if line.strip()]
    return [word for each in given for word in (listed if each == "-" else [each])]


def _counter(arguments: argparse.Namespace) -> Callable[[str], int] | None:
    """Give what counts tokens, where a tokenizer was named.

    Raises:
        ArgumentError: It cannot be read, or nothing is to be counted.
    """
    if arguments.tokenizer is None:
        return None
    if arguments.max_tokens is None:
        raise ArgumentError("--tokenizer counts the tokens of --max-tokens N; give both")
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ArgumentError("--tokenizer takes: pip install tokenizers; without it tokens are estimated") from error
    try:
        tokenizer: Any = Tokenizer.from_file(arguments.tokenizer)
    except Exception as error:  # the library raises nothing narrower
        raise ArgumentError(f"--tokenizer takes a tokenizer.json, not {arguments.tokenizer!r}: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


@asynccontextmanager
async def _opened(arguments: argparse.Namespace) -> AsyncIterator[Corpus]:
    """Open the corpus, with its embedder where something is searched for by meaning."""
    name = chosen(arguments.corpus)
    opening = (
        unembedded(name) if arguments.query is None or arguments.mode == "lexical" else open_corpus(await ready(name))
    )
    async with opening as corpus:
        yield corpus


async def _print(bundling: Bundling, form: FormName, sink: output.Sink) -> None:
    """Print a bundle: text while it is put together, the other forms once it is known what was left out."""
    if form == "text":
        parts = DOCUMENTS[form]
        sink.put(parts.head(bundling.bundle))
        async for note in bundling:
            sink.put(parts.note(note))
        sink.put(parts.tail(bundling.bundle))
        return
    async for _ in bundling:
        pass
    sink.put(await in_thread(bundle_document, bundling.bundle, form))
