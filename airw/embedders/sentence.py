"""An embedder that runs a sentence-transformers model in this process."""

import os
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar, cast

from airw._base.arrays import Floats
from airw._base.checks import check_count
from airw._base.hub import find_snapshot
from airw._base.hub_models import HubModel
from airw._base.local_models import (
    DEFAULT_MODEL,
    HUB_PREFIX,
    MODEL_FOLDER_HINT,
    find_text_ends,
    folder_id,
    folder_max_tokens,
    folder_width,
    usable_cores,
)
from airw._base.overriding import override
from airw._base.vectors import unit_rows
from airw.embedders._local import LocalEmbedder
from airw.errors import AirwError, EmbedderError, EmbedderMismatch, EmbedderUnavailable

_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # sentence-transformers uses the first that a model has


class SentenceTransformerEmbedder(HubModel, LocalEmbedder):
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

    _NOUN: ClassVar[str] = "model"
    _MAKER: ClassVar[str] = "SentenceTransformer"
    _ERROR: ClassVar[type[AirwError]] = EmbedderError
    _UNAVAILABLE: ClassVar[type[AirwError]] = EmbedderUnavailable

    def __init__(
        self, model: str | os.PathLike[str] = DEFAULT_MODEL, *, batch_size: int = 32, threads: int | None = None
    ) -> None:
        super().__init__(model, fix=MODEL_FOLDER_HINT)
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._threads = usable_cores() if threads is None else check_count("threads", threads, least=1)
        self._id: str | None = None
        self._dim: int | None = None
        self._tokenizer: Any = None

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

    @property
    def max_tokens(self) -> int | None:
        """Return how many tokens of a text the model reads; `None` if its settings do not tell.

        Raises:
            EmbedderUnavailable: If the folder does not exist or is not a model folder.
            EmbedderError: If the model is not downloaded yet.
        """
        folder = self._find_folder()
        if folder is None and self._model is None:
            raise EmbedderError(f"max_tokens of the model {self._name!r} is not known before it is downloaded")
        return None if folder is None else folder_max_tokens(folder)

    def _read_id(self) -> str:
        if self._folder is not None:
            return folder_id(self._folder, fix=self._fix)
        folder = find_snapshot(self._name)
        # What is in the cache may be of an unusual kind: then it is known by its name.
        with suppress(EmbedderUnavailable):
            return f"{HUB_PREFIX}{self._name}" if folder is None else folder_id(folder)
        return f"{HUB_PREFIX}{self._name}"

    @override
    def _has_width(self) -> bool:
        if self._dim is None and (folder := self._find_folder()) is not None:
            self._dim = folder_width(folder)
        return self._dim is not None

    @override
    def _check_download(self) -> None:
        folder = find_snapshot(self._name)
        if folder is not None and self._id is not None and not self._id.startswith(HUB_PREFIX):
            found = folder_id(folder)
            if found != self._id:
                raise EmbedderMismatch(
                    f"{self._label} on the hub has the id {found!r}, but the corpus was built with {self._id!r}; "
                    f"{self._fix}"
                )

    @override
    def _keep(self, model: Any) -> None:
        # Settings may contradict the model, so measure the width with a vector.
        self._dim = len(self._run_model(model, "encode_document", ["a"], batch_size=1)[0])
        super()._keep(model)

    @override
    def _find_ends(self, texts: list[str]) -> list[int]:
        tokenizer, limit = getattr(self._model.tokenizer, "backend_tokenizer", None), self._model.max_seq_length
        if tokenizer is None or limit is None:
            return list(map(len, texts))
        if self._tokenizer is None:
            # The model sets the limit of its own tokenizer for each call, so change a copy.
            self._tokenizer = type(tokenizer).from_str(tokenizer.to_str())
            self._tokenizer.enable_truncation(limit)
        prompts = [self._model.prompts[kind] for kind in _DOCUMENT_PROMPTS if kind in self._model.prompts]
        return find_text_ends(self._tokenizer, texts, prompt=next(iter(prompts), ""))

    @override
    def _encode(self, kind: str, texts: list[str]) -> Floats:
        # Before each batch, because another embedder with another number of threads may have run since the last one.
        import_module("torch").set_num_threads(self._threads)
        rows = self._run_model(self._model, f"encode_{kind}", texts, batch_size=self._batch_size)
        return unit_rows(rows, count=len(texts), dim=self._dim, of=self._label)
