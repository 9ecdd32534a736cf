"""The commands that build and maintain corpora.

Each command opens what it needs, does its work, prints, and returns an exit code.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from airw import corpora, stores
from airw.cli import output
from airw.cli.definitions import (
    definition_from_path,
    extractor_of_site,
    find_registered,
    find_registered_or_preset,
    is_path,
    maintenance_settings,
    parse_strategy,
    source_params,
)
from airw.cli.options import pick
from airw.cli.printing import print_line, print_note
from airw.cli.progress import show_progress
from airw.cli.resolve import choose_corpus, corpus_argument, list_names
from airw.corpora.definitions import embedder_to_spec
from airw.corpora.registry import save_definition
from airw.errors import AirwError, ArgumentError, CorpusNotFound, StoreError
from airw.links import CorpusGraph
from airw.protocols import Calibrations, Config, Counts, EmbedderLike, Store, TextLanguage, ask


async def register(arguments: argparse.Namespace) -> int:
    """Register the definition of a corpus and print it."""
    definition = await corpora.register(
        arguments.name,
        arguments.kind,
        **pick(arguments, "embedder"),
        strategy=parse_strategy(arguments.strategy),
        maintenance=maintenance_settings(arguments),
        store=arguments.store,
        **source_params(arguments),
    )
    output.print_registration(definition)
    return 0


async def build_corpus(arguments: argparse.Namespace) -> int:
    """Build a corpus, show progress on a terminal, print a report, and register its source."""
    return await (_build_path if is_path(arguments.source) else _build_named)(arguments)


async def _build_named(arguments: argparse.Namespace) -> int:
    if arguments.name:
        raise ArgumentError(f"--name names the corpus of a path, but {arguments.source!r} is already a name; omit it")
    if arguments.pattern is not None or arguments.hidden or arguments.root is not None:
        raise ArgumentError(
            f"--pattern, --hidden and --root are about a folder, but {arguments.source!r} is the name of a corpus; "
            "build its folder, or change its registration with `airw register`"
        )
    definition = find_registered_or_preset(arguments.source)
    store = arguments.store or definition.store
    # Checked before anything is built: the name leads there from now on.
    definition = dataclasses.replace(definition, store=store)
    opening = partial(corpora.build_corpus, definition.name, embedder=arguments.embedder, **pick(arguments, "store"))
    async with _keep_name(definition):
        code, embedder = await _run_build(definition.name, store, opening, arguments)
    await _register_if_new(dataclasses.replace(definition, embedder=embedder))
    return code


async def _build_path(arguments: argparse.Namespace) -> int:
    if arguments.source in corpora.PRESETS:
        output.warn_preset_hidden(arguments.source)
    chosen = {"pattern": arguments.pattern, "hidden": arguments.hidden or None}
    definition = definition_from_path(arguments.source, arguments.name, chosen)
    registered = find_registered(definition.name)
    root = definition.params.get("root")
    if root and registered is not None and (registered.kind, registered.params.get("root")) == ("notes", root):
        definition = dataclasses.replace(registered, params={**registered.params, **definition.params})
    if arguments.root is not None:
        params = {**definition.params, "edge_extractor": extractor_of_site(definition, arguments.root)}
        definition = dataclasses.replace(definition, params=params)
    # The name of a corpus keeps leading to its server, whichever folder it is built from.
    store = arguments.store or (registered.store if registered is not None else None)
    # A second build of the same source keeps the registered settings; another source gets new ones, but
    # keeps the embedder of the corpus, so that the vectors still match.
    if registered is not None and (registered.kind, registered.params) == (definition.kind, definition.params):
        definition = registered
        embedder = arguments.embedder or registered.embedder
    else:
        embedder = arguments.embedder or await _embedder_of(definition.name, store) or definition.embedder
    definition = dataclasses.replace(definition, store=store)
    opening = partial(corpora.build, definition.source(), store=store or definition.name, embedder=embedder)
    known = dataclasses.replace(definition, embedder=embedder_to_spec(embedder)) if isinstance(embedder, str) else None
    async with _keep_name(known or definition):
        code, used = await _run_build(definition.name, store, opening, arguments)
    await _register_if_new(dataclasses.replace(definition, embedder=used))
    if registered is not None and (registered.kind, registered.params) != (definition.kind, definition.params):
        output.print_replacement(registered, definition)
    return code


async def _embedder_of(name: str, store: str | None) -> EmbedderLike | None:
    """Return the embedder of a corpus, so that a second build needs no option."""
    try:
        async with corpora.open_corpus(str(corpora.locate(store or name, name).place)) as corpus:
            return corpus.embedder
    except CorpusNotFound:
        return None


async def _run_build(
    name: str, store: str | None, opening: Callable[..., corpora.Opening[corpora.Corpus]], arguments: argparse.Namespace
) -> tuple[int, str]:
    """Build and print a report; return the exit code and the specification of the embedder."""
    with show_progress(f"building {name}") as show:
        building = opening(
            full=not arguments.no_prune,
            force=arguments.force,
            progress=partial(show, name),
            on_error="skip",
            language={None: "auto", "none": None}.get(arguments.language, arguments.language),
        )
        async with building as corpus:
            report, counts, config = corpus.report, await _count(corpus.store), await ask(corpus.store, Config())
            unresolved = await CorpusGraph(corpus).unresolved_links() if arguments.verbose else None
    place = corpora.locate(store or name, name).place
    output.print_build_report(name, place, report, counts, unresolved)
    problems = report.problems if report else ()
    output.print_problems(problems, verbose=arguments.verbose)
    return int(any(problem.lost for problem in problems)), str(config["embedder"])


@asynccontextmanager
async def _keep_name(definition: corpora.Definition) -> AsyncIterator[None]:
    """Register a corpus on a server while it is built, so that a killed build can be found."""
    is_new = definition.store is not None and find_registered(definition.name) is None
    if is_new:
        await save_definition(definition)
    try:
        yield
    except AirwError:
        if is_new and not await _is_built(definition.name):
            await corpora.unregister(definition.name)
        raise


async def _is_built(name: str) -> bool:
    try:
        async with corpora.use_store(name):
            return True
    except AirwError:
        return False


async def _register_if_new(definition: corpora.Definition) -> None:
    """Register a definition, unless it is registered already."""
    if corpora.list_corpora().get(definition.name) != definition:
        await save_definition(definition)


async def ls(_: argparse.Namespace) -> int:
    """List the corpora of the home folder, and those that are registered but not built yet."""
    built, names = set(corpora.corpus_names()), list_names()
    code = 0
    for name in names:
        if name not in built:
            output.print_unbuilt_corpus(corpora.list_corpora()[name])
            continue
        try:
            async with corpora.use_store(name) as (spelling, store):
                output.print_corpus_line(spelling, await _count(store), await ask(store, Config()))
        except CorpusNotFound as error:
            # Registered on a server, but not built there yet; or a file that was never completed.
            if (definition := find_registered(name)) is not None:
                output.print_unbuilt_corpus(definition)
            else:
                output.print_unreadable_corpus(name, error)
        except AirwError as error:
            # One damaged file, missing server or bad registration must not hide the other corpora.
            output.print_unreadable_corpus(name, error)
            code = 1
    if not names:
        print_line("no corpora yet; `airw build FOLDER` builds one")
    return code


async def info(arguments: argparse.Namespace) -> int:
    """Show one corpus."""
    name = choose_corpus(corpus_argument(arguments), list_names())
    definition = find_registered(name) if corpora.is_corpus_name(name) else None
    place, _ = corpora.locate(name)
    try:
        place, spelling = corpora.find_location(name)
        if arguments.check:
            return await _print_check(place)
        async with corpora.use_store(name) as (known, store):
            about = await _read_about(spelling or known, place, definition, store)
    except CorpusNotFound:
        if definition is None:
            raise
        about = output.About(definition.name, place, definition=definition)
    output.print_info(about, arguments.format)
    return 0


async def _count(store: Store) -> dict[str, int]:
    """Return the counts of a corpus.

    Links that lead to files or out of the folder do not count as dangling.
    """
    counts = {**await ask(store, Counts()), "dangling": 0, "file": 0, "outside": 0}
    for count in await CorpusGraph(store).link_counts():
        if count.state in {"dangling", "file", "outside"}:
            counts[count.state] += count.count
    return counts


async def _read_about(
    name: str, place: corpora.Place, definition: corpora.Definition | None, store: Store
) -> output.About:
    """Return everything that `info` shows of a corpus that is built."""
    return output.About(
        name,
        place,
        is_built=True,
        bytes=place.stat().st_size if isinstance(place, Path) else None,
        counts=await _count(store),
        config=await ask(store, Config()),
        calibrations=await ask(store, Calibrations()),
        definition=definition,
        links=await CorpusGraph(store).link_counts(),
        language=await ask(store, TextLanguage()),
    )


async def copy(arguments: argparse.Namespace) -> int:
    """Copy a corpus to a file or a server."""
    place = await corpora.copy_corpus(arguments.name, arguments.target, replace=arguments.force)
    print_line(f"copied {arguments.name} to {place}")
    return 0


async def restore(arguments: argparse.Namespace) -> int:
    """Put a copy in the place of a corpus."""
    place = await corpora.restore_corpus(arguments.name, arguments.source)
    print_line(f"restored {arguments.name} from {arguments.source}: {place}")
    return 0


async def _print_check(place: corpora.Place) -> int:
    """Check the file of a corpus and print what is damaged in it."""
    if not isinstance(place, Path):
        raise ArgumentError(f"--check reads a corpus file; {str(place)!r} is on a server, which checks its own disks")
    faults = await corpora.check_corpus_file(place)
    for fault in faults:
        print_line(f"damaged: {fault}")
    if not faults:
        print_line(f"{place} is whole")
    return int(bool(faults))


async def rm(arguments: argparse.Namespace) -> int:
    """Remove one corpus, once nothing builds it, and its registration."""
    name = arguments.name
    if not corpora.is_corpus_name(name) and not stores.is_server_address(name):
        raise ArgumentError(
            f"rm takes the name of a corpus, or its address on a server, not {name!r}; delete other files with the "
            "tools of your system"
        )
    registered = find_registered(name) if corpora.is_corpus_name(name) else None
    removed = []
    try:
        place = await corpora.remove_corpus(name)
        removed.append(str(place))
    except CorpusNotFound:
        if registered is None:
            raise
    except AirwError as error:
        if registered is None or registered.store is None:
            raise
        forget = f'python -c "import anyio, airw; anyio.run(airw.corpora.unregister, {registered.name!r})"'
        raise StoreError(f"{error}; to forget only its registration: {forget}") from error
    if registered is not None:
        await corpora.unregister(registered.name)
        removed.append("its registration")
        called = registered.name
    else:
        called = corpora.locate(name).default_name
    print_line(f"removed {called}: {' and '.join(removed)}")
    return 0


async def maintain(arguments: argparse.Namespace) -> int:
    """Update one corpus, or all that are due, and print a line for each."""
    with show_progress("maintaining") as show:
        report = await corpora.maintain(corpus_argument(arguments), dry_run=arguments.dry_run, progress=show)
    output.print_maintenance_report(report, arguments.format)
    if report.failed:
        print_note(f"{len(report.failed)} of {len(report.corpora)} corpora failed")
    return int(not report.ok)


async def coverage(arguments: argparse.Namespace) -> int:
    """Compare a corpus with its source."""
    report = await corpora.coverage(choose_corpus(corpus_argument(arguments), corpora.list_corpora()))
    output.print_coverage(report, arguments.format, verbose=arguments.verbose)
    return int(bool(report.missing) or any(problem.lost for problem in report.problems))
