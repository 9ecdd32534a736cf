"""An embedder that runs a sentence-transformers model in this process."""

import os
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import numpy as np
from anyio.lowlevel import RunVar

from airw._concurrency import in_thread
from airw._vectors import unit_rows
from airw.embedders._models import folder_id, folder_width
from airw.embedders._texts import checked_texts, one_line
from airw.errors import ArgumentError, EmbedderError, EmbedderUnavailable
from airw.limits import check_count
from airw.values import Floats

__all__ = ["SentenceTransformerEmbedder"]

DEFAULT_MODEL = "all-MiniLM-L6-v2"
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)

R = TypeVar("R")


class SentenceTransformerEmbedder:
    """Embeds with a sentence-transformers model, loaded in a worker thread when it is first needed.

    Making one loads and reads nothing. One batch is encoded at a time, always in a worker thread; a query that comes
    while documents are being embedded waits for one batch, not for all. Vectors of the same text in another batch may
    differ by about 1e-6.

    Args:
        model: A name on the Hugging Face hub, or a folder: a path object, or a string with a separator that names one.
            For the default name, `AIRW_MODEL_DIR` names the folder to use instead of the hub.
        batch_size: Texts encoded at once; cancellation takes effect between batches.
        threads: CPU threads for torch, which keeps one count for the whole process; all cores but one when left out.

    Raises:
        ArgumentError: `model` is neither a name nor a path, or a count is not a whole number of at least 1.

    Example:
        >>> SentenceTransformerEmbedder("sentence-transformers/all-mpnet-base-v2").id
        'st:sentence-transformers/all-mpnet-base-v2'
    """

    def __init__(
        self, model: str | os.PathLike[str] = DEFAULT_MODEL, *, batch_size: int = 32, threads: int | None = None
    ) -> None:
        self._name, self._folder = _located(model)
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._threads = _spare_cores() if threads is None else check_count("threads", threads, least=1)
        self._model: Any = None
        self._id: str | None = None if self._folder else f"st:{self._name}"
        self._dim: int | None = None
        self._lock = threading.Lock()  # one encode at a time, whatever event loops and threads ask
        self._turn: RunVar[anyio.Lock] = RunVar(f"turn of {self._name}")  # waiting for it holds no worker thread

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._folder or self._name)!r})"

    def __eq__(self, other: object) -> bool:
        """Equal are those of the same model from the same place; how they run does not matter."""
        if not isinstance(other, SentenceTransformerEmbedder):
            return NotImplemented
        return (self._name, self._folder) == (other._name, other._folder)

    def __hash__(self) -> int:
        return hash((self._name, self._folder))

    @property
    def id(self) -> str:
        """Name the model: `<architecture>-<width>@<hash of weights and settings>` for a folder, wherever it lies.

        For a model by hub name it is `st:<name>`, before and after loading: the hub is trusted to keep the weights of a
        name. A folder's weights are read once for it, which takes about 0.1 s for 90 MB: ask in a worker thread.

        Raises:
            EmbedderUnavailable: The folder is not there, or is no model folder.
        """
        if self._id is None:
            self._id = folder_id(self._need_folder())
        return self._id

    @property
    def dim(self) -> int:
        """Give the width of the vectors, which a plain model's folder tells without loading it.

        Raises:
            EmbedderUnavailable: The folder is not there, or is no model folder.
            EmbedderError: Only the loaded model knows, and it is not loaded yet.
        """
        if not self._knows_width():
            raise EmbedderError(f"the width of model {self._name!r} is known once it is loaded: embed something first")
        return cast("int", self._dim)

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Give `(len(texts), dim) float32` unit rows, in the order of the texts.

        Raises:
            EmbedderUnavailable: sentence-transformers is not installed, or the model is not found.
            EmbedderError: `texts` is not a list of strings, one holds a lone surrogate, or the model failed.
        """
        given = self._checked(texts)
        if given or not self._knows_width():
            await self._load()
        rows = np.zeros((len(given), self.dim), np.float32)
        by_length = sorted(range(len(given)), key=lambda at: len(given[at]))  # little padding in each batch
        for start in range(0, len(given), self._batch_size):
            picked = by_length[start : start + self._batch_size]
            rows[picked] = await self._in_turn(partial(self._encode, [given[at] for at in picked], "encode_document"))
        return rows

    async def embed_query(self, text: str) -> Floats:
        """Give `(dim,) float32`, of length one; a model with a prompt for queries uses it.

        Raises:
            EmbedderUnavailable: sentence-transformers is not installed, or the model is not found.
            EmbedderError: `text` is not a string, it holds a lone surrogate, or the model failed.
        """
        given = self._checked([text])
        await self._load()
        row: Floats = (await self._in_turn(partial(self._encode, given, "encode_query")))[0]
        return row

    @property
    def _label(self) -> str:
        return f"the model {self._name!r}"

    def _checked(self, texts: Sequence[str]) -> list[str]:
        """Give the texts as a list; no tokenizer takes half characters."""
        given = checked_texts(texts, of=self._label)
        for at, text in enumerate(given):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise EmbedderError(
                    f"{self._label} takes no half characters: text {at} holds a lone surrogate at {error.start}"
                ) from error
        return given

    async def _in_turn(self, function: Callable[[], R]) -> R:
        turn = self._turn.get(None)
        if turn is None:
            turn = anyio.Lock()
            self._turn.set(turn)
        async with turn:
            return await in_thread(function)

    def _knows_width(self) -> bool:
        if self._dim is None and self._folder:
            self._dim = folder_width(self._need_folder())
        return self._dim is not None

    async def _load(self) -> None:
        if self._model is None:
            await self._in_turn(self._load_once)

    def _load_once(self) -> None:
        with self._lock:
            if self._model is None:
                source = str(self._need_folder()) if self._folder else self._name
                model = _loaded(source, self._name)
                self._dim = len(_encoded(model, ["a"], "encode_document", 1, self._label)[0])
                self._model = model

    def _encode(self, texts: list[str], method: str) -> Floats:
        with self._lock:
            # Not at loading: another embedder, with another count, may have encoded since.
            import_module("torch").set_num_threads(self._threads)
            rows = _encoded(self._model, texts, method, self._batch_size, self._label)
        return unit_rows(rows, count=len(texts), dim=self._dim, of=self._label)

    def _need_folder(self) -> Path:
        if self._folder is None or not self._folder.is_dir():
            raise EmbedderUnavailable(f"there is no model folder {str(self._folder)!r}; {_FIX}")
        return self._folder


_FIX = "set AIRW_MODEL_DIR to the folder of all-MiniLM-L6-v2, pass a model folder, or use the embedder 'light'"


def _located(model: str | os.PathLike[str]) -> tuple[str, Path | None]:
    """Give a name to show, and the folder where it is one."""
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
    if is_path and (not HUB_NAME.fullmatch(model) or model.startswith(".") or Path(model).is_dir()):
        folder = Path(model).expanduser().absolute()
        return folder.name, folder
    return model, None


def _loaded(source: str, name: str) -> Any:
    try:
        library = import_module("sentence_transformers")
    except ImportError as error:
        raise EmbedderUnavailable(
            f"the model {name!r} needs sentence-transformers ({error}): pip install 'airw[sentence-transformers]', "
            "or use the embedder 'light'"
        ) from error
    try:
        return library.SentenceTransformer(source)
    except Exception as error:  # the errors of four libraries, and of the network, meet here
        raise EmbedderUnavailable(f"the model {source!r} cannot be loaded ({one_line(error)}); {_FIX}") from error


def _encoded(model: Any, texts: list[str], method: str, batch_size: int, label: str) -> Any:
    try:
        return getattr(model, method)(texts, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True)
    except Exception as error:
        raise EmbedderError(f"{label} failed: {one_line(error)}") from error


def _spare_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores - 1)
