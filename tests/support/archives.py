"""Unpack archives with any Python."""

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: str | Path) -> None:
    """Unpack all files into a folder; from Python 3.11.4, nothing can be outside it."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)
