"""Traces a model into a graph, in a process of its own: `python -m airw.embedders._graphs SOURCE PLACE`.

Of its own, as tracing cannot be cancelled otherwise, leaves torch in memory, and never ends in a process that loaded
usearch before torch. What goes wrong is printed, as one line of JSON: the name of an error of ours, and its message.
"""

import json
import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from airw.embedders._exports import GRAPH, TOKENIZER, Manifest, settings_hash
from airw.embedders._models import file_hash, folder_id
from airw.embedders._texts import one_line
from airw.errors import EmbedderError, EmbedderUnavailable

_PLAIN = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_POOLINGS = ("mean", "cls", "max")
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # the first that a model has, as sentence-transformers picks it
_MOST_BYTES = 1_900_000_000  # a graph in one file holds less than 2 GB
_NO_LIMIT = 1_000_000  # tokens; some tokenizers say 1e30 for none


def _loaded(source: Path) -> Any:
    """Load the model, and refuse one that is not plain."""
    try:
        # Attention written out: exported, it is a little faster than torch's fused one.
        model = import_module("sentence_transformers").SentenceTransformer(
            str(source), device="cpu", model_kwargs={"attn_implementation": "eager"}
        )
        model.eval()
        reason = _why_not(model)
    except Exception as error:
        raise EmbedderUnavailable(f"the model {str(source)!r} cannot be loaded ({one_line(error)})") from error
    if reason:
        raise EmbedderError(f"the model {source.name!r} cannot be exported: {reason}; use it with torch")
    return model


def _why_not(model: Any) -> str | None:
    """Say why a model is not plain."""
    kinds = [type(module).__name__ for module in model]
    if kinds not in _PLAIN:
        return f"it consists of {', '.join(kinds)}, not of Transformer, Pooling and at most Normalize"
    transformer, pooling = model[0], model[1]
    weights = list(transformer.parameters())
    checks: Mapping[str, bool] = {
        f"its pooling is {pooling.pooling_mode!r}, not one of {', '.join(_POOLINGS)}": (
            pooling.pooling_mode not in _POOLINGS
        ),
        "its pooling leaves out prompts": not pooling.include_prompt and any(_prompts(model).values()),
        "its vectors are cut short (truncate_dim)": model.truncate_dim is not None,
        "its tokenizer is not a fast one": not getattr(transformer.tokenizer, "is_fast", False),
        "its tokenizer fills up texts on the left": getattr(transformer.tokenizer, "padding_side", "") != "right",
        "queries and documents have lengths of their own": any(
            getattr(transformer, name, None) for name in ("query_length", "document_length", "query_expansion")
        ),
        f"its weights are {weights[0].dtype}": any(str(each.dtype) != "torch.float32" for each in weights),
        "it is larger than 1.9 GB": sum(each.numel() for each in weights) * 4 > _MOST_BYTES,
    }
    return next((reason for reason, applies in checks.items() if applies), None)


def _prompts(model: Any) -> dict[str, str]:
    """Give what sentence-transformers puts before a query and before a document."""
    known: Mapping[str, str] = model.prompts
    usual = known.get(model.default_prompt_name) or ""
    document = next((name for name in _DOCUMENT_PROMPTS if name in known), None)
    return {"query": known.get("query", usual), "document": known[document] if document else usual}


def _write(model: Any, source: Path, place: Path) -> None:
    """Write graph, tokenizer and manifest."""
    place.mkdir()
    try:
        tokens = model[0].tokenizer(["a text that fills up the other", "keys"], padding=True, return_tensors="pt")
        _write_graph(model, dict(tokens), place / GRAPH)
        limit = _write_tokenizer(model[0].tokenizer, place / TOKENIZER)
    except Exception as error:  # whatever torch cannot trace
        raise EmbedderError(f"the model {source.name!r} cannot be exported ({one_line(error)})") from error
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

    free: dict[str, Any] = {name: {0: "texts", 1: "tokens"} for name in names}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the tracer: whether it traced well is seen by comparing vectors
        torch.onnx.export(
            Graph().eval(),
            tuple(tokens[name] for name in names),
            str(path),
            input_names=names,
            output_names=["sentence_embedding"],
            dynamic_axes={**free, "sentence_embedding": {0: "texts"}},
            opset_version=17,
            dynamo=False,
        )


def _write_tokenizer(tokenizer: Any, path: Path) -> int | None:
    """Write the tokenizer with the length that texts are cut to, and give that length."""
    copy = import_module("tokenizers").Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    copy.no_padding()
    copy.no_truncation()
    longest = tokenizer.model_max_length
    limit = None if longest is None or longest > _NO_LIMIT else int(longest)
    if limit is not None:
        copy.enable_truncation(limit, direction=tokenizer.truncation_side)
    copy.save(str(path))
    return limit


def main(source: Path, place: Path) -> int:
    """Write the export of a model folder, and give the exit code."""
    try:
        _write(_loaded(source), source, place)
    except EmbedderError as error:
        print(json.dumps([type(error).__name__, str(error)]))  # noqa: T201 - to the process that started this one
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
