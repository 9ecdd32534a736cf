"""The commands that follow links: link tree, path, list and check, and context, which prints whole documents."""

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio

from airw._base.checks import check_number
from airw._base.concurrency import in_thread
from airw.cli import output
from airw.cli.resolve import artifact_ids, chosen, ready
from airw.corpora import Corpus, open_corpus, use_store
from airw.errors import ArgumentError
from airw.links import INVERSES, CorpusGraph, FollowedLinks, Inverses, LinkPath
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
async def _unembedded(name: str) -> AsyncIterator[Corpus]:
    """Open a corpus without its embedder, which links do not need, and close it again."""
    async with use_store(await ready(name)) as (known, store):
        yield Corpus(known, store, CorpusGraph(store).embedder)


def _followed(arguments: argparse.Namespace) -> FollowedLinks:
    """Return which links a command follows, and what it calls them.

    Raises:
        ArgumentError: Nothing can be followed so.
    """
    if arguments.typed_only and arguments.inline_only:
        raise ArgumentError("--typed-only and --inline-only match no link together; give one of them, or neither")
    if arguments.no_inverses and arguments.inverse:
        raise ArgumentError("--inverse names what --no-inverses leaves out; give one of them")
    origin = "typed" if arguments.typed_only else "inline" if arguments.inline_only else None
    chosen = LinkFilter(
        types=_names("--type", arguments.type) or None,
        exclude=_names("--exclude-type", arguments.exclude_type),
        origins=None if origin is None else [origin],
    )
    inverses = None if arguments.no_inverses else _inverses(arguments.inverse)
    return FollowedLinks(direction=arguments.direction, filter=chosen, inverses=inverses)


def _link_limits(arguments: argparse.Namespace) -> dict[str, Any]:
    """Give how far a command follows links."""
    names = ("max_hops", "max_nodes", "max_edges", "max_fanout")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    return {**given, "weighted": arguments.weighted}


def _names(option: str, given: Sequence[str]) -> list[str]:
    names = [name.strip() for each in given for name in each.split(",")]
    if not all(names):
        raise ArgumentError(
            f"{option} takes types divided by commas, such as supports,refines, not {','.join(given)!r}"
        )
    return list(dict.fromkeys(names))


def _inverses(given: Sequence[str]) -> Inverses:
    pairs = [text.partition("=") for text in given]
    for text, (type_, _, name) in zip(given, pairs, strict=True):
        if not type_.strip() or not name.strip():
            raise ArgumentError(f"--inverse takes TYPE=NAME, such as cites=cited-by, not {text!r}")
    return Inverses({type_.strip(): name.strip() for type_, _, name in pairs}) if pairs else INVERSES


async def tree(arguments: argparse.Namespace) -> int:
    """Walk along links, and print them as a tree, as text line by line while the walk runs."""
    if arguments.schema:
        output.say(output.json_document(tree_schema()))
        return 0
    if not arguments.ids:
        raise ArgumentError("link tree takes the document to start from, or several: airw link tree ID ...")
    links, form = _followed(arguments), _form(arguments)
    sink = output.Sink(arguments.output)
    async with _unembedded(chosen(arguments.corpus)) as corpus:
        roots = await artifact_ids(corpus, arguments.ids)
        walk = walk_links(corpus, roots, **links.options(), **_link_limits(arguments), timeout=arguments.timeout)
        if form == "text":
            await _stream(walk, links.inverses, sink)
        else:
            found = await read_tree(walk, inverses=links.inverses)
            sink.put(await in_thread(_TREES[form], found, arguments))
    sink.close()
    return 0


def _form(arguments: argparse.Namespace) -> str:
    form: str = arguments.format
    if arguments.max_chars is not None and form != "records":
        raise ArgumentError(f"--max-chars goes with --format records, which can be cut line by line, not with {form}")
    return form


async def _stream(walk: Walk, inverses: Inverses | None, sink: output.Sink) -> None:
    lines = TreeTextWriter(inverses=inverses)
    async with aclosing(walk.events()) as events:
        async for event in events:
            for line in lines.add(event):
                sink.put(f"{line}\n")


_TREES: Mapping[str, Callable[[WalkTree, argparse.Namespace], str]] = {
    "json": lambda tree, _: output.json_document(tree.to_dict()),
    "records": lambda tree, arguments: tree_records(tree, max_chars=arguments.max_chars),
    "dot": lambda tree, _: tree_dot(tree),
    "html": lambda tree, _: tree_page(tree),
}


async def path(arguments: argparse.Namespace) -> int:
    """Find a path and print it; 1 where there is none."""
    if arguments.schema:
        output.say(output.json_document(path_schema()))
        return 0
    if len(arguments.ids) != 2:
        raise ArgumentError("link path takes two documents: airw link path FROM TO")
    if arguments.timeout is not None:
        check_number("--timeout", arguments.timeout, least=0)
    links, form = _followed(arguments), _form(arguments)
    sink = output.Sink(arguments.output)
    async with _unembedded(chosen(arguments.corpus)) as corpus:
        start, end = await artifact_ids(corpus, arguments.ids)
        found = LinkPath(start, end, links.direction, arguments.max_hops, at_least=("timeout",))
        with anyio.move_on_after(arguments.timeout):
            found = await CorpusGraph(corpus).path(start, end, **links.options(), **_link_limits(arguments))
        nodes = await describe(corpus, found.nodes)
    sink.put(_PATHS[form](found, nodes, links.inverses, arguments))
    sink.close()
    return int(not found.found)


_PATHS: Mapping[str, Callable[[LinkPath, Sequence[NodeView], Inverses | None, argparse.Namespace], str]] = {
    "text": lambda path, nodes, inverses, _: f"{path_text(path, nodes, inverses=inverses)}\n",
    "json": lambda path, nodes, *_: output.json_document(path_dict(path, nodes)),
    "records": lambda path, nodes, _, arguments: path_records(path, nodes, max_chars=arguments.max_chars),
    "dot": lambda path, nodes, *_: path_dot(path, nodes),
    "html": lambda path, nodes, inverses, _: path_page(path, nodes, inverses=inverses),
}


async def listing(arguments: argparse.Namespace) -> int:
    """List the links of one document, those that lead nowhere included."""
    links = _followed(arguments)
    async with _unembedded(chosen(arguments.corpus)) as corpus:
        [id] = await artifact_ids(corpus, [arguments.id])
        found = await _links_of(corpus, id, links)
    output.link_list(id, links.direction, found, arguments.format)
    return 0


async def _links_of(corpus: Corpus, id: str, links: FollowedLinks) -> list[ListedLink]:
    [edges] = await corpus.store.neighbors([id], direction=links.direction, origins=links.filter.origins)
    kept = [(edge, links.named(edge, id)) for edge in edges if links.accepts(edge, id)]
    found = [] if links.direction == "in" else await corpus.store.unresolved_links([id])
    unresolved = [each for each in found if links.filter.accepts(each.link)]
    ends: list[Any] = [end for edge, _ in kept for end in (edge.source, edge.target) if isinstance(end, str)]
    nodes = await describe(corpus, list(dict.fromkeys(ends)))
    return list_links(id, kept, unresolved, {node.id: node for node in nodes})


async def check(arguments: argparse.Namespace) -> int:
    """Measure the graph of a corpus, and tell of the links that lead nowhere."""
    async with _unembedded(chosen(arguments.corpus)) as corpus:
        found = await CorpusGraph(corpus).diagnose()
        unresolved = await corpus.store.unresolved_links() if arguments.verbose else None
    output.checked(corpus.name, found, unresolved, arguments.format)
    return int(arguments.strict and found.dangling > 0)


async def context(arguments: argparse.Namespace) -> int:
    """Put whole documents together and print them, as text each at once."""
    if not (arguments.walk or arguments.note or arguments.query is not None):
        raise ArgumentError("context takes what to print: --note ID, --walk ID or --query TEXT, or several of them")
    links, words = _followed(arguments), await _notes(arguments.note)
    count = await in_thread(_counter, arguments)
    sink = output.Sink(arguments.output)
    async with _opened(arguments) as corpus:
        roots, notes = await artifact_ids(corpus, arguments.walk), await artifact_ids(corpus, words)
        limits = {**_link_limits(arguments), "timeout": arguments.timeout}
        bundling = bundle(
            corpus,
            walk=walk_links(corpus, roots, **links.options(), **limits) if roots else None,
            notes=notes,
            query=arguments.query,
            k=arguments.k,
            mode=arguments.mode,
            form=arguments.format,
            max_chars=arguments.max_chars,
            max_tokens=arguments.max_tokens,
            count_tokens=count,
            edges=links,
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
        _unembedded(name) if arguments.query is None or arguments.mode == "lexical" else open_corpus(await ready(name))
    )
    async with opening as corpus:
        yield corpus


async def _print(bundling: BundleStream, form: FormName, sink: output.Sink) -> None:
    """Print a bundle: text while it is put together, the other forms once it is known what was left out."""
    if form == "text":
        parts = BUNDLE_FORMS[form]
        sink.put(parts.head(bundling.bundle))
        async for note in bundling:
            sink.put(parts.note(note))
        sink.put(parts.tail(bundling.bundle))
        return
    async for _ in bundling:
        pass
    sink.put(await in_thread(bundle_document, bundling.bundle, form))
