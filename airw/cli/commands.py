"""The commands that search and walk, and those about models: each opens what it needs, works, and prints."""

import argparse

from airw.cli import output
from airw.cli.choosing import corpus_and_word, json_filter
from airw.cli.corpora import ready
from airw.corpora import open_corpus
from airw.embedders import export_model
from airw.policies import CollapsedTree, Eager
from airw.walking import WalkPolicy
from airw.walking import traverse as walk_corpus

__all__ = ["export", "search", "traverse"]


async def search(arguments: argparse.Namespace) -> int:
    """Rank and print."""
    name, query = corpus_and_word(arguments)
    async with open_corpus(await ready(name)) as corpus:
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
    async with open_corpus(await ready(name)) as corpus:
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


async def export(arguments: argparse.Namespace) -> int:
    """Export a model and report."""
    output.exported(await export_model(arguments.folder, to=arguments.to))
    return 0
