"""A reranker that runs a cross-encoder in this process."""

import os
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_count
from airw._base.concurrency import in_thread
from airw._base.hub import check_hub, find_snapshot, run_abandonable
from airw._base.local_models import (
    SerialWorker,
    check_library,
    folder_id,
    is_folder,
    load_library,
    locate_model,
    require_folder,
    run_batches,
    usable_cores,
    without_progress_bars,
)
from airw._base.messages import error_text
from airw.errors import RerankerError, RerankerUnavailable
from airw.reranking.scores import check_inputs

DEFAULT_MODEL = "cross-encoder/ms-marco-MiniLM-L-6-v2"
_FIX = "pass a folder saved by sentence-transformers' CrossEncoder, or a name on the hub"


class CrossEncoderReranker:
    """A reranker that runs a cross-encoder of sentence-transformers.

    A cross-encoder reads the query together with each text. The constructor loads nothing: the model is loaded in a
    worker thread on first use. One batch is scored at a time, always in a worker thread. A score is the sigmoid of the
    model's single output, from 0 to 1, also if the model's own settings name another activation; NaN stays NaN. The
    same text may score about 1e-6 differently in another batch.

    Args:
        model: A name on the Hugging Face hub, or a folder: a path object, or a string that contains a path separator
            and names a folder.
        batch_size: The number of texts scored at once; cancellation takes effect between batches.

    Raises:
        ArgumentError: If `model` is neither a name nor a path, or `batch_size` is not a positive whole number.

    Example:
        >>> CrossEncoderReranker()
        CrossEncoderReranker('cross-encoder/ms-marco-MiniLM-L-6-v2')
    """

    def __init__(self, model: str | os.PathLike[str] = DEFAULT_MODEL, *, batch_size: int = 32) -> None:
        self._name, self._folder = locate_model(model)
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._model: Any = None
        self._id: str | None = None if self._folder else f"ce:{self._name}"
        self._worker = SerialWorker(self._name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._folder or self._name)!r})"

    def __eq__(self, other: object) -> bool:
        """Compare the model and its place; the batch size does not matter."""
        if not isinstance(other, CrossEncoderReranker):
            return NotImplemented
        return (self._name, self._folder) == (other._name, other._folder)

    def __hash__(self) -> int:
        return hash((self._name, self._folder))

    @property
    def id(self) -> str:
        """Return the id of the model.

        It is `ce:<name>` for a model on the hub, `ce:<architecture>-<width>@<hash>` for a folder. The hash covers
        weights and settings, so the id does not depend on the place of the folder. The first access reads the weights,
        which takes about 0.1 s for 90 MB: use a worker thread.

        Raises:
            RerankerUnavailable: If the folder does not exist, or is not a model folder.
        """
        if self._id is None:
            self._id = f"ce:{folder_id(cast('Path', self._folder), error=RerankerUnavailable, fix=_FIX)}"
        return self._id

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score from 0 to 1 for each text, in their order; higher is more relevant.

        Raises:
            RerankerUnavailable: If sentence-transformers is not installed, or the model is not found.
            RerankerError: If `query` or a text is not a string or contains an unpaired surrogate, or if the model
                fails.
        """
        checked = check_inputs(query, texts, of=self._label)
        if checked and self._model is None:
            await self._load()
        logits = await run_batches(checked, size=self._batch_size, dim=1, encode=partial(self._logits, query))
        with np.errstate(over="ignore"):  # exp overflows to infinity for very low logits: the score is 0
            scores: list[float] = (1.0 / (1.0 + np.exp(-logits[:, 0].astype(np.float64)))).tolist()
        return scores

    @property
    def _label(self) -> str:
        return f"the reranker {self._name!r}"

    def check_runnable(self) -> None:
        """Check that the package and the folder of the model are there, without loading them.

        Raises:
            RerankerUnavailable: If one of them is missing.
        """
        if self._folder is not None:
            require_folder(self._folder, error=RerankerUnavailable, fix=_FIX)
        check_library(self._label, error=RerankerUnavailable, fix=_FIX)

    async def _load(self) -> None:
        if await in_thread(self._find_folder) is not None:
            await self._worker.run(self._load_once)
            return
        check_library(self._label, error=RerankerUnavailable, fix=_FIX)
        await check_hub(self._label, self._name, error=RerankerUnavailable, fix=_FIX)
        library = await in_thread(self._load_library)
        # A download takes long: a cancelled caller leaves it behind.
        async with self._worker.lock:
            if self._model is None:
                self._model = await run_abandonable(partial(self._make_model, library, self._name))

    def _find_folder(self) -> Path | None:
        """Return the folder of the model; for one of the hub, `None` before its download."""
        return self._folder or find_snapshot(self._name)

    def _load_library(self) -> Any:
        return load_library(self._label, error=RerankerUnavailable, fix=_FIX)

    def _load_once(self) -> None:
        if self._model is None:
            folder = require_folder(cast("Path", self._find_folder()), error=RerankerUnavailable, fix=_FIX)
            library = self._load_library()
            with without_progress_bars():
                self._model = self._make_model(library, str(folder))

    def _make_model(self, library: Any, source: str) -> Any:
        # sentence-transformers itself would prefer a folder of this name in the working folder, whoever made it.
        if self._folder is None and is_folder(source) and not Path(source).is_absolute():
            raise RerankerUnavailable(
                f"{self._label} is a name on the hub, but there is a folder of this name here too"
            )
        try:
            return library.CrossEncoder(source)
        except Exception as error:  # four libraries and the network raise errors here
            raise RerankerUnavailable(f"{self._label} cannot be loaded ({error_text(error)}); {_FIX}") from error

    async def _logits(self, query: str, texts: list[str]) -> Floats:
        return await self._worker.run(partial(self._predict, query, texts))

    def _predict(self, query: str, texts: list[str]) -> Floats:
        torch = import_module("torch")
        torch.set_num_threads(usable_cores())  # before each batch: an embedder may have changed the process-wide count
        rows = _run_model(self._model, query, texts, torch.nn.Identity(), self._label)
        if rows.size != len(texts):
            raise RerankerError(f"{self._label} returns {rows.shape[1:]} numbers a text, not one: is it a classifier?")
        return rows.reshape(len(texts), 1)


def _run_model(model: Any, query: str, texts: list[str], activation: Any, label: str) -> Floats:
    pairs = [(query, text) for text in texts]
    try:
        rows = model.predict(pairs, batch_size=len(pairs), activation_fn=activation, show_progress_bar=False)
    except Exception as error:
        raise RerankerError(f"{label} failed: {error_text(error)}") from error
    return np.asarray(rows, np.float32)
