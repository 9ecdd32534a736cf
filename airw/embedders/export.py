"""Exports a model folder for onnxruntime: `airw model export`.

Another process traces the model and compares its vectors: `python -m airw.embedders.export SOURCE PLACE`. In this
process, tracing could not be cancelled, would leave torch in memory, and would never end if usearch was loaded before
torch. The other process prints one line of JSON: the largest difference of the vectors, or the class and message of an
error.
"""

import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import numpy as np

from airw._base.concurrency import in_thread
from airw._base.local_models import MODEL_FOLDER_HINT, file_hash, folder_id, load_library, require_folder, weight_files
from airw._base.messages import error_text
from airw.embedders.onnx import GRAPH, MANIFEST, PLACE, TOKENIZER, Manifest, OnnxEmbedder, read_export, settings_hash
from airw.embedders.sentence import SentenceTransformerEmbedder
from airw.errors import ArgumentError, EmbedderError, EmbedderUnavailable

_NEEDED = ("torch", "sentence_transformers", "onnx", "onnxruntime", "tokenizers")
_TOLERANCE = 1e-4
_EXPORTABLE = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_POOLINGS = ("mean", "cls", "max")
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # the first that a model has, as in sentence-transformers
_MOST_BYTES = 1_900_000_000  # a graph in one file must be smaller than 2 GB
_NO_LIMIT = 1_000_000  # tokens; some tokenizers have a limit of 1e30 to mean none

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
    """The result of an export.

    Args:
        place: The folder of the export.
        id: The id of the model and of the export.
        size: The size of the graph in bytes.
        difference: The largest difference between a number of its vectors and of those of torch, on a few texts.
        texts: The number of these texts.
    """

    place: Path
    id: str
    size: int
    difference: float
    texts: int


async def export_model(folder: str | os.PathLike[str], *, to: str | os.PathLike[str] | None = None) -> ExportReport:
    """Export a sentence-transformers model folder for `OnnxEmbedder`, into `FOLDER/airw-onnx`.

    Only simple models can be exported: a transformer; mean, cls or max pooling; with or without normalization. Prompts
    are exported too. The export is put in place only after its vectors were compared with those of torch. It replaces
    an earlier export.

    Args:
        folder: The model folder, with its weights.
        to: Another folder in which to write `airw-onnx`, created if it does not exist. It is enough to embed without
            torch and without the model folder.

    Raises:
        ArgumentError: If `to` contains weights.
        EmbedderUnavailable: If a required package is not installed, or the folder is not a model folder.
        EmbedderError: If the model is not simple, cannot be exported, or its export has other vectors or cannot be
            written.

    Example:
        >>> import anyio
        >>> anyio.run(export_model, "no/such/folder")
        Traceback (most recent call last):
        airw.errors.EmbedderUnavailable: there is no model folder ...
    """
    source, target = _resolve_folders(folder, to)
    _check_packages()
    with _temporary_folder(target) as scratch:
        difference = await _export_in_process(source, scratch / PLACE)
        return await in_thread(_publish, scratch, target, difference)


def _resolve_folders(folder: str | os.PathLike[str], to: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    source = require_folder(Path(folder).expanduser().absolute())
    target = source if to is None else Path(to).expanduser().absolute()
    if target.resolve() != source.resolve() and weight_files(target):
        raise ArgumentError(f"{str(target)!r} contains weights; export to a folder without weights")
    return source, target


def _check_packages() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise EmbedderUnavailable(
            f"exporting a model needs {', '.join(missing)}: pip install 'airw[sentence-transformers,onnx]' onnx"
        )


@contextmanager
def _temporary_folder(target: Path) -> Iterator[Path]:
    """Create a temporary folder in the target and remove it at the end."""
    # In the target, because files can be renamed into place only within one file system.
    is_new = not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        try:
            with TemporaryDirectory(prefix=f".{PLACE}-", dir=target) as scratch:
                yield Path(scratch)
        finally:
            with suppress(OSError):  # the target is not empty after a successful export
                if is_new:
                    target.rmdir()
    except OSError as error:
        raise EmbedderError(
            f"the export cannot be written to {str(target)!r} ({error_text(error)}); name another folder with --to"
        ) from error


async def _export_in_process(source: Path, place: Path) -> float:
    """Write and check the export in another process; return the largest difference of vectors."""
    # Read the folder first: if it is not a model folder, this raises a clear error at once.
    await in_thread(folder_id, source)
    command = [sys.executable, "-m", "airw.embedders.export", str(source), str(place)]
    process = await anyio.run_process(command, check=False)
    try:
        answer = json.loads(_last_line(process.stdout))
        if not process.returncode:
            return float(answer)
        kind, message = answer
    except (ValueError, TypeError):
        # The process died without an answer, for example killed for its use of memory.
        last = _last_line(process.stderr)
        kind, message = "", f"exporting {source.name!r} ended with code {process.returncode}: {last}"
    raise EmbedderUnavailable(message) if kind == EmbedderUnavailable.__name__ else EmbedderError(message)


def _last_line(output: bytes) -> str:
    return output.decode(errors="replace").strip().rpartition("\n")[2]


def _publish(scratch: Path, target: Path, difference: float) -> ExportReport:
    """Rename the files into place, the manifest last."""
    # The manifest contains the hashes of the other files: an interrupted export is detected and never used.
    place = target / PLACE
    place.mkdir(exist_ok=True)
    for name in (GRAPH, TOKENIZER, MANIFEST):
        with (scratch / PLACE / name).open("r+b") as file:
            os.fsync(file.fileno())
        (scratch / PLACE / name).replace(place / name)
    manifest = read_export(target)
    return ExportReport(place, manifest.id, (place / GRAPH).stat().st_size, difference, len(_SAMPLES))


# The following functions run in the other process.


def _load(source: Path) -> Any:
    """Load the model, and refuse it if it is not simple."""
    try:
        # Without torch's fused attention: exported, the separate operations are a little faster.
        library = load_library(f"the export of {source.name!r}", error=EmbedderUnavailable, fix=MODEL_FOLDER_HINT)
        model = library.SentenceTransformer(str(source), device="cpu", model_kwargs={"attn_implementation": "eager"})
        model.eval()
        reason = _find_obstacle(model)
    except Exception as error:
        raise EmbedderUnavailable(f"the model {str(source)!r} cannot be loaded ({error_text(error)})") from error
    if reason:
        raise EmbedderError(f"the model {source.name!r} cannot be exported: {reason}; use it with torch")
    return model


def _find_obstacle(model: Any) -> str | None:
    """Return why a model cannot be exported, or None if it can."""
    kinds = [type(module).__name__ for module in model]
    if kinds not in _EXPORTABLE:
        return f"it consists of {', '.join(kinds)}, not of Transformer, Pooling and at most Normalize"
    transformer, pooling = model[0], model[1]
    weights = list(transformer.parameters())
    checks: Mapping[str, bool] = {
        f"its pooling is {pooling.pooling_mode!r}, not one of {', '.join(_POOLINGS)}": (
            pooling.pooling_mode not in _POOLINGS
        ),
        "its pooling ignores prompts": not pooling.include_prompt and any(_prompts(model).values()),
        "its vectors are cut short (truncate_dim)": model.truncate_dim is not None,
        "its tokenizer is not a fast one": not getattr(transformer.tokenizer, "is_fast", False),
        "its tokenizer pads texts on the left": getattr(transformer.tokenizer, "padding_side", "") != "right",
        "queries and documents have different maximum lengths": any(
            getattr(transformer, name, None) for name in ("query_length", "document_length", "query_expansion")
        ),
        f"its weights are {weights[0].dtype}": any(str(weight.dtype) != "torch.float32" for weight in weights),
        "it is larger than 1.9 GB": sum(weight.numel() for weight in weights) * 4 > _MOST_BYTES,
    }
    return next((reason for reason, applies in checks.items() if applies), None)


def _prompts(model: Any) -> dict[str, str]:
    """Return the prompts that sentence-transformers puts before queries and documents."""
    prompts: Mapping[str, str] = model.prompts
    default = prompts.get(model.default_prompt_name) or ""
    document = next((name for name in _DOCUMENT_PROMPTS if name in prompts), None)
    return {"query": prompts.get("query", default), "document": prompts[document] if document else default}


def _write(model: Any, source: Path, place: Path) -> None:
    """Write graph, tokenizer and manifest."""
    place.mkdir()
    try:
        tokens = model[0].tokenizer(["a longer text than the other", "keys"], padding=True, return_tensors="pt")
        _write_graph(model, dict(tokens), place / GRAPH)
        limit = _write_tokenizer(model[0].tokenizer, place / TOKENIZER)
    except Exception as error:
        raise EmbedderError(f"the model {source.name!r} cannot be exported ({error_text(error)})") from error
    Manifest(
        id=folder_id(source),
        settings=settings_hash(source),
        dim=len(model.encode("a", show_progress_bar=False)),
        max_length=limit,
        pad_id=model[0].tokenizer.pad_token_id,
        pooling=model[1].pooling_mode,
        prompts=_prompts(model),
        sha256={name: file_hash(place / name) for name in (GRAPH, TOKENIZER)},
    ).write(place)


def _write_graph(model: Any, tokens: dict[str, Any], path: Path) -> None:
    torch: Any = import_module("torch")
    names = [name for name in tokens if name in _INPUTS]

    class Graph(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> Any:
            return self.model(dict(zip(names, values, strict=True)))["sentence_embedding"]

    dynamic: dict[str, Any] = {name: {0: "texts", 1: "tokens"} for name in names}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # comparing the vectors shows whether tracing succeeded
        torch.onnx.export(
            Graph().eval(),
            tuple(tokens[name] for name in names),
            str(path),
            input_names=names,
            output_names=["sentence_embedding"],
            dynamic_axes={**dynamic, "sentence_embedding": {0: "texts"}},
            opset_version=17,
            dynamo=False,
        )


def _write_tokenizer(tokenizer: Any, path: Path) -> int | None:
    """Write the tokenizer with its maximum length; return this length in tokens."""
    copy = import_module("tokenizers").Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    copy.no_padding()
    copy.no_truncation()
    longest = tokenizer.model_max_length
    limit = None if longest is None or longest > _NO_LIMIT else int(longest)
    if limit is not None:
        copy.enable_truncation(limit, direction=tokenizer.truncation_side)
    copy.save(str(path))
    return limit


async def _difference(source: Path, scratch: Path) -> float:
    """Return the largest difference between the vectors of the export and of torch."""
    ours, theirs = OnnxEmbedder(scratch), SentenceTransformerEmbedder(source)
    gaps = [await ours.embed_documents(_SAMPLES) - await theirs.embed_documents(_SAMPLES)]
    gaps += [await ours.embed_query(text) - await theirs.embed_query(text) for text in _SAMPLES]
    difference = max(float(np.abs(gap).max()) for gap in gaps)
    if not difference < _TOLERANCE:
        raise EmbedderError(
            f"the export of {source.name!r} was discarded, because its vectors differ from those of torch by "
            f"{difference:.1e}, more than {_TOLERANCE:.0e}; use the model with torch"
        )
    return difference


def main(source: Path, place: Path) -> int:
    """Write and check the export of a model folder; return the exit code."""
    try:
        _write(_load(source), source, place)
        answer: object = anyio.run(_difference, source, place.parent)
        code = 0
    except EmbedderError as error:
        answer, code = [type(error).__name__, str(error)], 1
    print(json.dumps(answer))  # noqa: T201 - read by the process that started this one
    return code


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
