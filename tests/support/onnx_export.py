"""Writes the files that `OnnxEmbedder` reads, from a folder of sentence-transformers.

`export_model` does so in a process of its own: tracing leaves torch in memory, and would never end if usearch was
loaded before torch.
"""

import json
import subprocess
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

from airw._base.local_models import file_hash, folder_id
from airw.embedders.onnx import FORMAT, GRAPH, MANIFEST, PLACE, TOKENIZER, Manifest, settings_hash


def export_model(source, folder):
    """Write an export of a model folder into `folder`, which may be the same."""
    command = [sys.executable, "-m", "tests.support.onnx_export", str(source), str(folder)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _write(source, place):
    from sentence_transformers import SentenceTransformer

    # Without torch's fused attention, which cannot be traced.
    model = SentenceTransformer(str(source), device="cpu", model_kwargs={"attn_implementation": "eager"}).eval()
    place.mkdir(parents=True, exist_ok=True)
    tokenizer = model[0].tokenizer
    tokens = tokenizer(["a longer text than the other", "keys"], padding=True, return_tensors="pt")
    _write_graph(model, dict(tokens), place)
    _write_tokenizer(tokenizer, place)
    manifest = Manifest(
        id=folder_id(source),
        settings=settings_hash(source),
        dim=len(model.encode("a", show_progress_bar=False)),
        max_length=tokenizer.model_max_length,
        pad_id=tokenizer.pad_token_id,
        pooling=model[1].pooling_mode,
        prompts={kind: model.prompts.get(kind) or "" for kind in ("query", "document")},
        sha256={name: file_hash(place / name) for name in (GRAPH, TOKENIZER)},
    )
    (place / MANIFEST).write_text(json.dumps({"format": FORMAT, **asdict(manifest)}))


def _write_graph(model, tokens, place):
    import torch

    names = list(tokens)

    class Graph(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            return self.model(dict(zip(names, values, strict=True)))["sentence_embedding"]

    axes = {**{name: {0: "texts", 1: "tokens"} for name in names}, "sentence_embedding": {0: "texts"}}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Graph().eval(),
            tuple(tokens.values()),
            str(place / GRAPH),
            input_names=names,
            output_names=["sentence_embedding"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )


def _write_tokenizer(tokenizer, place):
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    copy.no_padding()
    copy.enable_truncation(tokenizer.model_max_length, direction=tokenizer.truncation_side)
    copy.save(str(place / TOKENIZER))


if __name__ == "__main__":
    _write(Path(sys.argv[1]), Path(sys.argv[2]) / PLACE)
