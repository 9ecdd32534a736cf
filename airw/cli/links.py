"""The commands that follow links.

`link tree`, `link path`, `link list` and `link check` print links; `context` prints documents.
"""

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio

from airw._base.checks import check_number
from airw._base.concurrency import in_thread
from airw._base.json import dump_json
from airw.cli import output
from airw.cli.library_defaults import read_default
from airw.cli.options import PATH, pick
from airw.cli.resolve import choose_corpus, corpus_argument, ensure_built, find_artifact_ids, is_corpus
from airw.corpora import Corpus, open_corpus, use_store
from airw.errors import ArgumentError
from airw.links import INVERSES, CorpusGraph, FollowedLinks, Inverses, LinkPath
from airw.protocols import Edges, ask
from airw.values import LinkFilter
from airw.views import (
    BundleStream,
    ListedLink,
    NodeView,
    TreeTextWriter,
    WalkTree,
    bundle,
    bundle_document,
    describe,
    list_links,
    path_dict,
    path_dot,
    path_page,
    path_records,
    path_schema,
    path_text,
    read_tree,
    tree_dot,
    tree_page,
    tree_records,
    tree_schema,
    walk_links,
)
from airw.views.bundled import BUNDLE_FORMS, FormName
from airw.walking import Walk


@asynccontextmanager
async def _open_without_embedder(name: str) -> AsyncIterator[Corpus]:
    """Open a corpus without its embedder, which links do not need, and close it at the end."""
    async with use_store(await ensure_built(name)) as (spelling, store):
        yield Corpus(spelling, store, CorpusGraph(store).embedder)


def _corpus_and_documents(arguments: argparse.Namespace, *, least: int) -> tuple[str, list[str]]:
    """Return the corpus that a command is about, and the words that name documents.

    If no corpus is named as an option, a first word that is the name of a corpus is the corpus, as in other commands.

    Args:
        arguments: Of the command.
        least: The number of documents that the command needs.

    Raises:
        ArgumentError: If a corpus is named and too few documents.
        CorpusNotFound: If no corpus is named, and there is not exactly one.
    """
    words = list(arguments.ids)
    if arguments.corpus or not words or not is_corpus(words[0]):
        return choose_corpus(arguments.corpus), words
    if len(words) <= least:
        raise ArgumentError(
            f"{words[0]!r} is a corpus, so {'a document' if least == 1 else 'one of two documents'} is missing; "
            f"if a document is meant, name the corpus with -c"
        )
    return words[0], words[1:]


def _link_selection(arguments: argparse.Namespace) -> FollowedLinks:
    """Return which links a command follows and how it names them.

    Raises:
        ArgumentError: If options contradict each other or cannot be parsed.
    """
    if arguments.typed_only and arguments.inline_only:
        raise ArgumentError("--typed-only and --inline-only together match no link; use at most one of them")
    if arguments.no_inverses and arguments.inverse:
        raise ArgumentError("--inverse names inverses, but --no-inverses turns them off; use one of them")
    origin = "typed" if arguments.typed_only else "inline" if arguments.inline_only else None
    selection = LinkFilter(
        types=_split_names("--type", arguments.type) or None,
        exclude=_split_names("--exclude-type", arguments.exclude_type),
        origins=None if origin is None else [origin],
    )
    inverses = None if arguments.no_inverses else _parse_inverses(arguments.inverse)
    return FollowedLinks(**pick(arguments, "direction"), filter=selection, inverses=inverses)


def _link_limits(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how far a command follows links."""
    return {**pick(arguments, "max_hops", "max_nodes", "max_edges", "max_fanout"), "weighted": arguments.weighted}


def _split_names(option: str, values: Sequence[str]) -> list[str]:
    names = [name.strip() for value in values for name in value.split(",")]
    if not all(names):
        raise ArgumentError(
            f"{option} takes types separated by commas, such as supports,refines, not {','.join(values)!r}"
        )
    return list(dict.fromkeys(names))


def _parse_inverses(values: Sequence[str]) -> Inverses:
    pairs = [text.partition("=") for text in values]
    for text, (type_, _, name) in zip(values, pairs, strict=True):
        if not type_.strip() or not name.strip():
            raise ArgumentError(f"--inverse takes TYPE=NAME, such as cites=cited-by, not {text!r}")
    return Inverses({type_.strip(): name.strip() for type_, _, name in pairs}) if pairs else INVERSES


async def tree(arguments: argparse.Namespace) -> int:
    """Walk along links and print them as a tree; text is printed while the walk runs."""
    if arguments.schema:
        output.print_json_line(tree_schema())
        return 0
    if not arguments.ids:
        raise ArgumentError("link tree needs at least one document to start from: airw link tree [CORPUS] ID ...")
    name, words = _corpus_and_documents(arguments, least=1)
    links = _link_selection(arguments)
    form = _check_format(arguments)
    sink = output.Sink(arguments.output)
    async with _open_without_embedder(name) as corpus:
        roots = await find_artifact_ids(corpus, words)
        walk = walk_links(corpus, roots, **links.options(), **_link_limits(arguments), timeout=arguments.timeout)
        if form == "text":
            await _stream_tree(walk, links.inverses, sink)
        else:
            result = await read_tree(walk, inverses=links.inverses)
            sink.write(await in_thread(_TREES[form], result, arguments))
    sink.close()
    return 0


def _check_format(arguments: argparse.Namespace) -> str:
    form: str = arguments.format
    if arguments.max_chars is not None and form != "records":
        raise ArgumentError(f"--max-chars works only with --format records, not with {form}")
    return form


async def _stream_tree(walk: Walk, inverses: Inverses | None, sink: output.Sink) -> None:
    lines = TreeTextWriter(inverses=inverses)
    async with aclosing(walk.events()) as events:
        async for event in events:
            for line in lines.add(event):
                sink.write(f"{line}\n")


_TREES: Mapping[str, Callable[[WalkTree, argparse.Namespace], str]] = {
    "json": lambda tree, _: f"{dump_json(tree.to_dict())}\n",
    "records": lambda tree, arguments: tree_records(tree, max_chars=arguments.max_chars),
    "dot": lambda tree, _: tree_dot(tree),
    "html": lambda tree, _: tree_page(tree),
}


async def path(arguments: argparse.Namespace) -> int:
    """Find a path between two documents and print it; the exit code is 1 if there is none."""
    if arguments.schema:
        output.print_json_line(path_schema())
        return 0
    name, words = _corpus_and_documents(arguments, least=2)
    if len(words) != 2:
        raise ArgumentError("link path needs exactly two documents: airw link path [CORPUS] FROM TO")
    if arguments.timeout is not None:
        check_number("--timeout", arguments.timeout, least=0)
    links = _link_selection(arguments)
    form = _check_format(arguments)
    sink = output.Sink(arguments.output)
    async with _open_without_embedder(name) as corpus:
        start, end = await find_artifact_ids(corpus, words)
        max_hops = read_default(f"{PATH}:max_hops") if arguments.max_hops is None else arguments.max_hops
        # The result if the time is up: no path, and an unknown number of links not read.
        result = LinkPath(start, end, links.direction, max_hops, at_least=("timeout",))
        with anyio.move_on_after(arguments.timeout):
            result = await CorpusGraph(corpus).path(start, end, **links.options(), **_link_limits(arguments))
        nodes = await describe(corpus, result.nodes)
    sink.write(_PATHS[form](result, nodes, links.inverses, arguments))
    sink.close()
    return int(not result.found)


_PATHS: Mapping[str, Callable[[LinkPath, Sequence[NodeView], Inverses | None, argparse.Namespace], str]] = {
    "text": lambda path, nodes, inverses, _: f"{path_text(path, nodes, inverses=inverses)}\n",
    "json": lambda path, nodes, *_: f"{dump_json(path_dict(path, nodes))}\n",
    "records": lambda path, nodes, _, arguments: path_records(path, nodes, max_chars=arguments.max_chars),
    "dot": lambda path, nodes, *_: path_dot(path, nodes),
    "html": lambda path, nodes, inverses, _: path_page(path, nodes, inverses=inverses),
}


async def listing(arguments: argparse.Namespace) -> int:
    """List the links of one document, including those that lead nowhere."""
    name, words = _corpus_and_documents(arguments, least=1)
    if len(words) != 1:
        raise ArgumentError("link list needs exactly one document: airw link list [CORPUS] ID")
    links = _link_selection(arguments)
    async with _open_without_embedder(name) as corpus:
        [id] = await find_artifact_ids(corpus, words)
        listed_links = await _read_links(corpus, id, links)
    output.print_link_list(id, links.direction, listed_links, arguments.format)
    return 0


async def _read_links(corpus: Corpus, id: str, links: FollowedLinks) -> list[ListedLink]:
    [edges] = await ask(corpus.store, Edges([id], links.direction, links=LinkFilter(origins=links.filter.origins)))
    accepted = [(edge, links.name_of(edge, id)) for edge in edges if links.accepts(edge, id)]
    # A link that leads nowhere has no target, so the store can list it only with the document that contains it.
    candidates = [] if links.direction == "in" else await CorpusGraph(corpus).unresolved_links([id])
    unresolved = [link for link in candidates if links.filter.accepts(link.link)]
    ends: list[Any] = [end for edge, _ in accepted for end in (edge.source, edge.target) if isinstance(end, str)]
    nodes = await describe(corpus, list(dict.fromkeys(ends)))
    return list_links(id, accepted, unresolved, {node.id: node for node in nodes})


async def check(arguments: argparse.Namespace) -> int:
    """Check the links of a corpus and print those that lead nowhere."""
    async with _open_without_embedder(choose_corpus(corpus_argument(arguments))) as corpus:
        graph = CorpusGraph(corpus)
        diagnosis = await graph.diagnose()
        unresolved = await graph.unresolved_links()
    output.print_diagnosis(corpus.name, diagnosis, unresolved if arguments.verbose else None, arguments.format)
    return int(arguments.strict and any(link.state == "dangling" for link in unresolved))


async def context(arguments: argparse.Namespace) -> int:
    """Print documents within a budget; text is printed document by document."""
    if not (arguments.walk or arguments.note or arguments.query is not None):
        about = f"; {arguments.name!r} names only the corpus" if arguments.name else ""
        raise ArgumentError(f"context needs at least one of --note ID, --walk ID and --query TEXT{about}")
    links = _link_selection(arguments)
    words = await _read_notes(arguments.note)
    count_tokens = await in_thread(_token_counter, arguments)
    sink = output.Sink(arguments.output)
    async with _open_for_context(arguments) as corpus:
        roots = await find_artifact_ids(corpus, arguments.walk)
        notes = await find_artifact_ids(corpus, words)
        limits = {**_link_limits(arguments), "timeout": arguments.timeout}
        bundling = bundle(
            corpus,
            walk=walk_links(corpus, roots, **links.options(), **limits) if roots else None,
            notes=notes,
            query=arguments.query,
            **pick(arguments, "k", "mode"),
            form=arguments.format,
            max_chars=arguments.max_chars,
            max_tokens=arguments.max_tokens,
            count_tokens=count_tokens,
            edges=links,
        )
        async with bundling:
            await _print_bundle(bundling, arguments.format, sink)
    sink.close()
    return 0


async def _read_notes(words: list[str]) -> list[str]:
    """Return the words that name documents; `-` is replaced by the lines of standard input."""
    if words.count("-") > 1:
        raise ArgumentError("--note - reads all of standard input; use it once")
    text = await in_thread(sys.stdin.read) if "-" in words else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [note for word in words for note in (lines if word == "-" else [word])]


def _token_counter(arguments: argparse.Namespace) -> Callable[[str], int] | None:
    """Return a function that counts tokens, or None if no tokenizer is named.

    Raises:
        ArgumentError: If it cannot be read, or there is no limit of tokens.
    """
    if arguments.tokenizer is None:
        return None
    if arguments.max_tokens is None:
        raise ArgumentError("--tokenizer needs --max-tokens N")
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ArgumentError("--tokenizer needs a package: pip install tokenizers") from error
    try:
        tokenizer: Any = Tokenizer.from_file(arguments.tokenizer)
    except Exception as error:  # tokenizers raises no narrower class
        raise ArgumentError(
            f"--tokenizer must be a tokenizer.json file, not {arguments.tokenizer!r}: {error}"
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


@asynccontextmanager
async def _open_for_context(arguments: argparse.Namespace) -> AsyncIterator[Corpus]:
    """Open the corpus, with its embedder only if a query needs it."""
    name = choose_corpus(corpus_argument(arguments))
    needs_embedder = arguments.query is not None and arguments.mode != "lexical"
    given = pick(arguments, "embedder")
    if needs_embedder:
        await ensure_built(name, **given)
    opening = open_corpus(name, **given) if needs_embedder else _open_without_embedder(name)
    async with opening as corpus:
        yield corpus


async def _print_bundle(bundling: BundleStream, form: FormName, sink: output.Sink) -> None:
    """Print a bundle: text note by note, the other formats at the end.

    Their first line says what was left out, which is known only then.
    """
    if form == "text":
        parts = BUNDLE_FORMS[form]
        sink.write(parts.head(bundling.bundle))
        async for note in bundling:
            sink.write(parts.note(note))
        sink.write(parts.tail(bundling.bundle))
        return
    async for _ in bundling:
        pass
    sink.write(await in_thread(bundle_document, bundling.bundle, form))
