"""A reranker that runs a cross-encoder in this process."""

import os
from collections.abc import Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import ClassVar

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_count
from airw._base.hub_models import HubModel
from airw._base.local_models import folder_id, run_batches, usable_cores
from airw.errors import AirwError, RerankerError, RerankerUnavailable
from airw.reranking.calling import check_inputs, to_floats

DEFAULT_MODEL = "cross-encoder/ms-marco-MiniLM-L-6-v2"
_FIX = "pass a folder saved by sentence-transformers' CrossEncoder, or a name on the hub"


class CrossEncoderReranker(HubModel):
    """A reranker that runs a cross-encoder of sentence-transformers.

    A cross-encoder reads the query together with each text. The constructor loads nothing: the model is loaded in a
    worker thread on first use. One batch is scored at a time, always in a worker thread. A score is the sigmoid of the
    model's single output, from 0 to 1, also if the model's own settings name another activation. The same text may
    score about 1e-6 differently in another batch.

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

    _NOUN: ClassVar[str] = "reranker"
    _MAKER: ClassVar[str] = "CrossEncoder"
    _ERROR: ClassVar[type[AirwError]] = RerankerError
    _UNAVAILABLE: ClassVar[type[AirwError]] = RerankerUnavailable

    def __init__(self, model: str | os.PathLike[str] = DEFAULT_MODEL, *, batch_size: int = 32) -> None:
        super().__init__(model, fix=_FIX)
        self._batch_size = check_count("batch_size", batch_size, least=1)

    @cached_property
    def id(self) -> str:
        """Return the id of the model.

        It is `ce:<name>` for a model on the hub, `ce:<architecture>-<width>@<hash>` for a folder. The hash covers
        weights and settings, so the id does not depend on the place of the folder. The first access reads the weights,
        which takes about 0.1 s for 90 MB: use a worker thread.

        Raises:
            RerankerUnavailable: If the folder does not exist, or is not a model folder.
        """
        if self._folder is None:
            return f"ce:{self._name}"
        return f"ce:{folder_id(self._folder, error=RerankerUnavailable, fix=_FIX)}"

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score from 0 to 1 for each text, in their order; higher is more relevant.

        Raises:
            RerankerUnavailable: If sentence-transformers is not installed, or the model is not found.
            RerankerError: If `query` or a text is not a string or contains an unpaired surrogate, or if the model
                fails or returns NaN.
        """
        checked = check_inputs(query, texts, of=self._label)
        if checked:
            await self._load()

        async def read(batch: list[str]) -> Floats:
            return await self._turns.run(partial(self._predict, query, batch))

        logits = await run_batches(checked, size=self._batch_size, dim=1, encode=read)
        with np.errstate(over="ignore"):  # exp overflows to infinity for very low logits: the score is 0
            scores = 1.0 / (1.0 + np.exp(-logits[:, 0].astype(np.float64)))
        return to_floats(scores.tolist(), lambda: self._label)

    def _predict(self, query: str, texts: list[str]) -> Floats:
        """Return the logit of each text, as a column."""
        torch = import_module("torch")
        torch.set_num_threads(usable_cores())  # before each batch: an embedder may have changed the process-wide count
        pairs, identity = [(query, text) for text in texts], torch.nn.Identity()
        answer = self._run_model(self._model, "predict", pairs, batch_size=len(pairs), activation_fn=identity)
        rows = np.asarray(answer, np.float32)
        if rows.size != len(texts):
            raise RerankerError(f"{self._label} returns {rows.shape[1:]} numbers a text, not one: is it a classifier?")
        return rows.reshape(len(texts), 1)
