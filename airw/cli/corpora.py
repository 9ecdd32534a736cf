"""The commands that keep corpora: each opens what it needs, works, prints, and gives an exit code."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from airw import corpora as registry
from airw.cli import inventory, output
from airw.cli.choosing import chosen, known_names, named
from airw.cli.registering import (
    definition_of_path,
    given_params,
    given_strategy,
    given_upkeep,
    is_path,
    registered_as,
    registered_or_preset,
)
from airw.corpora import (
    Corpus,
    Definition,
    Opening,
    build,
    corpus_names,
    corpus_path,
    existing_path,
    is_name,
    open_corpus,
)
from airw.corpora.registry import put
from airw.errors import ArgumentError, CorpusNotFound, StoreError
from airw.protocols import EmbedderLike
from airw.stores import SqliteStore

__all__ = ["build_corpus", "info", "ls", "ready", "register", "rm"]


async def register(arguments: argparse.Namespace) -> int:
    """Register a definition and say what it is."""
    definition = await registry.register(
        arguments.name,
        arguments.kind,
        embedder=arguments.embedder,
        strategy=given_strategy(arguments.strategy),
        maintenance=given_upkeep(arguments),
        **given_params(arguments),
    )
    inventory.registered(definition)
    return 0


async def build_corpus(arguments: argparse.Namespace) -> int:
    """Build a corpus, with progress on a terminal, report, and remember where it comes from."""
    return await (_build_path if is_path(arguments.source) else _build_named)(arguments)


async def _build_named(arguments: argparse.Namespace) -> int:
    if arguments.name:
        raise ArgumentError(f"--name says what to call what lies at a path, and {arguments.source!r} is a name")
    known = registered_or_preset(arguments.source)
    build_known = partial(registry.build_corpus, known.name, embedder=arguments.embedder)
    code, embedder = await _built(known.name, build_known, arguments)
    await _remember(replace(known, embedder=embedder))
    return code


async def _build_path(arguments: argparse.Namespace) -> int:
    if arguments.source in registry.PRESETS:
        inventory.shadowed(arguments.source)
    given = definition_of_path(arguments.source, arguments.name)
    known = registered_as(given.name)
    if known is not None and (known.kind, known.params) == (given.kind, given.params):
        given, embedder = known, arguments.embedder or known.embedder
    else:
        embedder = arguments.embedder or await _embedder_of(given.name) or given.embedder
    build_given = partial(build, given.source(), store=given.name, embedder=embedder)
    code, used = await _built(given.name, build_given, arguments)
    await _remember(replace(given, embedder=used))
    if known is not None and known is not given:
        inventory.replaced(known, given)
    return code


async def _embedder_of(name: str) -> EmbedderLike | None:
    """Give the embedder that a corpus was built with, so that a second build needs no flag."""
    try:
        async with open_corpus(name) as corpus:
            return corpus.embedder
    except CorpusNotFound:
        return None


async def _built(name: str, opening: Callable[..., Opening[Corpus]], arguments: argparse.Namespace) -> tuple[int, str]:
    """Build and report; give the exit code, and the specification of the embedder."""
    with output.progress(f"building {name}") as report_progress:
        building = opening(
            full=not arguments.no_prune, force=arguments.force, progress=report_progress, on_error="skip"
        )
        async with building as corpus:
            report, counts, config = corpus.report, await corpus.store.counts(), await corpus.store.config()
            unresolved = await corpus.store.unresolved() if arguments.verbose else None
    output.built(name, corpus_path(name), report, counts, unresolved)
    problems = report.problems if report else ()
    output.problems(problems, verbose=arguments.verbose)
    return int(any(problem.lost for problem in problems)), str(config["embedder"])


async def _remember(definition: Definition) -> None:
    """Register what was built, unless that is what is registered."""
    if registry.list_corpora().get(definition.name) != definition:
        await put(definition)


async def ready(name: str) -> str:
    """Give a name back once it can be asked: a preset that was never built is built first, which is said."""
    if is_name(name) and name.casefold() in registry.PRESETS and not corpus_path(name).exists():
        print(f"airw: {name!r} was never built; building it now", file=sys.stderr)
        async with registry.build_corpus(name, on_error="skip") as corpus:
            found = corpus.report.problems if corpus.report else ()
        output.problems([problem for problem in found if problem.lost], verbose=True)
    return name


async def ls(_: argparse.Namespace) -> int:
    """List the corpora of the home folder, and those that are registered and not built yet."""
    built, names, code = set(corpus_names()), known_names(), 0
    for name in names:
        if name not in built:
            inventory.unbuilt(registry.list_corpora()[name])
            continue
        try:
            async with await SqliteStore.open(corpus_path(name)) as store:
                output.corpus_line(name, await store.counts(), await store.config())
        except StoreError as error:  # the others are listed all the same
            inventory.unreadable(name, error)
            code = 1
    if not names:
        print("no corpora yet; `airw build FOLDER` makes one")
    return code


async def info(arguments: argparse.Namespace) -> int:
    """Show one corpus."""
    name = chosen(named(arguments), known_names())
    definition = registered_as(name) if is_name(name) else None
    if definition is not None and not corpus_path(name).exists():
        about = inventory.About(definition.name, corpus_path(definition.name), definition=definition)
    else:
        path = existing_path(name)
        async with await SqliteStore.open(path) as store:
            counts, config, floors = await store.counts(), await store.config(), await store.calibration()
            links = await store.link_counts()
        about = inventory.About(path.stem, path, path.stat().st_size, counts, config, floors, definition, links)
    inventory.info(about, arguments.format)
    return 0


async def rm(arguments: argparse.Namespace) -> int:
    """Remove one corpus's file, once no builder holds it, and forget where it came from."""
    name = arguments.name
    if not is_name(name):
        raise ArgumentError(
            f"rm takes the name of a corpus, not {name!r}; remove a file of your own with your own tools"
        )
    known, removed = registered_as(name), []
    if known is None or corpus_path(name).exists():
        path = existing_path(name)
        await SqliteStore.remove(path)
        removed.append(str(path))
    if known is not None:
        await registry.unregister(known.name)
        removed.append("its registration")
    print(f"removed {corpus_path(name).stem if known is None else known.name}: {' and '.join(removed)}")
    return 0
