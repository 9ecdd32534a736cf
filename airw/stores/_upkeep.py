"""What a write to a large corpus leaves to be done: the indexes beside its file."""

import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw.errors import StoreBusy, StoreError
from airw.stores._nearby import Due, read_bucket
from airw.stores._segments import SegmentMaker, is_installed, segment_folder

__all__ = ["index_buckets"]


async def index_buckets(path: Path, todo: Due, read: Callable[..., Awaitable[Any]]) -> None:
    """Make the indexes that a large corpus needs, unless another writer does; without them, search is slower."""
    if todo.buckets and not is_installed():
        _warn(path, "usearch is not installed: pip install 'airw[ann]'")
    elif todo.buckets or todo.obsolete:
        segments = segment_folder(path)
        try:
            await anyio.Path(segments).mkdir(exist_ok=True)
            async with hold_file(segments / "writer.lock", timeout=0):
                await _make_indexes(segments, todo, read)
        except StoreBusy:
            return  # whoever holds it makes them
        except (OSError, RuntimeError, StoreError) as error:  # what was written is written
            _warn(path, f"an index cannot be written ({error}); the next write tries again")


async def _make_indexes(segments: Path, todo: Due, read: Callable[..., Awaitable[Any]]) -> None:
    for number in todo.buckets:
        maker = SegmentMaker(*await read(read_bucket, number))
        for part in maker.slices():
            await in_thread(maker.add, part)
        await in_thread(maker.save, segments, todo.corpus, number)
    for path in todo.obsolete:
        await anyio.Path(path).unlink(missing_ok=True)


def _warn(path: Path, why: str) -> None:
    message = f"{str(path)!r} is searched by comparing all its vectors, from memory, as {why}"
    warnings.warn(message, RuntimeWarning, stacklevel=6)
