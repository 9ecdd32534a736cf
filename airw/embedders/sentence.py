"""An embedder that runs a sentence-transformers model in this process."""

import os
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from airw._base.arrays import Floats
from airw._base.checks import check_count, check_texts
from airw._base.local_models import (
    DEFAULT_MODEL,
    MODEL_FOLDER_HINT,
    SerialWorker,
    folder_id,
    folder_width,
    locate_model,
    require_folder,
    run_batches,
    spare_cores,
)
from airw._base.messages import error_text
from airw._base.vectors import unit_rows
from airw.errors import EmbedderError, EmbedderUnavailable


class SentenceTransformerEmbedder:
    """An embedder that runs a sentence-transformers model.

    Creating one loads and reads nothing; the model is loaded at the first call. One batch is encoded at a time, always
    in a worker thread. A query that arrives while documents are embedded waits for one batch, not for all of them. The
    vector of a text may differ by about 1e-6 in another batch.

    Args:
        model: A name on the Hugging Face hub, or a folder: a path object, or a string with a path separator. For the
            default name, the environment variable `AIRW_MODEL_DIR` may contain a folder to use instead of the hub.
        batch_size: The number of texts in a batch; cancellation takes effect between batches.
        threads: CPU threads for torch, which has one number for the whole process; by default all cores but one.

    Raises:
        ArgumentError: If `model` is neither a name nor a path, or a count is not a whole number of at least 1.

    Example:
        >>> SentenceTransformerEmbedder("sentence-transformers/all-mpnet-base-v2").id
        'st:sentence-transformers/all-mpnet-base-v2'
    """

    def __init__(
        self, model: str | os.PathLike[str] = DEFAULT_MODEL, *, batch_size: int = 32, threads: int | None = None
    ) -> None:
        self._name, self._folder = locate_model(model)
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._threads = spare_cores() if threads is None else check_count("threads", threads, least=1)
        self._model: Any = None
        self._id: str | None = None if self._folder else f"st:{self._name}"
        self._dim: int | None = None
        self._turns = SerialWorker(self._name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._folder or self._name)!r})"

    def __eq__(self, other: object) -> bool:
        """Return True for the same model from the same place; other settings do not matter."""
        if not isinstance(other, SentenceTransformerEmbedder):
            return NotImplemented
        return (self._name, self._folder) == (other._name, other._folder)

    def __hash__(self) -> int:
        return hash((self._name, self._folder))

    @property
    def id(self) -> str:
        """Return the id of the model.

        For a folder it is `<architecture>-<width>@<hash of weights and settings>`, independent of its path. For a name
        on the hub it is `st:<name>`; the hub is trusted not to change the weights of a name. The first call reads the
        weights of a folder, which takes about 0.1 s for 90 MB, so call it in a worker thread.

        Raises:
            EmbedderUnavailable: If the folder does not exist or is not a model folder.
        """
        if self._id is None:
            self._id = folder_id(cast("Path", self._folder))
        return self._id

    @property
    def dim(self) -> int:
        """Return the width of the vectors.

        For a simple model in a folder, this reads the folder without loading the model.

        Raises:
            EmbedderUnavailable: If the folder does not exist or is not a model folder.
            EmbedderError: If only the loaded model knows its width, and it is not loaded yet.
        """
        if not self._has_width():
            raise EmbedderError(f"dim of the model {self._name!r} is not known before it is loaded; embed a text first")
        return cast("int", self._dim)

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return `(len(texts), dim) float32` unit rows, in the order of the texts.

        Raises:
            EmbedderUnavailable: If sentence-transformers is not installed, or the model is not found.
            EmbedderError: If `texts` is not a list of strings, one contains an unpaired surrogate, or the model fails.
        """
        checked = check_texts(texts, of=self._label, error=EmbedderError, encodable=True)
        if checked or not self._has_width():
            await self._load()
        return await run_batches(checked, size=self._batch_size, dim=self.dim, encode=self._encode_documents)

    async def embed_query(self, text: str) -> Floats:
        """Return `(dim,) float32`, of length one, with the prompt of the model for queries."""
        checked = check_texts([text], of=self._label, error=EmbedderError, encodable=True)
        await self._load()
        row: Floats = (await self._turns.run(partial(self._encode, checked, "encode_query")))[0]
        return row

    @property
    def _label(self) -> str:
        return f"the model {self._name!r}"

    async def _encode_documents(self, texts: list[str]) -> Floats:
        return await self._turns.run(partial(self._encode, texts, "encode_document"))

    def _has_width(self) -> bool:
        if self._dim is None and self._folder:
            self._dim = folder_width(self._folder)
        return self._dim is not None

    async def _load(self) -> None:
        if self._model is None:
            await self._turns.run(self._load_once)

    def _load_once(self) -> None:
        if self._model is None:
            source = str(require_folder(self._folder)) if self._folder else self._name
            model = _load_model(source, self._name)
            # Settings may contradict the model, so measure the width with a vector.
            self._dim = len(_run_model(model, ["a"], "encode_document", 1, self._label)[0])
            self._model = model

    def _encode(self, texts: list[str], method: str) -> Floats:
        # Before each batch, because another embedder with another number of threads may have run since the last one.
        import_module("torch").set_num_threads(self._threads)
        rows = _run_model(self._model, texts, method, self._batch_size, self._label)
        return unit_rows(rows, count=len(texts), dim=self._dim, of=self._label)


def _load_model(source: str, name: str) -> Any:
    try:
        library = import_module("sentence_transformers")
    except ImportError as error:
        raise EmbedderUnavailable(
            f"the model {name!r} needs sentence-transformers ({error}): pip install 'airw[sentence-transformers]', "
            "or use the embedder 'light'"
        ) from error
    try:
        return library.SentenceTransformer(source)
    except Exception as error:  # any error of four libraries or of the network
        raise EmbedderUnavailable(
            f"the model {source!r} cannot be loaded ({error_text(error)}); {MODEL_FOLDER_HINT}"
        ) from error


def _run_model(model: Any, texts: list[str], method: str, batch_size: int, label: str) -> Any:
    try:
        return getattr(model, method)(texts, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True)
    except Exception as error:
        raise EmbedderError(f"{label} failed: {error_text(error)}") from error
