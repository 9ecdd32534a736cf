"""Models that run in this process: where one lies, what its folder says of it, and whose turn it is."""

import hashlib
import json
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import numpy as np
from anyio.lowlevel import RunVar

from airw._base.arrays import Floats
from airw._base.concurrency import in_thread
from airw._base.messages import error_text
from airw.errors import AirwError, ArgumentError, EmbedderUnavailable

DEFAULT_MODEL = "all-MiniLM-L6-v2"
MODEL_FOLDER_HINT = (
    "set AIRW_MODEL_DIR to the folder of all-MiniLM-L6-v2, pass a model folder, or use the embedder 'light'"
)

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_PLAIN = {"Transformer", "Pooling", "Normalize"}
_SETTINGS = ("modules.json", "sentence_bert_config.json", "*/config.json")

R = TypeVar("R")


def locate_model(model: str | os.PathLike[str]) -> tuple[str, Path | None]:
    """Return a model's name to show, and its folder where it has one.

    Raises:
        ArgumentError: It is neither a name nor a path.
    """
    if isinstance(model, os.PathLike):
        folder = Path(model).absolute()
        return folder.name, folder
    if not isinstance(model, str) or not model.strip():
        raise ArgumentError(f"model must be a name on the hub or a folder, not {model!r}")
    if model.removeprefix("sentence-transformers/") == DEFAULT_MODEL:
        mapped = os.environ.get("AIRW_MODEL_DIR")
        return DEFAULT_MODEL, Path(mapped).absolute() if mapped else None
    separators = {os.sep, os.altsep or os.sep, "/"}
    is_path = any(separator in model for separator in separators)
    if is_path and (not _HUB_NAME.fullmatch(model) or model.startswith(".") or Path(model).is_dir()):
        folder = Path(model).expanduser().absolute()
        return folder.name, folder
    return model, None


def require_folder(folder: Path, *, error: type[AirwError] = EmbedderUnavailable, fix: str = MODEL_FOLDER_HINT) -> Path:
    """Return the folder.

    Raises:
        AirwError: It is not there: an `error`, which says what would do by `fix`.
    """
    if not folder.is_dir():
        raise error(f"there is no model folder {str(folder)!r}; {fix}")
    return folder


def folder_id(folder: Path, *, error: type[AirwError] = EmbedderUnavailable, fix: str = MODEL_FOLDER_HINT) -> str:
    """Return `<architecture>-<width>@<hash>`; the hash is of the weights and the settings that vectors depend on.

    Raises:
        AirwError: It is no model folder: an `error`, which says what would do by `fix`.
    """
    with _reading(folder, error, fix):
        weights = weight_files(folder)
        if not weights:
            raise ValueError("it holds no weights, *.safetensors or pytorch_model*.bin")
        config = _read(folder / "config.json")
        settings = [path for pattern in _SETTINGS for path in sorted(folder.glob(pattern))]
        digest = hashlib.sha256()
        for path in weights + settings:
            digest.update(f"{path.relative_to(folder).as_posix()}:{path.stat().st_size}:".encode())
            digest.update(bytes.fromhex(file_hash(path)))
        return f"{config.get('model_type', 'model')}-{config.get('hidden_size', 'x')}@{digest.hexdigest()[:12]}"


def folder_width(folder: Path) -> int | None:
    """Return the width of the vectors, or `None` where only the loaded model knows it.

    Raises:
        EmbedderUnavailable: It is no model folder.
    """
    with _reading(folder, EmbedderUnavailable, MODEL_FOLDER_HINT):
        width = _read(folder / "config.json").get("hidden_size")
        modules = _read(folder / "modules.json") if (folder / "modules.json").exists() else []
        kinds = {module["type"].rpartition(".")[2] for module in modules}
        pools = [_read(folder / module["path"] / "config.json") for module in modules if "Pooling" in module["type"]]
        plain = kinds <= _PLAIN and all(_count_modes(pool) == 1 for pool in pools)
        return width if plain and isinstance(width, int) else None


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold a model's weights."""
    return sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("pytorch_model*.bin"))


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's content, which takes about 0.1 s for 90 MB."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _count_modes(pool: Mapping[str, Any]) -> int:
    """Count the ways of pooling: each adds its own columns."""
    if "pooling_mode" in pool:
        return 1 if isinstance(pool["pooling_mode"], str) else len(pool["pooling_mode"])
    return sum(value is True for key, value in pool.items() if key.startswith("pooling_mode_"))


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def _reading(folder: Path, error: type[AirwError], fix: str) -> Iterator[None]:
    require_folder(folder, error=error, fix=fix)
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as cause:
        raise error(f"{str(folder)!r} is no model folder that can be read ({error_text(cause)}); {fix}") from cause


class SerialWorker:
    """Runs functions in a worker thread, one at a time, whatever tasks, event loops and threads ask."""

    def __init__(self, name: str) -> None:
        """Name what is taken turns at."""
        self._lock = threading.Lock()
        self._turn: RunVar[anyio.Lock] = RunVar(f"turn of {name}")  # waiting for it holds no worker thread

    async def run(self, function: Callable[[], R]) -> R:
        """Wait for a turn, then call the function in a worker thread."""
        turn = self._turn.get(None)
        if turn is None:
            turn = anyio.Lock()
            self._turn.set(turn)
        async with turn:
            return await in_thread(self._locked, function)

    def _locked(self, function: Callable[[], R]) -> R:
        with self._lock:
            return function()


async def run_batches(
    texts: list[str], *, size: int, dim: int, encode: Callable[[list[str]], Awaitable[Floats]]
) -> Floats:
    """Return `(len(texts), dim) float32`, encoded in batches of texts about as long, in the order of the texts."""
    rows = np.zeros((len(texts), dim), np.float32)
    by_length = sorted(range(len(texts)), key=lambda at: len(texts[at]))  # little padding in each batch
    for start in range(0, len(texts), size):
        picked = by_length[start : start + size]
        rows[picked] = await encode([texts[at] for at in picked])
    return rows


def spare_cores() -> int:
    """Return the number of cores that this process may use but one, and at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores - 1)
