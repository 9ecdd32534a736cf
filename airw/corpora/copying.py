"""Copies of a corpus: backups, and how one takes the place of a corpus."""

import os
from pathlib import Path

from airw._base.concurrency import in_thread
from airw.corpora.naming import corpus_path, find_corpus_path
from airw.errors import StoreCorrupt, StoreError
from airw.stores import check_file, copy_file


async def copy_corpus(
    name_or_path: str | os.PathLike[str], target: str | os.PathLike[str], *, replace: bool = False
) -> Path:
    """Copy a corpus to one file, in the state of one moment, and return the path of the copy.

    Others may search and change the corpus meanwhile. A plain copy of the file would lack the writes that are still in
    the log beside it. The copy is a corpus like any other: `open_corpus` opens it.

    Args:
        name_or_path: The name of the corpus, or the path of its file.
        target: The path of the copy; its folder must exist.
        replace: Whether to replace a corpus at the target.

    Raises:
        ArgumentError: If the copy would replace the corpus itself.
        CorpusNotFound: If there is no such corpus.
        StoreBusy: If a builder holds the lock of the target for more than 30 seconds.
        StoreError: If the target exists and `replace` is false, or a file cannot be read or written.

    Example:
        >>> import anyio, tempfile
        >>> from airw.corpora import build, open_corpus
        >>> from airw.sources import from_mapping
        >>> async def main(folder):
        ...     async with build(from_mapping({"a": "signing keys"}, name="notes"), embedder="light") as corpus:
        ...         backup = await copy_corpus("notes", folder / "backup.airw")
        ...         await corpus.delete(["a"])
        ...         await restore_corpus("notes", backup)
        ...         return await corpus.store.artifact_ids()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, Path(folder))
        ['a']
    """
    copy = Path(target)
    await copy_file(find_corpus_path(name_or_path), copy, replace=replace)
    return copy


async def restore_corpus(name_or_path: str | os.PathLike[str], copy: str | os.PathLike[str]) -> Path:
    """Put a copy of a corpus in the place of the corpus, and return the path of the corpus.

    The copy is checked first, and stays as it is. Builders and writers wait. Whoever has the corpus open continues with
    the restored one. At every moment, there is one of the two at the path. The corpus need not exist.

    Args:
        name_or_path: The name of the corpus to replace, or the path of its file.
        copy: The path of the copy.

    Raises:
        ArgumentError: If the copy is the corpus itself.
        CorpusNotFound: If there is no corpus at `copy`.
        StoreCorrupt: If the copy is damaged.
        StoreBusy: If a builder holds the lock of the corpus for more than 30 seconds.
        StoreError: If a file cannot be read or written.
    """
    path = corpus_path(name_or_path)
    if faults := await check_file(Path(copy)):
        raise StoreCorrupt(f"the copy {os.fspath(copy)!r} is damaged ({faults[0]}); use another one")
    await in_thread(_make_folder, path.parent)
    await copy_file(Path(copy), path, replace=True)
    return path


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
