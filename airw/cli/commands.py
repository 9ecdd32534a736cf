"""The commands: each opens what it needs, works, prints, and gives an exit code."""

import argparse
from pathlib import Path

from airw.building import build
from airw.cli import output
from airw.cli.choosing import chosen, corpus_and_word, json_filter
from airw.corpus import corpus_names, corpus_path, existing_path, is_name, open_corpus
from airw.embedders import export_model
from airw.errors import ArgumentError, CorpusNotFound
from airw.policies import CollapsedTree, Eager
from airw.protocols import EmbedderLike
from airw.sources import CorpusSource, from_jsonl, from_notes
from airw.stores import SqliteStore
from airw.traversal import traverse as walk_corpus
from airw.walk import WalkPolicy

__all__ = ["build_corpus", "export", "info", "ls", "rm", "search", "traverse"]


async def build_corpus(arguments: argparse.Namespace) -> int:
    """Build a corpus, with progress on a terminal, and report."""
    source = _source(arguments)
    embedder = arguments.embedder or await _embedder_of(source.name) or "default"
    with output.progress(f"building {source.name}") as report_progress:
        opening = build(
            source,
            embedder=embedder,
            full=not arguments.no_prune,
            force=arguments.force,
            progress=report_progress,
            on_error="skip",
        )
        async with opening as corpus:
            report, counts = corpus.report, await corpus.store.counts()
    output.built(source.name, corpus_path(source.name), report, counts)
    problems = report.problems if report else ()
    output.problems(problems, verbose=arguments.verbose)
    return int(any(problem.lost for problem in problems))


def _source(arguments: argparse.Namespace) -> CorpusSource:
    path = Path(arguments.source)
    if path.is_file() and path.name.endswith((".jsonl", ".jsonl.gz")):
        return from_jsonl(path, name=arguments.name)
    if path.is_file():
        raise ArgumentError(f"{arguments.source!r} is a file; build takes a folder of notes or a .jsonl file")
    return from_notes(path, name=arguments.name)


async def _embedder_of(name: str) -> EmbedderLike | None:
    """Give the embedder that a corpus was built with, so that a second build needs no flag."""
    try:
        async with open_corpus(name) as corpus:
            return corpus.embedder
    except CorpusNotFound:
        return None


async def search(arguments: argparse.Namespace) -> int:
    """Rank and print."""
    name, query = corpus_and_word(arguments)
    async with open_corpus(name) as corpus:
        hits = await corpus.search(
            query,
            k=arguments.k,
            mode=arguments.mode,
            filter=json_filter(arguments.filter),
            surfaces=arguments.surfaces.split(",") if arguments.surfaces else None,
            per_artifact=not arguments.all_surfaces,
            fusion=arguments.fusion,
            rerank=arguments.rerank,
            rerank_text=arguments.rerank_text,
        )
    output.hits(hits, arguments.format)
    return 0


async def traverse(arguments: argparse.Namespace) -> int:
    """Walk, printing each hit as it is committed."""
    name, query = corpus_and_word(arguments)
    async with open_corpus(name) as corpus:
        walk = walk_corpus(
            query,
            corpus,
            policy=_policy(arguments),
            max_depth=2 if arguments.max_depth is None else arguments.max_depth,
            node_budget=arguments.node_budget,
            timeout=arguments.timeout,
        )
        printer = output.WalkPrinter(arguments.format)
        async with walk:
            async for hit in walk:
                printer.hit(hit)
        if walk.summary is not None:
            printer.summary(walk.summary)
    return 0


def _policy(arguments: argparse.Namespace) -> WalkPolicy:
    if arguments.policy == "collapsed-tree":
        return CollapsedTree(seed_k=arguments.start)
    return Eager(
        select_k=None, start_k=arguments.start, adjacent_k=None, direction=arguments.direction, seeding="hybrid"
    )


async def ls(_: argparse.Namespace) -> int:
    """List the corpora of the home folder."""
    names = corpus_names()
    if not names:
        print("no corpora yet; `airw build FOLDER` makes one")
    for name in names:
        async with await SqliteStore.open(corpus_path(name)) as store:
            output.corpus_line(name, await store.counts(), await store.config())
    return 0


async def info(arguments: argparse.Namespace) -> int:
    """Show one corpus."""
    name = arguments.name or chosen(arguments.corpus)
    path = existing_path(name)
    async with await SqliteStore.open(path) as store:
        output.info(name, path, await store.counts(), await store.config(), arguments.format)
    return 0


async def rm(arguments: argparse.Namespace) -> int:
    """Remove one corpus's file, once no builder holds it."""
    if not is_name(arguments.name):
        raise ArgumentError(
            f"rm takes the name of a corpus, not {arguments.name!r}; remove a file of your own with your own tools"
        )
    await SqliteStore.remove(existing_path(arguments.name))
    print(f"removed {arguments.name}")
    return 0


async def export(arguments: argparse.Namespace) -> int:
    """Export a model and report."""
    output.exported(await export_model(arguments.folder, to=arguments.to))
    return 0
