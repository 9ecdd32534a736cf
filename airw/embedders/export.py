"""Makes a model folder ready for onnxruntime: `airw model export`."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import numpy as np

from airw._base.concurrency import in_thread
from airw.embedders._exports import GRAPH, MANIFEST, PLACE, TOKENIZER, read_export
from airw.embedders._local import need_folder
from airw.embedders._models import folder_id, weights_of
from airw.embedders._texts import one_line
from airw.embedders.onnx import OnnxEmbedder
from airw.embedders.sentence import SentenceTransformerEmbedder
from airw.errors import ArgumentError, EmbedderError, EmbedderUnavailable

__all__ = ["ExportReport", "export_model"]

_NEEDED = ("torch", "sentence_transformers", "onnx", "onnxruntime", "tokenizers")
_TOLERANCE = 1e-4

_SAMPLES = [
    "",
    "keys",
    "  How do I rotate the SIGNING keys of a build machine?\n",
    "Crème brûlée, naïve café — déjà vu; 東京の天気 🌧️ 1,234.56 €",
    "a recipe for a loaf of sourdough bread " * 8,
    "one two three four five six seven eight nine ten " * 200,
]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export made.

    Args:
        place: The folder that holds it.
        id: The id of the model, which the export has too.
        size: Bytes of the graph.
        difference: The largest difference between the numbers of its vectors and those of torch, on a few texts.
        texts: How many texts that were.
    """

    place: Path
    id: str
    size: int
    difference: float
    texts: int


async def export_model(folder: str | os.PathLike[str], *, to: str | os.PathLike[str] | None = None) -> ExportReport:
    """Export a sentence-transformers model folder for `OnnxEmbedder`, into `airw-onnx` within it.

    Only plain models can be exported: a transformer, mean, cls or max pooling, and normalisation or not; their prompts
    are kept. Nothing is put in place before its vectors were compared with torch's. An earlier export is replaced.

    Args:
        folder: The model folder, with its weights.
        to: A folder to put `airw-onnx` into instead, made where it is not there: all that is needed to embed without
            torch, and without the folder.

    Raises:
        ArgumentError: `to` holds weights of its own.
        EmbedderUnavailable: A package that exporting takes is not installed, or the folder is no model folder.
        EmbedderError: The model is not plain, cannot be exported, its export gives other vectors, or cannot be written.

    Example:
        >>> import anyio
        >>> anyio.run(export_model, "no/such/folder")
        Traceback (most recent call last):
        airw.errors.EmbedderUnavailable: there is no model folder ...
    """
    source, target = _places(folder, to)
    _need_packages()
    with _scratch(target) as scratch:
        await _write(source, scratch / PLACE)
        difference = await _difference(source, scratch)
        return await in_thread(_publish, scratch, target, difference)


def _places(folder: str | os.PathLike[str], to: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    source = need_folder(Path(folder).expanduser().absolute())
    target = source if to is None else Path(to).expanduser().absolute()
    if target.resolve() != source.resolve() and weights_of(target):
        raise ArgumentError(f"{str(target)!r} holds weights of its own; export to a folder that holds none")
    return source, target


def _need_packages() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise EmbedderUnavailable(
            f"exporting a model needs {', '.join(missing)}: pip install 'airw[sentence-transformers,onnx]' onnx"
        )


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """Make a folder within the target, so that what was made in it can be renamed into place, and remove it."""
    is_new = not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        try:
            with TemporaryDirectory(prefix=f".{PLACE}-", dir=target) as scratch:
                yield Path(scratch)
        finally:
            with suppress(OSError):  # it holds something, as it should
                if is_new:
                    target.rmdir()
    except OSError as error:
        raise EmbedderError(
            f"the export cannot be written to {str(target)!r} ({one_line(error)}); name another folder with --to"
        ) from error


async def _write(source: Path, place: Path) -> None:
    """Have graph, tokenizer and manifest written."""
    await in_thread(folder_id, source)  # says what is wrong with a folder that is no model
    done = await anyio.run_process(
        [sys.executable, "-m", "airw.embedders._graphs", str(source), str(place)], check=False
    )
    if not done.returncode:
        return
    said = done.stdout.decode(errors="replace").strip().rpartition("\n")[2]
    try:
        kind, message = json.loads(said)
    except ValueError:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        kind, message = "", f"exporting {source.name!r} ended with code {done.returncode}: {last}"
    raise EmbedderUnavailable(message) if kind == EmbedderUnavailable.__name__ else EmbedderError(message)


async def _difference(source: Path, scratch: Path) -> float:
    """Give the largest difference between what the export and torch make of the same texts."""
    ours, theirs = OnnxEmbedder(scratch), SentenceTransformerEmbedder(source)
    gaps = [await ours.embed_documents(_SAMPLES) - await theirs.embed_documents(_SAMPLES)]
    gaps += [await ours.embed_query(text) - await theirs.embed_query(text) for text in _SAMPLES]
    difference = max(float(np.abs(gap).max()) for gap in gaps)
    if not difference < _TOLERANCE:
        raise EmbedderError(
            f"the export of {source.name!r} was thrown away: its vectors differ from torch's by {difference:.1e}, "
            f"and {_TOLERANCE:.0e} is allowed; use it with torch"
        )
    return difference


def _publish(scratch: Path, target: Path, difference: float) -> ExportReport:
    """Rename the files into place; the manifest, which vouches for the others, comes last."""
    place = target / PLACE
    place.mkdir(exist_ok=True)
    for name in (GRAPH, TOKENIZER, MANIFEST):
        with (scratch / PLACE / name).open("r+b") as file:
            os.fsync(file.fileno())
        (scratch / PLACE / name).replace(place / name)
    made = read_export(target)
    return ExportReport(place, made.id, (place / GRAPH).stat().st_size, difference, len(_SAMPLES))
