"""The commands that find documents: search, traverse, discover, expand, calibrate.

Packages are imported whole, so that each command loads only the modules that it uses.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from airw import corpora, discovery, evaluation, policies, walking
from airw._base.checks import check_count
from airw._base.concurrency import in_thread
from airw.cli import output
from airw.cli.printing import print_note
from airw.cli.resolve import choose_corpus, corpus_and_word, ensure_built, parse_filter
from airw.cli.wording import translate
from airw.errors import ArgumentError, SeedNotFound
from airw.values import SearchHit


async def search(arguments: argparse.Namespace) -> int:
    """Rank the documents of a corpus and print them."""
    name, query = corpus_and_word(arguments)
    async with corpora.open_corpus(await ensure_built(name)) as corpus:
        hits = await corpus.search(
            query,
            k=arguments.k,
            mode=arguments.mode,
            filter=parse_filter(arguments.filter),
            surfaces=arguments.surfaces.split(",") if arguments.surfaces else None,
            per_artifact=not arguments.all_surfaces,
            fusion=arguments.fusion,
            rerank=arguments.rerank,
            rerank_text=arguments.rerank_text,
        )
    output.print_hits(hits, arguments.format)
    return 0


async def traverse(arguments: argparse.Namespace) -> int:
    """Walk along links, and print each hit when it is committed."""
    name, query = corpus_and_word(arguments)
    async with corpora.open_corpus(await ensure_built(name)) as corpus:
        walk = walking.traverse(
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
                printer.print_hit(hit)
        if walk.summary is not None:
            printer.print_summary(walk.summary)
    return 0


def _policy(arguments: argparse.Namespace) -> walking.WalkPolicy:
    if arguments.policy == "collapsed-tree":
        return policies.CollapsedTree(seed_k=arguments.start)
    return policies.Eager(
        select_k=None, start_k=arguments.start, adjacent_k=None, direction=arguments.direction, seeding="hybrid"
    )


async def discover(arguments: argparse.Namespace) -> int:
    """Search the corpora, print each answer as it comes, then the committed documents."""
    *sources, query = arguments.words
    if arguments.disclose != "metadata" and not arguments.root:
        raise ArgumentError(
            f"--disclose {arguments.disclose} reads files; name the folder that contains them with --root FOLDER"
        )
    if arguments.expand is not None:
        check_count("--expand", arguments.expand)
    names = [await ensure_built(name) for name in [*sources, *arguments.corpus] or [choose_corpus(None)]]
    printer = output.DiscoveryPrinter(arguments.format, many=len(names) > 1)
    reports: dict[str, Mapping[str, Any]] = {}
    async with discovery.discover_stream(
        names if len(names) > 1 else names[0], query, **_options(arguments)
    ) as updates:
        async for update in updates:
            if isinstance(update, discovery.DiscoveryResult):
                printer.print_result(update)
            else:
                reports[update.source] = update.report
                printer.print_answer(update)
    return _report_failures(reports)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "k": arguments.k,
        "mode": arguments.mode,
        "filter": parse_filter(arguments.filter),
        "strategy": arguments.strategy,
        "max_k": arguments.max_k,
        "rel": arguments.rel,
        "min_score": arguments.min_score,
        "disclose_level": arguments.disclose,
        "roots": arguments.root,
        "expand": None if arguments.expand is None else discovery.SentenceWindow(arguments.expand),
        "rerank": arguments.rerank,
        "source_timeout": arguments.source_timeout,
        "timeout": arguments.timeout,
    }


def _report_failures(reports: Mapping[str, Mapping[str, Any]]) -> int:
    """Print on stderr which corpora failed and which have no floor; return the exit code."""
    for source, report in reports.items():
        if report.get("floor_note"):
            note = translate(str(report["floor_note"]))
            print_note(f"no floor for {source!r}: {note}")
        if report["status"] != "ok":
            print_note(f"{source!r} did not answer: {translate(str(report['error']))}")
    return int(any(report["status"] != "ok" for report in reports.values()))


async def expand(arguments: argparse.Namespace) -> int:
    """Print the passage around one surface."""
    name, artifact_id = corpus_and_word(arguments, "ARTIFACT_ID")
    check_count("--window", arguments.window)
    policy = discovery.WholeArtifact() if arguments.parent else discovery.SentenceWindow(arguments.window)
    hit = await _find_surface(name, artifact_id, arguments.surface_index)
    output.print_passage(await discovery.expand(hit, name, policy=policy), arguments.format)
    return 0


async def _find_surface(name: str, artifact_id: str, index: int) -> SearchHit:
    records = await corpora.records_for_artifact(name, artifact_id)
    for record in records:
        if record.surface_index == index:
            return record.as_hit(0.0, name)
    indexes = ", ".join(str(record.surface_index) for record in records) or "none"
    raise SeedNotFound(f"document {artifact_id!r} has no surface {index}; its surfaces: {indexes}")


async def calibrate(arguments: argparse.Namespace) -> int:
    """Find a floor and print it; `--save` stores it in the corpus."""
    name, file = corpus_and_word(arguments, "CASES.jsonl")
    result = await evaluation.calibrate_min_score(
        name,
        await in_thread(evaluation.load_cases, file),
        mode=arguments.mode,
        k=arguments.k,
        sensitivity_weight=arguments.sensitivity_weight,
        rerank=arguments.rerank,
        persist=arguments.save,
    )
    saved = arguments.save and result.min_score is not None
    output.print_calibration(result, arguments.format, saved=saved)
    if saved or not arguments.save:
        return 0
    print_note("nothing saved, because there is no floor")
    return 1
