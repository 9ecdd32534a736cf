"""An embedder that runs a sentence-transformers model in this process."""

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from airw._base.arrays import Floats
from airw._base.checks import check_count, check_texts
from airw._base.concurrency import in_thread
from airw._base.hub import check_hub, find_snapshot, run_abandonable
from airw._base.local_models import (
    DEFAULT_MODEL,
    HUB_PREFIX,
    MODEL_FOLDER_HINT,
    SerialWorker,
    check_library,
    folder_id,
    folder_width,
    is_folder,
    load_library,
    locate_model,
    require_folder,
    run_batches,
    usable_cores,
    without_progress_bars,
)
from airw._base.messages import error_text
from airw._base.vectors import unit_rows
from airw.errors import EmbedderError, EmbedderMismatch, EmbedderUnavailable


class SentenceTransformerEmbedder:
    """An embedder that runs a sentence-transformers model.

    Creating one loads and reads nothing; the model is loaded at the first call. One batch is encoded at a time, always
    in a worker thread. A query that arrives while documents are embedded waits for one batch, not for all of them. The
    vector of a text may differ by about 1e-6 in another batch.

    A model of the hub is downloaded once and then loaded from the hub's cache, without asking the hub again. If the hub
    does not answer within 5 seconds, that is an error. A download can be cancelled; it may go on in the background.

    Args:
        model: A name on the Hugging Face hub, or a folder: a path object, or a string with a path separator. For the
            default name, the environment variable `AIRW_MODEL_DIR` may contain a folder to use instead of the hub.
        batch_size: The number of texts in a batch; cancellation takes effect between batches.
        threads: CPU threads for torch, which has one number for the whole process; by default one a core.

    Raises:
        ArgumentError: If `model` is neither a name nor a path, or a count is not a whole number of at least 1.

    Example:
        >>> SentenceTransformerEmbedder("sentence-transformers/all-mpnet-base-v2")
        SentenceTransformerEmbedder('sentence-transformers/all-mpnet-base-v2')
    """

    def __init__(
        self, model: str | os.PathLike[str] = DEFAULT_MODEL, *, batch_size: int = 32, threads: int | None = None
    ) -> None:
        self._name, self._folder = locate_model(model)
        self._fix = MODEL_FOLDER_HINT
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._threads = usable_cores() if threads is None else check_count("threads", threads, least=1)
        self._model: Any = None
        self._id: str | None = None
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

        It is `<architecture>-<width>@<hash of weights and settings>`, independent of the place of the model: a folder,
        or the cache of the hub. Before a model of the hub is downloaded, its id is `st:<name>`; the hub is trusted not
        to change the weights of a name. The first call reads the weights, which takes about 0.1 s for 90 MB, so call it
        in a worker thread. The id of an object does not change.

        Raises:
            EmbedderUnavailable: If the folder does not exist or is not a model folder.
        """
        if self._id is None:
            self._id = self._read_id()
        return self._id

    def adopt(self, stored_id: str, fix: str) -> None:
        """Take the id of a corpus that was built with a model that is not downloaded yet.

        The id is compared when the model is loaded.

        Args:
            stored_id: The id of the vectors in the corpus.
            fix: The advice in errors, for the user of that corpus.
        """
        self._fix = fix
        if not stored_id.startswith(HUB_PREFIX) and self._find_folder() is None:
            self._id = stored_id

    def check_runnable(self) -> None:
        """Check that the package and the folder of the model are there, without loading them.

        Raises:
            EmbedderUnavailable: If one of them is missing.
        """
        if self._folder is not None:
            require_folder(self._folder, fix=self._fix)
        check_library(self._label, error=EmbedderUnavailable, fix=self._fix)

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

    def _find_folder(self) -> Path | None:
        """Return the folder of the model; for one of the hub, `None` before its download."""
        return self._folder or find_snapshot(self._name)

    def _read_id(self) -> str:
        if self._folder is not None:
            return folder_id(self._folder, fix=self._fix)
        folder = find_snapshot(self._name)
        # What is in the cache may be of an unusual kind: then it is known by its name.
        with suppress(EmbedderUnavailable):
            return f"{HUB_PREFIX}{self._name}" if folder is None else folder_id(folder)
        return f"{HUB_PREFIX}{self._name}"

    def _has_width(self) -> bool:
        if self._dim is None and (folder := self._find_folder()) is not None:
            self._dim = folder_width(folder)
        return self._dim is not None

    async def _load(self) -> None:
        if self._model is not None:
            return
        if await in_thread(self._find_folder) is not None:
            await self._turns.run(self._load_once)
            return
        check_library(self._label, error=EmbedderUnavailable, fix=self._fix)
        await check_hub(self._label, self._name, error=EmbedderUnavailable, fix=self._fix)
        library = await in_thread(self._load_library)
        # A download takes long: a cancelled caller leaves it behind.
        async with self._turns.lock:
            if self._model is None:
                await run_abandonable(partial(self._download, library))

    def _load_library(self) -> Any:
        return load_library(self._label, error=EmbedderUnavailable, fix=self._fix)

    def _load_once(self) -> None:
        if self._model is None:
            folder = require_folder(cast("Path", self._find_folder()), fix=self._fix)
            library = self._load_library()
            with without_progress_bars():
                self._keep(self._make_model(library, str(folder)))

    def _download(self, library: Any) -> None:
        # sentence-transformers itself would prefer a folder of this name in the working folder, whoever made it.
        if is_folder(self._name):
            raise EmbedderUnavailable(
                f"{self._label} is a name on the hub, but there is a folder {self._name!r} here too; "
                f"write {f'./{self._name}'!r} for the folder, or start elsewhere"
            )
        model = self._make_model(library, self._name)
        folder = find_snapshot(self._name)
        if folder is not None and self._id is not None and not self._id.startswith(HUB_PREFIX):
            found = folder_id(folder)
            if found != self._id:
                raise EmbedderMismatch(
                    f"{self._label} on the hub has the id {found!r}, but the corpus was built with {self._id!r}; "
                    f"{self._fix}"
                )
        self._keep(model)

    def _make_model(self, library: Any, source: str) -> Any:
        try:
            return library.SentenceTransformer(source)
        except Exception as error:  # any error of four libraries or of the network
            raise EmbedderUnavailable(
                f"the model {source!r} cannot be loaded ({error_text(error)}); {self._fix}"
            ) from error

    def _keep(self, model: Any) -> None:
        # Settings may contradict the model, so measure the width with a vector.
        self._dim = len(_run_model(model, ["a"], "encode_document", 1, self._label)[0])
        self._model = model

    def _encode(self, texts: list[str], method: str) -> Floats:
        # Before each batch, because another embedder with another number of threads may have run since the last one.
        import_module("torch").set_num_threads(self._threads)
        rows = _run_model(self._model, texts, method, self._batch_size, self._label)
        return unit_rows(rows, count=len(texts), dim=self._dim, of=self._label)


def _run_model(model: Any, texts: list[str], method: str, batch_size: int, label: str) -> Any:
    try:
        return getattr(model, method)(texts, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True)
    except Exception as error:
        raise EmbedderError(f"{label} failed: {error_text(error)}") from error
