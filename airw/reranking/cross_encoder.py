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
from airw._base.local_models import SerialWorker, folder_id, locate_model, require_folder, run_batches, spare_cores
from airw._base.messages import error_text
from airw.errors import RerankerError, RerankerUnavailable
from airw.reranking.scores import check_asked

DEFAULT_MODEL = "cross-encoder/ms-marco-MiniLM-L-6-v2"
INSTALL = "pip install 'airw[sentence-transformers]'"
_FIX = "pass a folder saved by sentence-transformers' CrossEncoder, or a name on the hub"


class CrossEncoderReranker:
    """Scores each text together with the query by a cross-encoder of sentence-transformers.

    Making one loads and reads nothing: the model is loaded in a worker thread when it is first needed. One batch is
    scored at a time, always in a worker thread. A score is the sigmoid of the model's one number, from 0 to 1, whatever
    activation the model's own settings name; NaN stays NaN. Scores of the same text in another batch may differ by
    about 1e-6.

    Args:
        model: A name on the Hugging Face hub, or a folder: a path object, or a string with a separator that names one.
        batch_size: Texts scored at once; cancellation takes effect between batches.

    Raises:
        ArgumentError: `model` is neither a name nor a path, or `batch_size` is not a whole number of at least 1.

    Example:
        >>> CrossEncoderReranker()
        CrossEncoderReranker('cross-encoder/ms-marco-MiniLM-L-6-v2')
    """

    def __init__(self, model: str | os.PathLike[str] = DEFAULT_MODEL, *, batch_size: int = 32) -> None:
        self._name, self._folder = locate_model(model)
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._model: Any = None
        self._id: str | None = None if self._folder else f"ce:{self._name}"
        self._turns = SerialWorker(self._name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._folder or self._name)!r})"

    def __eq__(self, other: object) -> bool:
        """Equal are those of the same model from the same place; how they run does not matter."""
        if not isinstance(other, CrossEncoderReranker):
            return NotImplemented
        return (self._name, self._folder) == (other._name, other._folder)

    def __hash__(self) -> int:
        return hash((self._name, self._folder))

    @property
    def id(self) -> str:
        """Name the model: `ce:<name>` on the hub, `ce:<architecture>-<width>@<hash>` in a folder, wherever it lies.

        The hash is of weights and settings. The weights are read once for it, which takes about 0.1 s for 90 MB: ask in
        a worker thread.

        Raises:
            RerankerUnavailable: The folder is not there, or is no model folder.
        """
        if self._id is None:
            self._id = f"ce:{folder_id(cast('Path', self._folder), error=RerankerUnavailable, fix=_FIX)}"
        return self._id

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score from 0 to 1 for each text, in their order; higher is more relevant.

        Raises:
            RerankerUnavailable: sentence-transformers is not installed, or the model is not found.
            RerankerError: `query` or a text is no string or holds a lone surrogate, or the model failed.
        """
        given = check_asked(query, texts, of=self._label)
        if given and self._model is None:
            await self._turns.run(self._load_once)
        logits = await run_batches(given, size=self._batch_size, dim=1, encode=partial(self._logits, query))
        with np.errstate(over="ignore"):  # far below 0 the answer is 0
            scores: list[float] = (1.0 / (1.0 + np.exp(-logits[:, 0].astype(np.float64)))).tolist()
        return scores

    @property
    def _label(self) -> str:
        return f"the reranker {self._name!r}"

    def _load_once(self) -> None:
        if self._model is None:
            source = require_folder(self._folder, error=RerankerUnavailable, fix=_FIX) if self._folder else self._name
            self._model = _loaded(str(source), self._label)

    async def _logits(self, query: str, texts: list[str]) -> Floats:
        return await self._turns.run(partial(self._predict, query, texts))

    def _predict(self, query: str, texts: list[str]) -> Floats:
        torch = import_module("torch")
        torch.set_num_threads(spare_cores())  # not at loading: an embedder may have set another count since
        rows = _predicted(self._model, query, texts, torch.nn.Identity(), self._label)
        if rows.size != len(texts):
            raise RerankerError(f"{self._label} gives {rows.shape[1:]} numbers a text, not one: is it a classifier?")
        return rows.reshape(len(texts), 1)


def _loaded(source: str, label: str) -> Any:
    try:
        library = import_module("sentence_transformers")
    except ImportError as error:
        raise RerankerUnavailable(f"{label} needs sentence-transformers ({error}): {INSTALL}") from error
    try:
        return library.CrossEncoder(source)
    except Exception as error:  # the errors of four libraries, and of the network, meet here
        raise RerankerUnavailable(f"{label} cannot be loaded ({error_text(error)}); {_FIX}") from error


def _predicted(model: Any, query: str, texts: list[str], activation: Any, label: str) -> Floats:
    pairs = [(query, text) for text in texts]
    try:
        rows = model.predict(pairs, batch_size=len(pairs), activation_fn=activation, show_progress_bar=False)
    except Exception as error:
        raise RerankerError(f"{label} failed: {error_text(error)}") from error
    return np.asarray(rows, np.float32)
