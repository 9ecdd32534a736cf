"""The commands that keep corpora and models: each opens what it needs, works, prints, and returns an exit code."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from functools import partial

from airw import corpora, embedders, stores
from airw.cli import output
from airw.cli.definitions import (
    definition_of_path,
    given_params,
    given_strategy,
    given_upkeep,
    is_path,
    registered_as,
    registered_or_preset,
)
from airw.cli.resolve import chosen, known_names, named
from airw.corpora.registry import save_definition
from airw.errors import ArgumentError, CorpusNotFound, StoreError
from airw.protocols import EmbedderLike


async def register(arguments: argparse.Namespace) -> int:
    """Register a definition and say what it is."""
    definition = await corpora.register(
        arguments.name,
        arguments.kind,
        embedder=arguments.embedder,
        strategy=given_strategy(arguments.strategy),
        maintenance=given_upkeep(arguments),
        **given_params(arguments),
    )
    output.registered(definition)
    return 0


async def build_corpus(arguments: argparse.Namespace) -> int:
    """Build a corpus, with progress on a terminal, report, and remember where it comes from."""
    return await (_build_path if is_path(arguments.source) else _build_named)(arguments)


async def _build_named(arguments: argparse.Namespace) -> int:
    if arguments.name:
        raise ArgumentError(f"--name says what to call what lies at a path, and {arguments.source!r} is a name")
    known = registered_or_preset(arguments.source)
    build_known = partial(corpora.build_corpus, known.name, embedder=arguments.embedder)
    code, embedder = await _built(known.name, build_known, arguments)
    await _remember(dataclasses.replace(known, embedder=embedder))
    return code


async def _build_path(arguments: argparse.Namespace) -> int:
    if arguments.source in corpora.PRESETS:
        output.shadowed(arguments.source)
    given = definition_of_path(arguments.source, arguments.name)
    known = registered_as(given.name)
    if known is not None and (known.kind, known.params) == (given.kind, given.params):
        given, embedder = known, arguments.embedder or known.embedder
    else:
        embedder = arguments.embedder or await _embedder_of(given.name) or given.embedder
    build_given = partial(corpora.build, given.source(), store=given.name, embedder=embedder)
    code, used = await _built(given.name, build_given, arguments)
    await _remember(dataclasses.replace(given, embedder=used))
    if known is not None and known is not given:
        output.replaced(known, given)
    return code


async def _embedder_of(name: str) -> EmbedderLike | None:
    """Give the embedder that a corpus was built with, so that a second build needs no flag."""
    try:
        async with corpora.open_corpus(name) as corpus:
            return corpus.embedder
    except CorpusNotFound:
        return None


async def _built(
    name: str, opening: Callable[..., corpora.Opening[corpora.Corpus]], arguments: argparse.Namespace
) -> tuple[int, str]:
    """Build and report; give the exit code, and the specification of the embedder."""
    with output.progress(f"building {name}") as report_progress:
        building = opening(
            full=not arguments.no_prune, force=arguments.force, progress=report_progress, on_error="skip"
        )
        async with building as corpus:
            report, counts, config = corpus.report, await corpus.store.counts(), await corpus.store.config()
            unresolved = await corpus.store.unresolved_links() if arguments.verbose else None
    output.built(name, corpora.corpus_path(name), report, counts, unresolved)
    problems = report.problems if report else ()
    output.problems(problems, verbose=arguments.verbose)
    return int(any(problem.lost for problem in problems)), str(config["embedder"])


async def _remember(definition: corpora.Definition) -> None:
    """Register what was built, unless that is what is registered."""
    if corpora.list_corpora().get(definition.name) != definition:
        await save_definition(definition)


async def ls(_: argparse.Namespace) -> int:
    """List the corpora of the home folder, and those that are registered and not built yet."""
    built, names, code = set(corpora.corpus_names()), known_names(), 0
    for name in names:
        if name not in built:
            output.unbuilt(corpora.list_corpora()[name])
            continue
        try:
            async with await stores.SqliteStore.open(corpora.corpus_path(name)) as store:
                output.corpus_line(name, await store.counts(), await store.config())
        except StoreError as error:  # the others are listed all the same
            output.unreadable(name, error)
            code = 1
    if not names:
        print("no corpora yet; `airw build FOLDER` makes one")
    return code


async def info(arguments: argparse.Namespace) -> int:
    """Show one corpus."""
    name = chosen(named(arguments), known_names())
    definition = registered_as(name) if corpora.is_corpus_name(name) else None
    if definition is not None and not corpora.corpus_path(name).exists():
        about = output.About(definition.name, corpora.corpus_path(definition.name), definition=definition)
    else:
        path = corpora.find_corpus_path(name)
        async with await stores.SqliteStore.open(path) as store:
            counts, config, floors = await store.counts(), await store.config(), await store.calibration()
            links = await store.link_counts()
        about = output.About(path.stem, path, path.stat().st_size, counts, config, floors, definition, links)
    output.info(about, arguments.format)
    return 0


async def rm(arguments: argparse.Namespace) -> int:
    """Remove one corpus's file, once no builder holds it, and forget where it came from."""
    name = arguments.name
    if not corpora.is_corpus_name(name):
        raise ArgumentError(
            f"rm takes the name of a corpus, not {name!r}; remove a file of your own with your own tools"
        )
    known, removed = registered_as(name), []
    if known is None or corpora.corpus_path(name).exists():
        path = corpora.find_corpus_path(name)
        await stores.SqliteStore.remove(path)
        removed.append(str(path))
    if known is not None:
        await corpora.unregister(known.name)
        removed.append("its registration")
    print(f"removed {corpora.corpus_path(name).stem if known is None else known.name}: {' and '.join(removed)}")
    return 0


async def maintain(arguments: argparse.Namespace) -> int:
    """Bring one corpus, or all that are due, up to date, and tell of each."""
    with output.progress_of_many("maintaining") as report_progress:
        report = await corpora.maintain(named(arguments), dry_run=arguments.dry_run, progress=report_progress)
    output.maintained(report, arguments.format)
    if report.failed:
        print(f"airw: {len(report.failed)} of {len(report.corpora)} corpora failed", file=sys.stderr)
    return int(not report.ok)


async def coverage(arguments: argparse.Namespace) -> int:
    """Compare a corpus with its source."""
    found = await corpora.coverage(chosen(named(arguments), corpora.list_corpora()))
    output.covered(found, arguments.format, verbose=arguments.verbose)
    return int(bool(found.missing) or any(problem.lost for problem in found.problems))


async def export(arguments: argparse.Namespace) -> int:
    """Export a model and report."""
    output.exported(await embedders.export_model(arguments.folder, to=arguments.to))
    return 0
