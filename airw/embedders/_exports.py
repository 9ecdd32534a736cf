"""What `airw model export` writes: a graph, a tokenizer, and a manifest that says what they were made from.

```text
FOLDER/airw-onnx/model.onnx       the model with its pooling: token ids to sentence vectors
FOLDER/airw-onnx/tokenizer.json   the tokenizer as it was loaded, with the length that texts are cut to
FOLDER/airw-onnx/export.json      the manifest
```

The three are all that is needed to embed: `FOLDER` may hold the model they were made from, or nothing else.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airw.embedders._models import file_hash, folder_id, weights_of
from airw.errors import EmbedderUnavailable

FORMAT = 1
PLACE = "airw-onnx"
GRAPH, TOKENIZER, MANIFEST = "model.onnx", "tokenizer.json", "export.json"

# What vectors depend on beside what is in the model's id.
_SETTINGS = ("config.json", "config_sentence_transformers.json", "tokenizer.json", "tokenizer_config.json")


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
        """Write it beside the graph."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False, indent=2)
        (place / MANIFEST).write_text(f"{text}\n", encoding="utf-8")


def has_export(folder: Path) -> bool:
    """Say whether a folder holds an export; nothing is read."""
    return (folder / PLACE / MANIFEST).is_file()


def can_run() -> bool:
    """Say whether the packages that run an export are installed; nothing is loaded."""
    return all(find_spec(name) is not None for name in ("onnxruntime", "tokenizers"))


def settings_hash(folder: Path) -> str:
    """Give a hash of the settings that vectors depend on and that are not in the model's id."""
    found = [f"{name}:{file_hash(folder / name)}" for name in _SETTINGS if (folder / name).is_file()]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def read_export(folder: Path) -> Manifest:
    """Give the manifest of a folder's export; where the model lies beside it, it must be the one it was made from.

    Raises:
        EmbedderUnavailable: There is no export, it cannot be read, or the model was changed after it was made.
    """
    if not has_export(folder):
        raise EmbedderUnavailable(
            f"the model folder {str(folder)!r} holds no ONNX export; `airw model export {folder}` makes it"
        )
    manifest = _parsed(folder)
    if not weights_of(folder):
        return manifest
    if folder_id(folder) != manifest.id:
        raise EmbedderUnavailable(f"the weights in {str(folder)!r} are not those that {_stale(folder)}")
    if settings_hash(folder) != manifest.settings:
        raise EmbedderUnavailable(f"the settings in {str(folder)!r} are not those that {_stale(folder)}")
    return manifest


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


def _stale(folder: Path) -> str:
    return f"its ONNX export was made from: `airw model export {folder}` makes it again"


def _parsed(folder: Path) -> Manifest:
    path = folder / PLACE / MANIFEST
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if fields.pop("format") == FORMAT:
            return Manifest(**fields)
        why = "another version of airw made it"
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise EmbedderUnavailable(
            f"{str(path)!r} cannot be read ({type(error).__name__}: {error}); `airw model export` makes it again"
        ) from error
    raise EmbedderUnavailable(f"{str(path)!r} cannot be used, as {why}; `airw model export` makes it again")
