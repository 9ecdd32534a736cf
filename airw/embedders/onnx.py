"""An embedder that runs an exported model with onnxruntime.

It needs no torch and less memory, and it is faster. It reads these files:

```text
FOLDER/airw-onnx/model.onnx       the model with its pooling: token ids to sentence vectors
FOLDER/airw-onnx/tokenizer.json   the tokenizer of the model, with the length to which it cuts texts
FOLDER/airw-onnx/export.json      the manifest: the model they were exported from, and its settings
```

Embedding needs only these three files. `FOLDER` may also contain the exported model.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.checks import check_count
from airw._base.local_models import (
    MODEL_FOLDER_HINT,
    SerialWorker,
    file_hash,
    find_text_ends,
    folder_id,
    require_folder,
    usable_cores,
    weight_files,
)
from airw._base.messages import error_text
from airw._base.overriding import override
from airw._base.vectors import unit_rows
from airw.embedders._local import LocalEmbedder
from airw.errors import ArgumentError, EmbedderError, EmbedderUnavailable

FORMAT = 1
PLACE = "airw-onnx"
GRAPH, TOKENIZER, MANIFEST = "model.onnx", "tokenizer.json", "export.json"

# Settings that change vectors and are not part of the model's id.
_SETTINGS = ("config.json", "config_sentence_transformers.json", "tokenizer.json", "tokenizer_config.json")
# Tokens in one run, including padding. The results of a layer for this many tokens fit into the cache of a core, and
# texts of different length need little padding. In `bench_models`, texts of 8 words run 3 times as fast as with torch
# if they differ in length, and 1.2 times as fast if they do not.
_RUN_TOKENS = 192


@dataclass(frozen=True, slots=True)
class Manifest:
    """The model from which an export was made, and the settings to run it.

    Args:
        id: The id of the exported model folder.
        settings: A hash of the settings in that folder that are not part of its id.
        dim: The width of the vectors.
        max_length: The number of tokens to which texts are cut; `None` for no limit.
        pad_id: The token that pads the shorter texts of a run.
        pooling: How token vectors become one vector: `mean`, `cls` or `max`. It is part of the graph.
        prompts: The texts put before a text, by kind: `query` and `document`.
        sha256: The hashes of the graph and the tokenizer, by file name.
    """

    id: str
    settings: str
    dim: int
    max_length: int | None
    pad_id: int
    pooling: str
    prompts: Mapping[str, str]
    sha256: Mapping[str, str]


def has_export(folder: Path) -> bool:
    """Return whether a folder contains an export, without reading it."""
    return (folder / PLACE / MANIFEST).is_file()


def can_run() -> bool:
    """Return whether the packages that run an export are installed, without loading them."""
    return all(find_spec(name) is not None for name in ("onnxruntime", "tokenizers"))


def settings_hash(folder: Path) -> str:
    """Return a hash of the settings that change vectors and are not part of the model's id."""
    hashes = [f"{name}:{file_hash(folder / name)}" for name in _SETTINGS if (folder / name).is_file()]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def read_export(folder: Path) -> Manifest:
    """Return the manifest of the export in a folder.

    If the folder also contains a model, the export must have been made from that model.

    Raises:
        EmbedderUnavailable: If there is no export, it cannot be read, or the model changed after the export.
    """
    if not has_export(folder):
        raise EmbedderUnavailable(
            f"the model folder {str(folder)!r} contains no ONNX export; it needs {PLACE}/{MANIFEST}, {GRAPH} and "
            f"{TOKENIZER}"
        )
    manifest = _read_manifest(folder / PLACE / MANIFEST)
    if weight_files(folder):
        for part, current, exported in (
            ("weights", folder_id(folder), manifest.id),
            ("settings", settings_hash(folder), manifest.settings),
        ):
            if current != exported:
                raise EmbedderUnavailable(
                    f"the {part} in {str(folder)!r} changed after the ONNX export; export the model again"
                )
    return manifest


def _parse_manifest(text: str) -> Manifest:
    fields: dict[str, Any] = json.loads(text)
    if fields.pop("format") != FORMAT:
        raise ValueError("another version of airw wrote it")
    return Manifest(**fields)


def _read_manifest(path: Path) -> Manifest:
    try:
        return _parse_manifest(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise EmbedderUnavailable(
            f"{str(path)!r} cannot be used ({error_text(error)}); export the model again"
        ) from error


def check_files(folder: Path, manifest: Manifest) -> None:
    """Check that the graph and the tokenizer are the exported files.

    Raises:
        EmbedderUnavailable: If one of them is missing, damaged or changed.
    """
    for name in (GRAPH, TOKENIZER):
        path = folder / PLACE / name
        if not path.is_file() or file_hash(path) != manifest.sha256.get(name):
            raise EmbedderUnavailable(
                f"{str(path)!r} is missing or is not the exported file; copy the export, or export the model, again"
            )


class OnnxEmbedder(LocalEmbedder):
    """An embedder that runs an exported model with onnxruntime.

    It has the id of the exported model. So a corpus built with the model opens and searches with the export, and the
    other way round. Creating one loads and reads nothing; the model is loaded at the first
    call. One batch is encoded at a time, always in a worker thread. A query that arrives while documents are embedded
    waits for one batch, not for all of them. The vector of a text may differ by about 1e-6 in another batch.

    Args:
        folder: The folder with the export, in which the model may be, too.
        batch_size: The number of texts in a batch; cancellation takes effect between batches.
        threads: CPU threads, which share the texts of a batch; by default one a core.

    Raises:
        ArgumentError: If `folder` is not a path, or a count is not a whole number of at least 1.

    Example:
        >>> OnnxEmbedder("models/all-MiniLM-L6-v2")
        OnnxEmbedder('...all-MiniLM-L6-v2')
    """

    def __init__(self, folder: str | os.PathLike[str], *, batch_size: int = 32, threads: int | None = None) -> None:
        if not isinstance(folder, str | os.PathLike) or not str(folder).strip():
            raise ArgumentError(f"folder must be the path of a model folder, not {folder!r}")
        self._folder = Path(folder).expanduser().absolute()
        self._batch_size = check_count("batch_size", batch_size, least=1)
        self._threads = usable_cores() if threads is None else check_count("threads", threads, least=1)
        self._manifest: Manifest | None = None
        self._model: _Model | None = None
        self._turns = SerialWorker(self._folder.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._folder)!r})"

    def __eq__(self, other: object) -> bool:
        """Return True for the same folder; other settings do not matter."""
        return self._folder == other._folder if isinstance(other, OnnxEmbedder) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._folder)

    @property
    def id(self) -> str:
        """Return the id of the exported model.

        It is `<architecture>-<width>@<hash of weights and settings>`.

        If the folder also contains the weights, the first call reads and compares them. This takes about 0.1 s for
        90 MB, so call it in a worker thread.

        Raises:
            EmbedderUnavailable: If the folder does not exist, contains no export, or its weights changed after it.
        """
        return self._get_manifest().id

    @property
    def dim(self) -> int:
        """Return the width of the vectors.

        Raises:
            EmbedderUnavailable: As for `id`.
        """
        return self._get_manifest().dim

    @property
    def max_tokens(self) -> int | None:
        """Return how many tokens of a text the model reads; `None` for no limit.

        Raises:
            EmbedderUnavailable: As for `id`.
        """
        return self._get_manifest().max_length

    def check_runnable(self) -> None:
        """Check that the packages and the folder of the model are there, without loading them.

        Raises:
            EmbedderUnavailable: If one of them is missing.
        """
        require_folder(self._folder)
        if not can_run():
            raise EmbedderUnavailable(
                f"{self._label} needs onnxruntime and tokenizers: pip install 'airw[onnx]'; {MODEL_FOLDER_HINT}"
            )

    @property
    def _label(self) -> str:
        return f"the model {self._folder.name!r}"

    def _get_manifest(self) -> Manifest:
        if self._manifest is None:
            self._manifest = read_export(require_folder(self._folder))
        return self._manifest

    @override
    def _has_width(self) -> bool:
        return bool(self._get_manifest())

    @override
    async def _load(self) -> None:
        if self._model is None:
            await self._turns.run(self._load_once)

    def _load_once(self) -> None:
        if self._model is None:
            manifest = self._get_manifest()
            self.check_runnable()
            check_files(self._folder, manifest)
            self._model = _Model(self._folder / PLACE, manifest, self._threads, self._label)

    @override
    def _encode(self, kind: str, texts: list[str]) -> Floats:
        return cast("_Model", self._model).embed(texts, kind)

    @override
    def _find_ends(self, texts: list[str]) -> list[int]:
        return cast("_Model", self._model).find_ends(texts)


class _Model:
    """A loaded export.

    A batch is split into runs of few tokens, which run at the same time, each on one thread. This is faster than one
    run on many threads. It also keeps onnxruntime from starting its own threads, which use the CPU while they wait, and
    do not exist after a fork.
    """

    def __init__(self, place: Path, manifest: Manifest, threads: int, label: str) -> None:
        self._manifest, self._threads, self._label = manifest, threads, label
        try:
            self._tokenizer = import_module("tokenizers").Tokenizer.from_file(str(place / TOKENIZER))
            self._session = _create_session(place / GRAPH)
        except Exception as error:
            raise EmbedderUnavailable(
                f"the export in {str(place)!r} cannot be loaded ({error_text(error)}); update onnxruntime and "
                "tokenizers, or export the model again"
            ) from error
        self._inputs = [model_input.name for model_input in self._session.get_inputs()]

    def embed(self, texts: list[str], kind: str) -> Floats:
        """Return a unit row for each text, with the prompt for this kind before the text."""
        prompt = self._manifest.prompts[kind]
        try:
            rows = self._run_all([prompt + text for text in texts])
        except Exception as error:  # any error of two libraries
            raise EmbedderError(f"{self._label} failed: {error_text(error)}") from error
        return unit_rows(rows, count=len(texts), dim=self._manifest.dim, of=self._label)

    def find_ends(self, texts: list[str]) -> list[int]:
        """Return the position up to which the model reads each document."""
        return find_text_ends(self._tokenizer, texts, prompt=self._manifest.prompts["document"])

    def _run_all(self, texts: list[str]) -> Floats:
        encoded = self._tokenizer.encode_batch(texts)
        rows = np.empty((len(texts), self._manifest.dim), np.float32)

        def run(positions: list[int]) -> None:
            (rows[positions],) = self._session.run(None, self._feed([encoded[position] for position in positions]))

        runs = _split_into_runs([len(encoding) for encoding in encoded])
        if self._threads == 1 or len(runs) == 1:
            list(map(run, runs))
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(run, runs))
        return rows

    def _feed(self, encoded: Sequence[Any]) -> dict[str, NDArray[np.int64]]:
        shape = len(encoded), max(map(len, encoded))
        # Shorter texts keep the padding token, and 0 in the mask, after their end.
        feed = {
            "input_ids": np.full(shape, self._manifest.pad_id, np.int64),
            "attention_mask": np.zeros(shape, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
        }
        for row, encoding in enumerate(encoded):
            feed["input_ids"][row, : len(encoding)] = encoding.ids
            feed["attention_mask"][row, : len(encoding)] = encoding.attention_mask
            feed["token_type_ids"][row, : len(encoding)] = encoding.type_ids
        return {name: feed[name] for name in self._inputs}


def _create_session(path: Path) -> Any:
    library = import_module("onnxruntime")
    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = library.ExecutionMode.ORT_SEQUENTIAL
    options.enable_mem_pattern = False  # it would store a memory plan for every shape of input
    return library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _split_into_runs(lengths: list[int]) -> list[list[int]]:
    """Split the positions of texts into runs of bounded size, with at least one text each."""
    runs: list[list[int]] = []
    free = 0
    # By length, longest first: texts of similar length need little padding, and the first of a run sets its width.
    for position in sorted(range(len(lengths)), key=lambda position: -lengths[position]):
        if not free:
            runs.append([])
            free = max(1, _RUN_TOKENS // max(1, lengths[position]))
        runs[-1].append(position)
        free -= 1
    return runs
