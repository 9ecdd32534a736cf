"""The exam of a store of one's own, which a function in a file opens."""

import runpy
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio

from airw._base.messages import error_text, short_repr
from airw.errors import ArgumentError
from airw.protocols import check_store
from airw.testing.stores import StoreSuite
from airw.values import ArtifactChange


@contextmanager
def open_suite(target: str, promises: Collection[str], *, read_only: bool, content: str = "") -> Iterator[StoreSuite]:
    """Yield the suite of the store that a function in a file opens.

    Within the block, imports find the modules beside the file, as they do when it is run as a program.

    Args:
        target: The path of the file, a colon, and the name of the function.
        promises: What the store promises besides its capabilities.
        read_only: Whether the function is called with the artifacts, too.
        content: The name of a list in the file: the artifacts of a store that has no others.

    Raises:
        ArgumentError: If the file cannot be run, or has no such function or list; or if the store is written to
            although `read_only` says that it is not, or the other way round.
    """
    file, _, name = target.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise ArgumentError(f"ADDRESS must be an address, or FILE.py:FUNCTION, not {short_repr(target)}")
    folder = str(Path(file).resolve().parent)
    sys.path.insert(0, folder)
    try:
        names = _run(file)
        make: Callable[..., AbstractAsyncContextManager[Any]] | None = names.get(name)
        if not callable(make):
            raise ArgumentError(f"{file} has no function {name}")
        artifacts = names.get(content)
        if content and not (isinstance(artifacts, list) and all(isinstance(own, ArtifactChange) for own in artifacts)):
            raise ArgumentError(f"{content} of {file} must be a list of ArtifactChange, not {short_repr(artifacts)}")
        offered = anyio.run(_read_capabilities, (lambda folder: make(folder, [])) if read_only else make)
        if not content and read_only == ("writing" in offered):
            raise ArgumentError(f"--read-only is for stores without the capability 'writing'; {name} opens another one")
        yield StoreSuite(make, capabilities={*offered, *promises}, content=artifacts)
    finally:
        sys.path.remove(folder)


def _run(file: str) -> dict[str, Any]:
    try:
        return runpy.run_path(file, run_name="examined")
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"{file} cannot be run: {error_text(error)}") from error


async def _read_capabilities(make: Callable[[Path], AbstractAsyncContextManager[Any]]) -> Collection[str]:
    with tempfile.TemporaryDirectory(prefix="airw-", ignore_cleanup_errors=True) as folder:
        async with make(Path(folder)) as store:
            check_store(store)
            return frozenset(store.capabilities)
