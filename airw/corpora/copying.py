"""Copies of a corpus: backups, and how one takes the place of a corpus."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import overload

from airw._base.concurrency import in_thread
from airw.corpora.naming import find_corpus_path
from airw.corpora.places import CorpusAddress, Place, find_location, locate, open_store
from airw.errors import ArgumentError, StoreCorrupt, StoreError
from airw.protocols import ArtifactIds, Artifacts, Calibrations, Change, Config, Store, TextLanguage, ask
from airw.stores import SqliteStore, check_file, copy_file, is_server_address, refuse_mistaken_address, replace_file
from airw.values import Language

_PAGE = 256  # artifacts that are read and written at once


@overload
async def copy_corpus(
    name_or_path: str | os.PathLike[str], target: os.PathLike[str], *, replace: bool = False
) -> Path: ...
@overload
async def copy_corpus(
    name_or_path: str | os.PathLike[str], target: str | os.PathLike[str], *, replace: bool = False
) -> Path | CorpusAddress: ...
async def copy_corpus(
    name_or_path: str | os.PathLike[str], target: str | os.PathLike[str], *, replace: bool = False
) -> Path | CorpusAddress:
    """Copy a corpus to a file or a server, and return where the copy is.

    The copy shows the corpus at one moment. Others may search and change the corpus meanwhile. A plain copy of the file
    would lack the writes that are still in the log beside it. The copy is a corpus like any other: `open_corpus` opens
    it. At every moment the target is whole, or as it was before.

    Between a file and a server, all artifacts are copied, with their vectors, links and names, and the settings and
    calibrations. The rows of an ingest that is not finished are not.

    Args:
        name_or_path: The name of the corpus, the path of its file, or its address on a server.
        target: The path of the copy, whose folder must exist; or its address. Without `#name`, an address gets the name
            of the corpus.
        replace: Whether to replace a corpus at the target.

    Raises:
        ArgumentError: If the copy would replace the corpus itself.
        CorpusNotFound: If there is no such corpus.
        StoreBusy: If a builder holds the lock of the target for more than 30 seconds.
        StoreError: If the target exists and `replace` is false, or a file or server cannot be read or written.

    Example:
        >>> import anyio, tempfile
        >>> from airw.corpora import build, open_corpus
        >>> from airw.protocols import ArtifactIds, ask
        >>> from airw.sources import from_mapping
        >>> async def main(folder):
        ...     async with build(from_mapping({"a": "signing keys"}, name="notes"), embedder="light") as corpus:
        ...         backup = await copy_corpus("notes", folder / "backup.airw")
        ...         await corpus.delete(["a"])
        ...         await restore_corpus("notes", backup)
        ...         return await ask(corpus.store, ArtifactIds())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, Path(folder))
        ['a']
    """
    source = find_location(name_or_path)
    place = _place_of_copy(target, source.default_name)
    await _copy(source.place, place, replace=replace)
    return place


async def restore_corpus(name_or_path: str | os.PathLike[str], copy: str | os.PathLike[str]) -> Path | CorpusAddress:
    """Put a copy of a corpus in the place of the corpus, and return where the corpus is.

    The copy is checked first, and stays as it is. Builders and writers wait. Whoever has the corpus open continues with
    the restored one. At every moment, there is one of the two at the path. The corpus need not exist.

    Args:
        name_or_path: The name of the corpus to replace, the path of its file, or its address on a server.
        copy: The path of the copy, or its address. Without `#name`, an address gets the name of the corpus.

    Raises:
        ArgumentError: If the copy is the corpus itself.
        CorpusNotFound: If there is no corpus at `copy`.
        StoreCorrupt: If the copy is damaged.
        StoreBusy: If a builder holds the lock of the corpus for more than 30 seconds.
        StoreError: If a file or server cannot be read or written.
    """
    target = locate(name_or_path)
    source = _place_of_copy(copy, target.default_name)
    if isinstance(source, Path) and (faults := await check_file(source)):
        raise StoreCorrupt(f"the copy {os.fspath(source)!r} is damaged ({faults[0]}); use another one")
    if isinstance(target.place, Path):
        await in_thread(_make_folder, target.place.parent)
    await _copy(source, target.place, replace=True)
    return target.place


def _place_of_copy(target: str | os.PathLike[str], name: str) -> Place:
    """Return where a copy is: a string that is no address is a path, also without a separator."""
    if isinstance(target, str) and is_server_address(target):
        return locate(target, name).place
    refuse_mistaken_address("the place of a copy", os.fspath(target))
    return Path(target)


async def _copy(source: Place, target: Place, *, replace: bool) -> None:
    if isinstance(source, Path) and isinstance(target, Path):
        await copy_file(source, target, replace=replace)
        return
    if source == target:
        raise ArgumentError(f"source and target are the same corpus: {str(target)!r}")
    async with (
        await open_store(source) as store,
        store.snapshot() as content,
        _replace(target, await ask(content, TextLanguage()), replace=replace) as new,
    ):
        await _write(content, new)


@asynccontextmanager
async def _replace(target: Place, language: Language | None, *, replace: bool) -> AsyncIterator[Store]:
    """Yield an empty store, which takes the place of the target at the end of the block."""
    if isinstance(target, Path):
        async with (
            replace_file(target, replace=replace) as partial,
            SqliteStore(partial, durability="full", language=language) as store,
        ):
            yield store
    else:
        from airw.stores import PostgresStore

        replacing = PostgresStore.replace_corpus(target.server, target.name, replace=replace, language=language)
        async with replacing as store:
            yield store


async def _write(content: Store, store: Store) -> None:
    """Write the whole content of another store."""
    ids = await ask(content, ArtifactIds())
    for first in range(0, len(ids), _PAGE):
        artifacts = await ask(content, Artifacts(ids[first : first + _PAGE]))
        await store.apply(Change([artifact for artifact in artifacts if artifact is not None]))
    for key, calibration in (await ask(content, Calibrations())).items():
        await store.apply(Change(calibrations={key: calibration}))
    await store.apply(Change(config=await ask(content, Config())))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the folder {str(folder)!r} cannot be made: {error.strerror}") from error


async def check_corpus_file(name_or_path: str | os.PathLike[str]) -> list[str]:
    """Return what is damaged in the file of a corpus; an empty list if it is whole.

    Every page, row, vector and posting is read, which takes about as long as reading the file.

    Raises:
        CorpusNotFound: If there is no such corpus.
        StoreCorrupt: If the file is of another application or a newer version.
        StoreError: If it cannot be read.
    """
    return await check_file(find_corpus_path(name_or_path))
