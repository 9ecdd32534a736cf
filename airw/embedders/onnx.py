"""An embedder that runs an exported model with onnxruntime: without torch, in less memory, and faster.

What `airw model export` writes, and this embedder reads:

```text
FOLDER/airw-onnx/model.onnx       the model with its pooling: token ids to sentence vectors
FOLDER/airw-onnx/tokenizer.json   the tokenizer as it was loaded, with the length that texts are cut to
FOLDER/airw-onnx/export.json      the manifest: what they were made from
```

The three are all that is needed to embed: `FOLDER` may hold the model they were made from, or nothing else.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.checks import check_count, check_texts
from airw._base.local_models import (
    SerialWorker,
    file_hash,
    folder_id,
    require_folder,
    run_batches,
    spare_cores,
    weight_files,
)
from airw._base.messages import error_text
from airw._base.vectors import unit_rows
from airw.errors import ArgumentError, EmbedderError, EmbedderUnavailable

FORMAT = 1
PLACE = "airw-onnx"
GRAPH, TOKENIZER, MANIFEST = "model.onnx", "tokenizer.json", "export.json"

# What vectors depend on beside what is in the model's id.
_SETTINGS = ("config.json", "config_sentence_transformers.json", "tokenizer.json", "tokenizer_config.json")
# Tokens run at once, filled-up ones included. What one layer computes of so many stays in a core's cache, and texts of
# a batch that differ in length fill up little.
_RUN_TOKENS = 192


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an export was made from, and what running it takes.

    Args:
        id: The id of the model folder it was made from.
        settings: A hash of that folder's settings which are not part of its id.
        dim: The width of the vectors.
        max_length: The tokens that texts are cut to; `None` is no limit.
        pad_id: The token that fills up shorter texts of a batch.
        pooling: The way from token vectors to one vector: `mean`, `cls` or `max`. The graph does it.
        prompts: What is put before a text: `query` and `document`.
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

    def write(self, place: Path) -> None:
        """Write the manifest beside the graph."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False, indent=2)
        (place / MANIFEST).write_text(f"{text}\n", encoding="utf-8")


def has_export(folder: Path) -> bool:
    """Return whether a folder holds an export; nothing is read."""
    return (folder / PLACE / MANIFEST).is_file()


def can_run() -> bool:
    """Return whether the packages that run an export are installed; nothing is loaded."""
    return all(find_spec(name) is not None for name in ("onnxruntime", "tokenizers"))


def settings_hash(folder: Path) -> str:
    """Return a hash of the settings that vectors depend on and that are not in the model's id."""
    found = [f"{name}:{file_hash(folder / name)}" for name in _SETTINGS if (folder / name).is_file()]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def read_export(folder: Path) -> Manifest:
    """Return the manifest of a folder's export; where the model lies beside it, it must be the one it was made from.

    Raises:
        EmbedderUnavailable: There is no export, it cannot be read, or the model was changed after it was made.
    """
    if not has_export(folder):
        raise EmbedderUnavailable(
            f"the model folder {str(folder)!r} holds no ONNX export; `airw model export {folder}` makes it"
        )
    manifest = _read_manifest(folder / PLACE / MANIFEST)
    if weight_files(folder):
        for what, now, then in (
            ("weights", folder_id(folder), manifest.id),
            ("settings", settings_hash(folder), manifest.settings),
        ):
            if now != then:
                raise EmbedderUnavailable(
                    f"the {what} in {str(folder)!r} are not those that its ONNX export was made from: "
                    f"`airw model export {folder}` makes it again"
                )
    return manifest


def _parse_manifest(text: str) -> Manifest:
    fields: dict[str, Any] = json.loads(text)
    if fields.pop("format") != FORMAT:
        raise ValueError("another version of airw made it")
    return Manifest(**fields)


def _read_manifest(path: Path) -> Manifest:
    try:
        return _parse_manifest(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise EmbedderUnavailable(
            f"{str(path)!r} cannot be used ({error_text(error)}); `airw model export` makes it again"
        ) from error


def check_files(folder: Path, manifest: Manifest) -> None:
    """Make sure that the graph and the tokenizer are those that were exported.

    Raises:
        EmbedderUnavailable: One of them is missing, damaged or changed.
    """
    for name in (GRAPH, TOKENIZER):
        path = folder / PLACE / name
        if not path.is_file() or file_hash(path) != manifest.sha256.get(name):
            raise EmbedderUnavailable(
                f"{str(path)!r} is missing or not the file that was exported: copy the export again, "
                "or make it again with `airw model export`"
            )


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
        self._turns = SerialWorker(self._folder.name)

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
        """Return the width of the vectors.

        Raises:
            EmbedderUnavailable: As for `id`.
        """
        return self._checked_manifest().dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return `(len(texts), dim) float32` unit rows, in the order of the texts.

        Raises:
            EmbedderUnavailable: onnxruntime or tokenizers is not installed, or the export is missing, damaged, or of
                other weights than those beside it.
            EmbedderError: `texts` is not a list of strings, one holds a lone surrogate, or the model failed.
        """
        given = check_texts(texts, of=self._label, error=EmbedderError, encodable=True)
        if not given:
            manifest = await self._turns.run(self._checked_manifest)
            return np.zeros((0, manifest.dim), np.float32)
        model = await self._loaded()

        async def encode(batch: list[str]) -> Floats:
            return await self._turns.run(partial(model.rows, batch, "document"))

        return await run_batches(given, size=self._batch_size, dim=self.dim, encode=encode)

    async def embed_query(self, text: str) -> Floats:
        """Return `(dim,) float32`, of length one, with the model's prompt for queries."""
        given = check_texts([text], of=self._label, error=EmbedderError, encodable=True)
        model = await self._loaded()
        row: Floats = (await self._turns.run(partial(model.rows, given, "query")))[0]
        return row

    @property
    def _label(self) -> str:
        return f"the model {self._folder.name!r}"

    def _checked_manifest(self) -> Manifest:
        if self._manifest is None:
            self._manifest = read_export(require_folder(self._folder))
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
                f"the export in {str(place)!r} cannot be loaded ({error_text(error)}): update onnxruntime and "
                "tokenizers, or make it again with `airw model export`"
            ) from error
        self._inputs = [each.name for each in self._session.get_inputs()]

    def rows(self, texts: list[str], kind: str) -> Floats:
        """Return a row of length one for each text, with the model's prompt for the kind before it."""
        prompt = self._manifest.prompts[kind]
        try:
            rows = self._run_all([prompt + text for text in texts])
        except Exception as error:  # the errors of two libraries meet here
            raise EmbedderError(f"{self._label} failed: {error_text(error)}") from error
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
