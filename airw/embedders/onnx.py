"""An embedder that runs an exported model with onnxruntime: without torch, in less memory, and faster."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.checks import check_count
from airw._base.vectors import unit_rows
from airw.embedders._exports import GRAPH, PLACE, TOKENIZER, Manifest, can_run, check_files, read_export
from airw.embedders._local import Turns, embed_batches, encodable, need_folder, spare_cores
from airw.embedders._texts import one_line
from airw.errors import ArgumentError, EmbedderError, EmbedderUnavailable

__all__ = ["OnnxEmbedder"]

# Tokens run at once, filled-up ones included. What one layer computes of so many stays in a core's cache, and texts of
# a batch that differ in length fill up little.
_RUN_TOKENS = 192


class OnnxEmbedder:
    """Embeds with a model that `airw model export FOLDER` made ready for onnxruntime, loaded when it is first needed.

    It has the id of the model it was made from, and the vectors of `SentenceTransformerEmbedder` to 1e-4: a corpus
    built with one opens and searches with the other. Making one loads and reads nothing. One batch is encoded at a
    time, always off the event loop; a query that comes while documents are being embedded waits for one batch, not for
    all. Vectors of the same text in another batch may differ by about 1e-6.

    Args:
        folder: The folder that was exported, or the one that the export was written to.
        batch_size: Texts encoded at once; cancellation takes effect between batches.
        threads: CPU threads, which share out the texts of a batch; all cores but one when left out.

    Raises:
        ArgumentError: `folder` is no path, or a count is not a whole number of at least 1.

    Example:
        >>> OnnxEmbedder("models/all-MiniLM-L6-v2")
        OnnxEmbedder('...all-MiniLM-L6-v2')
    """

    def __init__(self, folder: str | os.PathLike[str], *, batch_size: int = 32, threads: int | None = None) -> None:
        if not isinstance(folder, str | os.PathLike) or not str(folder).strip():
            raise ArgumentError(f"folder must be the path of a model folder, not {folder!r}")
        self._folder = Path(folder).expanduser().absolute()
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._threads = spare_cores() if threads is None else check_count("threads", threads, least=1)
        self._manifest: Manifest | None = None
        self._model: _Model | None = None
        self._turns = Turns(self._folder.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._folder)!r})"

    def __eq__(self, other: object) -> bool:
        """Equal are those of the same folder; how they run does not matter."""
        return self._folder == other._folder if isinstance(other, OnnxEmbedder) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._folder)

    @property
    def id(self) -> str:
        """Name the model: `<architecture>-<width>@<hash of weights and settings>` of the folder that was exported.

        Where the weights lie beside the export they are read once and compared, which takes about 0.1 s for 90 MB: ask
        in a worker thread.

        Raises:
            EmbedderUnavailable: The folder is not there, it holds no export, or its weights were changed after it.
        """
        return self._checked_manifest().id

    @property
    def dim(self) -> int:
        """Give the width of the vectors.

        Raises:
            EmbedderUnavailable: As for `id`.
        """
        return self._checked_manifest().dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Give `(len(texts), dim) float32` unit rows, in the order of the texts.

        Raises:
            EmbedderUnavailable: onnxruntime or tokenizers is not installed, or the export is missing, damaged, or of
                other weights than those beside it.
            EmbedderError: `texts` is not a list of strings, one holds a lone surrogate, or the model failed.
        """
        given = encodable(texts, of=self._label)
        if not given:
            manifest = await self._turns.run(self._checked_manifest)
            return np.zeros((0, manifest.dim), np.float32)
        model = await self._loaded()

        async def encode(batch: list[str]) -> Floats:
            return await self._turns.run(partial(model.rows, batch, "document"))

        return await embed_batches(given, size=self._batch_size, dim=self.dim, encode=encode)

    async def embed_query(self, text: str) -> Floats:
        """Give `(dim,) float32`, of length one; a model with a prompt for queries uses it.

        Raises:
            EmbedderUnavailable: As for `embed_documents`.
            EmbedderError: `text` is not a string, it holds a lone surrogate, or the model failed.
        """
        given = encodable([text], of=self._label)
        model = await self._loaded()
        row: Floats = (await self._turns.run(partial(model.rows, given, "query")))[0]
        return row

    @property
    def _label(self) -> str:
        return f"the model {self._folder.name!r}"

    def _checked_manifest(self) -> Manifest:
        if self._manifest is None:
            self._manifest = read_export(need_folder(self._folder))
        return self._manifest

    async def _loaded(self) -> "_Model":
        return await self._turns.run(self._load_once) if self._model is None else self._model

    def _load_once(self) -> "_Model":
        if self._model is not None:
            return self._model
        manifest = self._checked_manifest()
        if not can_run():
            raise EmbedderUnavailable(
                f"{self._label} needs onnxruntime and tokenizers: pip install 'airw[onnx]', or use the embedder 'light'"
            )
        check_files(self._folder, manifest)
        self._model = model = _Model(self._folder / PLACE, manifest, self._threads, self._label)
        return model


class _Model:
    """A loaded export.

    A batch is cut into runs of few tokens that are done side by side, each on one thread: faster than one run on many
    threads, and onnxruntime starts none of its own, which would spin while they wait and be missing after a fork.
    """

    def __init__(self, place: Path, manifest: Manifest, threads: int, label: str) -> None:
        self._manifest, self._threads, self._label = manifest, threads, label
        try:
            self._tokenizer = import_module("tokenizers").Tokenizer.from_file(str(place / TOKENIZER))
            self._session = _session(place / GRAPH)
        except Exception as error:
            raise EmbedderUnavailable(
                f"the export in {str(place)!r} cannot be loaded ({one_line(error)}): update onnxruntime and "
                "tokenizers, or make it again with `airw model export`"
            ) from error
        self._inputs = [each.name for each in self._session.get_inputs()]

    def rows(self, texts: list[str], kind: str) -> Floats:
        """Give a row of length one for each text, with the model's prompt for the kind before it."""
        prompt = self._manifest.prompts[kind]
        try:
            rows = self._run_all([prompt + text for text in texts])
        except Exception as error:  # the errors of two libraries meet here
            raise EmbedderError(f"{self._label} failed: {one_line(error)}") from error
        return unit_rows(rows, count=len(texts), dim=self._manifest.dim, of=self._label)

    def _run_all(self, texts: list[str]) -> Floats:
        encoded = self._tokenizer.encode_batch(texts)
        rows = np.empty((len(texts), self._manifest.dim), np.float32)

        def run(part: list[int]) -> None:
            (rows[part],) = self._session.run(None, self._feed([encoded[at] for at in part]))

        parts = _parts([len(each) for each in encoded])
        if self._threads == 1 or len(parts) == 1:
            list(map(run, parts))
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(run, parts))
        return rows

    def _feed(self, encoded: Sequence[Any]) -> dict[str, NDArray[np.int64]]:
        shape = len(encoded), max(map(len, encoded))
        filled = {
            "input_ids": np.full(shape, self._manifest.pad_id, np.int64),
            "attention_mask": np.zeros(shape, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
        }
        for row, each in enumerate(encoded):
            filled["input_ids"][row, : len(each)] = each.ids
            filled["attention_mask"][row, : len(each)] = each.attention_mask
            filled["token_type_ids"][row, : len(each)] = each.type_ids
        return {name: filled[name] for name in self._inputs}


def _session(path: Path) -> Any:
    library = import_module("onnxruntime")
    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = library.ExecutionMode.ORT_SEQUENTIAL
    options.enable_mem_pattern = False  # it would keep a plan of memory for each shape it has seen
    return library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _parts(lengths: list[int]) -> list[list[int]]:
    """Cut positions, longest first, into runs of bounded size, at least one position each."""
    parts: list[list[int]] = []
    room = 0
    for at in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        if not room:
            parts.append([])
            room = max(1, _RUN_TOKENS // max(1, lengths[at]))
        parts[-1].append(at)
        room -= 1
    return parts
