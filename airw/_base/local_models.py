"""Models that run in this process: their folders, their ids, and one worker for each."""

import hashlib
import json
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import numpy as np
from anyio.lowlevel import RunVar

from airw._base.arrays import Floats
from airw._base.concurrency import in_thread
from airw._base.messages import error_text, short_repr
from airw.errors import AirwError, ArgumentError, EmbedderUnavailable

DEFAULT_MODEL = "all-MiniLM-L6-v2"
MODEL_FOLDER_HINT = (
    "set AIRW_MODEL_DIR to the folder of all-MiniLM-L6-v2, pass a model folder, or use the embedder 'light'"
)
FIT_HINT = "pass the embedder it was built with, or rebuild it with this one"
HUB_PREFIX = "st:"
"""The beginning of the id of a model that is known only by its name on the hub."""

# The name of a model on the Hugging Face hub: `model` or `owner/model`.
_HUB_NAME = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?", re.ASCII)
# Modules of sentence-transformers that do not change the width of the vectors.
_WIDTH_KEEPING = {"Transformer", "Pooling", "Normalize"}
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SETTINGS = ("modules.json", "sentence_bert_config.json", "*/config.json")

R = TypeVar("R")


def is_hub_name(model: str) -> bool:
    """Return whether a text can be the name of a model on the hub: `model` or `owner/model`.

    Example:
        >>> [is_hub_name(text) for text in ("BAAI/bge-small-en-v1.5", "/srv/models/bge", "a/b/c", "./bge")]
        [True, False, False, False]
    """
    return _HUB_NAME.fullmatch(model) is not None and not model.startswith(".")


def locate_model(model: str | os.PathLike[str]) -> tuple[str, Path | None]:
    """Return the name of a model, and its folder, or `None` for a model on the hub.

    Raises:
        ArgumentError: If it is neither a name nor a path.
    """
    if isinstance(model, os.PathLike):
        folder = Path(model).absolute()
        return folder.name, folder
    if not isinstance(model, str) or not model.strip():
        raise ArgumentError(f"model must be a name on the hub or a folder, not {model!r}")
    if model.removeprefix("sentence-transformers/") == DEFAULT_MODEL:
        configured = os.environ.get("AIRW_MODEL_DIR")
        return DEFAULT_MODEL, Path(configured).absolute() if configured else None
    separators = {os.sep, os.altsep or os.sep, "/"}
    has_separator = any(separator in model for separator in separators)
    # "owner/model" may be a name on the hub or a path: it is a path if that folder exists.
    if has_separator and (not is_hub_name(model) or is_folder(model)):
        folder = Path(model).expanduser().absolute()
        return folder.name, folder
    return model, None


def is_folder(spec: str) -> bool:
    """Return whether there is a folder of this path, which may be an impossible one."""
    try:
        return Path(spec).is_dir()
    except (OSError, ValueError):
        return False


def require_folder(folder: Path, *, error: type[AirwError] = EmbedderUnavailable, fix: str = MODEL_FOLDER_HINT) -> Path:
    """Return the folder if it exists.

    Raises:
        AirwError: If it does not exist; of type `error`, with the advice `fix`.
    """
    if not is_folder(str(folder)):
        raise error(f"there is no model folder {short_repr(str(folder))}; {fix}")
    return folder


def folder_id(folder: Path, *, error: type[AirwError] = EmbedderUnavailable, fix: str = MODEL_FOLDER_HINT) -> str:
    """Return the id of the model in a folder: `<architecture>-<width>@<hash>`.

    The hash covers the weights and all settings that the vectors depend on, so that equal ids mean equal vectors.

    Raises:
        AirwError: If it is not a model folder; of type `error`, with the advice `fix`.
    """
    with _explain_errors(folder, error, fix):
        weights = weight_files(folder)
        if not weights:
            raise ValueError("it contains no weights, *.safetensors or pytorch_model*.bin")
        config = _read_json(folder / "config.json")
        settings = [path for pattern in _SETTINGS for path in sorted(folder.glob(pattern))]
        digest = hashlib.sha256()
        for path in weights + settings:
            digest.update(f"{path.relative_to(folder).as_posix()}:{path.stat().st_size}:".encode())
            digest.update(bytes.fromhex(_find_cached_hash(path) or file_hash(path)))
        return f"{config.get('model_type', 'model')}-{config.get('hidden_size', 'x')}@{digest.hexdigest()[:12]}"


def folder_width(folder: Path) -> int | None:
    """Return the width of the vectors, or `None` if only the loaded model knows it.

    Raises:
        EmbedderUnavailable: If it is not a model folder.
    """
    with _explain_errors(folder, EmbedderUnavailable, MODEL_FOLDER_HINT):
        width = _read_json(folder / "config.json").get("hidden_size")
        modules = _read_json(folder / "modules.json") if (folder / "modules.json").exists() else []
        kinds = {module["type"].rpartition(".")[2] for module in modules}
        pooling_folders = [module["path"] for module in modules if "Pooling" in module["type"]]
        pools = [_read_json(folder / path / "config.json") for path in pooling_folders]
        # The vectors are as wide as the hidden layer, unless a module changes the width or several poolings are joined.
        keeps_width = kinds <= _WIDTH_KEEPING and all(_count_modes(pool) == 1 for pool in pools)
        return width if keeps_width and isinstance(width, int) else None


def folder_max_tokens(folder: Path) -> int | None:
    """Return how many tokens of a text the model in a folder reads; `None` if not known.

    Raises:
        EmbedderUnavailable: If it is not a model folder.
    """
    with _explain_errors(folder, EmbedderUnavailable, MODEL_FOLDER_HINT):
        settings = [*folder.glob("sentence_*_config.json"), *folder.glob("*/sentence_*_config.json")]
        limits = [_read_json(path).get("max_seq_length") for path in sorted(settings)]
        if not any(limits):
            others = {"config.json": "max_position_embeddings", "tokenizer_config.json": "model_max_length"}
            limits = [_read_json(folder / name).get(key) for name, key in others.items() if (folder / name).exists()]
        return min((limit for limit in limits if isinstance(limit, int)), default=None)


def weight_files(folder: Path) -> list[Path]:
    """Return the files with the weights of a model, sorted."""
    return sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("pytorch_model*.bin"))


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's content; 90 MB take about 0.1 s."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _find_cached_hash(path: Path) -> str | None:
    """Return the SHA-256 of a file in the cache of the hub without reading it.

    The hub's library names a large file there by its hash, and links to it. For any other file it is `None`.
    """
    target = path.resolve() if path.is_symlink() else path
    is_blob = target != path and target.parent.name == "blobs" and _SHA256.fullmatch(target.name)
    return target.name if is_blob else None


def _count_modes(pool: Mapping[str, Any]) -> int:
    """Return the number of pooling modes; the vectors of all modes are joined."""
    if "pooling_mode" in pool:
        return 1 if isinstance(pool["pooling_mode"], str) else len(pool["pooling_mode"])
    return sum(value is True for key, value in pool.items() if key.startswith("pooling_mode_"))


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def _explain_errors(folder: Path, error: type[AirwError], fix: str) -> Iterator[None]:
    """Turn errors of reading a model folder into an `error` with the advice `fix`."""
    require_folder(folder, error=error, fix=fix)
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as cause:
        raise error(f"{str(folder)!r} cannot be read as a model folder ({error_text(cause)}); {fix}") from cause


class SerialWorker:
    """Runs functions in a worker thread, one at a time for all tasks, threads and event loops."""

    def __init__(self, name: str) -> None:
        """Create a worker; `name` is that of its model, for debugging."""
        # Two locks: tasks of one event loop wait for the async lock, which occupies no worker thread. Only the first
        # task of each loop waits in a thread for the lock between loops.
        self._lock = threading.Lock()
        self._loop_lock: RunVar[anyio.Lock] = RunVar(f"turn of {name}")

    async def run(self, function: Callable[[], R]) -> R:
        """Wait for a turn, then return the result of the function, called in a worker thread."""
        async with self.lock:
            return await in_thread(self._run_alone, function)

    @property
    def lock(self) -> anyio.Lock:
        """The lock of the running event loop: one task of it at a time has a turn."""
        loop_lock = self._loop_lock.get(None)
        if loop_lock is None:
            loop_lock = anyio.Lock()
            self._loop_lock.set(loop_lock)
        return loop_lock

    def _run_alone(self, function: Callable[[], R]) -> R:
        with self._lock:
            return function()


async def run_batches(
    texts: list[str], *, size: int, dim: int, encode: Callable[[list[str]], Awaitable[Floats]]
) -> Floats:
    """Encode texts in batches of `size`; return `(len(texts), dim) float32`, in their order."""
    rows = np.zeros((len(texts), dim), np.float32)
    # A batch is padded to its longest text: with texts of similar length, little is wasted.
    by_length = sorted(range(len(texts)), key=lambda position: len(texts[position]))
    for start in range(0, len(texts), size):
        positions = by_length[start : start + size]
        rows[positions] = await encode([texts[position] for position in positions])
    return rows


def find_text_ends(tokenizer: Any, texts: Sequence[str], *, prompt: str) -> list[int]:
    """Return the position up to which a model reads each text after its prompt.

    `tokenizer` is one of the package `tokenizers`, with the number of tokens at which it cuts a text.
    """
    encoded = tokenizer.encode_batch([prompt + text for text in texts])
    return [
        max(0, max(end for _, end in encoding.offsets) - len(prompt)) if encoding.overflowing else len(text)
        for text, encoding in zip(texts, encoded, strict=True)
    ]


def usable_cores() -> int:
    """Return the number of cores that this process may use.

    A model may take all of them: it computes outside of Python, so that the thread of the event loop gets its turn
    within milliseconds. `bench_models` measures that.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
