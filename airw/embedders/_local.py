"""What embedders that run a model in this process share: where it lies, whose turn it is, what runs at once."""

import os
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import anyio
import numpy as np
from anyio.lowlevel import RunVar

from airw._base.arrays import Floats
from airw._base.concurrency import in_thread
from airw.embedders._texts import checked_texts
from airw.errors import ArgumentError, EmbedderError, EmbedderUnavailable

DEFAULT_MODEL = "all-MiniLM-L6-v2"
FIX = "set AIRW_MODEL_DIR to the folder of all-MiniLM-L6-v2, pass a model folder, or use the embedder 'light'"

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)

R = TypeVar("R")


class Turns:
    """Runs functions in a worker thread, one at a time, whatever tasks, event loops and threads ask."""

    def __init__(self, name: str) -> None:
        """Name what is taken turns at."""
        self._lock = threading.Lock()
        self._turn: RunVar[anyio.Lock] = RunVar(f"turn of {name}")  # waiting for it holds no worker thread

    async def run(self, function: Callable[[], R]) -> R:
        """Wait for a turn, then call the function in a worker thread."""
        turn = self._turn.get(None)
        if turn is None:
            turn = anyio.Lock()
            self._turn.set(turn)
        async with turn:
            return await in_thread(self._locked, function)

    def _locked(self, function: Callable[[], R]) -> R:
        with self._lock:
            return function()


async def embed_batches(
    texts: list[str], *, size: int, dim: int, encode: Callable[[list[str]], Awaitable[Floats]]
) -> Floats:
    """Give `(len(texts), dim) float32`, encoded in batches of texts about as long, in the order of the texts."""
    rows = np.zeros((len(texts), dim), np.float32)
    by_length = sorted(range(len(texts)), key=lambda at: len(texts[at]))  # little padding in each batch
    for start in range(0, len(texts), size):
        picked = by_length[start : start + size]
        rows[picked] = await encode([texts[at] for at in picked])
    return rows


def encodable(texts: Sequence[str], *, of: str) -> list[str]:
    """Give the texts as a list; no tokenizer takes half characters.

    Raises:
        EmbedderError: They are no list of strings, or one holds a lone surrogate. `of` names who was asked.
    """
    given = checked_texts(texts, of=of)
    for at, text in enumerate(given):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise EmbedderError(
                f"{of} takes no half characters: text {at} holds a lone surrogate at {error.start}"
            ) from error
    return given


def located(model: str | os.PathLike[str]) -> tuple[str, Path | None]:
    """Give a model's name to show, and its folder where it has one.

    Raises:
        ArgumentError: It is neither a name nor a path.
    """
    if isinstance(model, os.PathLike):
        folder = Path(model).absolute()
        return folder.name, folder
    if not isinstance(model, str) or not model.strip():
        raise ArgumentError(f"model must be a name on the hub or a folder, not {model!r}")
    if model.removeprefix("sentence-transformers/") == DEFAULT_MODEL:
        mapped = os.environ.get("AIRW_MODEL_DIR")
        return DEFAULT_MODEL, Path(mapped).absolute() if mapped else None
    separators = {os.sep, os.altsep or os.sep, "/"}
    is_path = any(separator in model for separator in separators)
    if is_path and (not _HUB_NAME.fullmatch(model) or model.startswith(".") or Path(model).is_dir()):
        folder = Path(model).expanduser().absolute()
        return folder.name, folder
    return model, None


def need_folder(folder: Path | None) -> Path:
    """Give the folder.

    Raises:
        EmbedderUnavailable: It is not there.
    """
    if folder is None or not folder.is_dir():
        raise EmbedderUnavailable(f"there is no model folder {str(folder)!r}; {FIX}")
    return folder


def spare_cores() -> int:
    """Give the number of cores that this process may use but one, and at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores - 1)
