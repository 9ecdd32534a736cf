"""The commands that find documents: search, traverse, discover, expand, calibrate.

Packages are imported whole, so that each command loads only the modules that it uses.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import airw
from airw import corpora, discovery, evaluation, walking
from airw._base.checks import check_count
from airw._base.concurrency import in_thread
from airw.cli import finding_output as output
from airw.cli.definitions import folders_of
from airw.cli.options import pick
from airw.cli.printing import print_note, write
from airw.cli.resolve import (
    choose_corpus,
    corpus_and_word,
    describe_missing_word,
    ensure_built,
    find_artifact_ids,
    parse_filter,
)
from airw.cli.wording import translate
from airw.errors import ArgumentError, SeedNotFound, StoreError
from airw.values import Limits, SearchHit, read_operators


@asynccontextmanager
async def _open(name: str, arguments: argparse.Namespace) -> AsyncIterator[corpora.Corpus]:
    """Open a corpus, with the embedder that was given, if any."""
    await ensure_built(name, arguments.embedder)
    async with corpora.open_corpus(name, **pick(arguments, "embedder")) as corpus:
        yield corpus


async def search(arguments: argparse.Namespace) -> int:
    """Rank the documents of a corpus and print them."""
    name, query = corpus_and_word(arguments)
    async with _open(name, arguments) as corpus:
        hits = await corpus.search(
            query,
            filter=parse_filter(arguments.filter),
            surfaces=arguments.surfaces.split(",") if arguments.surfaces else None,
            per_artifact=not arguments.all_surfaces,
            operators=not arguments.plain,
            **pick(arguments, "k", "mode", "fusion", "rerank", "rerank_text", "boost"),
        )
    output.print_hits(hits, _without_operators(query, arguments), arguments.format)
    return 0


def _without_operators(query: str, arguments: argparse.Namespace) -> str:
    """Return the words of a query, which choose the parts of documents that are shown."""
    return query if arguments.plain else read_operators(query).text


async def traverse(arguments: argparse.Namespace) -> int:
    """Walk along links, and print each hit when it is committed."""
    name, query = corpus_and_word(arguments)
    async with _open(name, arguments) as corpus:
        policy = await _policy(corpus, arguments)
        options = pick(arguments, "max_depth", "node_budget", "timeout")
        if arguments.count_beyond_limits:
            options["limits"] = Limits(count_beyond_limits=True)
        walk = airw.traverse(query, corpus, policy=policy, **options)
        if arguments.format == "html":
            await _print_page(walk)
            return 0
        printer = output.WalkPrinter(arguments.format)
        async with walk:
            async for hit in walk:
                printer.print_hit(hit)
        if walk.summary is not None:
            printer.print_summary(walk.summary)
    return 0


async def _policy(corpus: corpora.Corpus, arguments: argparse.Namespace) -> walking.WalkPolicy:
    from airw.cli.policies import documents_of, make_policy, parse_parameters
    from airw.policies.path_coverage import DEFAULT_POLICY
    from airw.policies.specs import name_of, with_operators

    name = arguments.policy or name_of(DEFAULT_POLICY)
    parameters = parse_parameters(name, arguments.set)
    for key, words in documents_of(parameters).items():
        parameters[key] = await find_artifact_ids(corpus, words)
    policy = make_policy(name, parameters, start=arguments.start, direction=arguments.direction)
    return policy if arguments.plain or "operators" in parameters else with_operators(policy)


async def _print_page(walk: walking.Walk) -> None:
    from airw import views
    from airw.policies.specs import name_of

    try:
        tree = await views.read_tree(walk)
    except ArgumentError as error:
        if "reports no edge" not in str(error):
            raise
        # A walk down to parts of documents, or along equal fields, reports no links that could be drawn.
        advice = "use --format text or json"
        raise ArgumentError(
            f"--format html draws links, and this walk of {name_of(walk.policy)} follows none; {advice}"
        ) from error
    write(await in_thread(views.tree_page, tree))


async def discover(arguments: argparse.Namespace) -> int:
    """Search the corpora, print each answer as it comes, then the committed documents."""
    *sources, query = arguments.words
    names = [*sources, *arguments.corpus]
    if not names:
        if missing := describe_missing_word(query):
            raise ArgumentError(missing)
        names = [choose_corpus(None)]
    if arguments.expand is not None:
        check_count("--expand", arguments.expand)
    options = {**_options(arguments), "roots": _roots(arguments, names)}
    names = [await ensure_built(name, arguments.embedder) for name in names]
    shown = _without_operators(query, arguments)
    printer = output.DiscoveryPrinter(arguments.format, shown, many=len(names) > 1)
    reports: dict[str, Mapping[str, Any]] = {}
    async with (
        _open_all(names, arguments.embedder) as members,
        discovery.discover_stream(members if len(names) > 1 else members[0], query, **options) as updates,
    ):
        async for update in updates:
            if isinstance(update, discovery.DiscoveryResult):
                printer.print_result(update)
            else:
                reports[update.source] = update.report
                printer.print_answer(update)
    return _report_failures(reports, floors=arguments.min_score == "auto")


@asynccontextmanager
async def _open_all(names: Sequence[str], embedder: str | None) -> AsyncIterator[list[corpora.Corpus | str]]:
    """Open corpora with an embedder that was given; else the discovery opens them by name."""
    async with AsyncExitStack() as stack:
        members: list[corpora.Corpus | str] = list(names)
        for place, name in enumerate(names) if embedder is not None else ():
            try:
                members[place] = await stack.enter_async_context(corpora.open_corpus(name, embedder=embedder))
            except StoreError:
                # The discovery fails to open it, too: it reports the error and asks the other corpora.
                continue
        yield members


def _roots(arguments: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Return the folders whose files may be read: those given, else those of the corpora."""
    level = arguments.disclose or "metadata"
    if arguments.root or level == "metadata":
        return list(arguments.root)
    roots = [folder for name in names for folder in folders_of(name)]
    if not roots:
        raise ArgumentError(
            f"--disclose {level} reads files; name the folder that contains them with --root FOLDER, because "
            f"{', '.join(map(repr, names))} is not registered with one"
        )
    return roots


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    options = pick(
        arguments,
        *("k", "mode", "fusion", "strategy", "max_k", "rel", "min_score", "rerank", "rerank_text"),
        *("boost", "source_timeout", "timeout"),
        disclose_level="disclose",
    )
    if options.get("min_score") == "none":
        options["min_score"] = None
    expand = {} if arguments.expand is None else {"expand": discovery.SentenceWindow(arguments.expand)}
    return {**options, **expand, "filter": parse_filter(arguments.filter), "operators": not arguments.plain}


def _report_failures(reports: Mapping[str, Mapping[str, Any]], *, floors: bool) -> int:
    """Print on stderr which corpora failed or lack a requested floor; return the exit code."""
    for source, report in reports.items():
        if floors and report.get("floor_note"):
            note = translate(str(report["floor_note"]))
            print_note(f"no floor for {source!r}: {note}")
        if report["status"] != "ok":
            fault = "answered in part" if report["n_retrieved"] else "did not answer"
            print_note(f"{source!r} {fault}: {translate(str(report['error']))}")
    return int(any(report["status"] != "ok" for report in reports.values()))


async def expand(arguments: argparse.Namespace) -> int:
    """Print the passage around one surface."""
    name, artifact_id = corpus_and_word(arguments, "ARTIFACT_ID")
    window = pick(arguments, k="window")
    if window:
        check_count("--window", window["k"])
    policy = discovery.WholeArtifact() if arguments.parent else discovery.SentenceWindow(**window)
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
    cases = await in_thread(evaluation.load_cases, file)
    async with _open(name, arguments) as corpus:
        result = await evaluation.calibrate_min_score(
            corpus,
            cases,
            persist=arguments.save,
            **pick(arguments, "mode", "k", "sensitivity_weight", "fusion", "rerank", "rerank_text"),
        )
    saved = arguments.save and result.min_score is not None
    output.print_calibration(result, arguments.format, saved=saved)
    if saved or not arguments.save:
        return 0
    print_note("nothing saved, because there is no floor")
    return 1
