"""Data sets for evaluation, in the folder that the environment variable `AIRW_DATA` names.

Each data set is a folder. Its file `corpus.jsonl` has a document a line: `id`, `text`, and optionally `title`, `links`
(ids of documents) and `metadata`. Its file `queries.jsonl` has a query a line: `text` and `gold`, as a case has it.
Other fields become metadata of the case. Either file may be compressed as `.gz`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airw._base.checks import is_valid_name
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.evaluation._case_files import read_rows
from airw.evaluation.cases import DiscoveryCase
from airw.links import extractor_from
from airw.sources import CorpusSource, from_mapping

VARIABLE = "AIRW_DATA"
_MOST_BYTES = 1 << 30  # of the documents, decompressed
_KINDS = {"title": str, "metadata": dict, "links": list}


@dataclass(frozen=True, slots=True)
class DataSet:
    """The documents and the cases of a data set.

    Args:
        name: The name of the folder.
        documents: The documents as they are in the file, by id.
        cases: The cases, in the order of the file.

    Example:
        >>> data = DataSet("notes", {"a": {"id": "a", "title": "Keys", "text": "Rotate them."}}, ())
        >>> data.source().name
        'notes'
    """

    name: str
    documents: Mapping[str, Mapping[str, Any]]
    cases: tuple[DiscoveryCase, ...]

    def source(self, **options: Any) -> CorpusSource:
        """Return a source of the documents.

        The text of a document is its title, a line end and its text. Its title, and the fields of its metadata, can be
        filtered. Its links are edges.

        Args:
            **options: Options of `airw.from_mapping`, such as `embedder` or `edge_extractor`.
        """
        # Links are part of the raw value, so that a build notices when only they change.
        links = extractor_from(lambda _, raw: {"related": raw["links"]}, id="links-2")
        texts = {
            id: {"text": _text_of(row), "title": _title_of(row), "links": list(row.get("links") or ())}
            for id, row in self.documents.items()
        }

        def read_metadata(id: str, _: Any) -> dict[str, Any]:
            return {**(self.documents[id].get("metadata") or {}), "title": _title_of(self.documents[id])}

        return from_mapping(
            {id: raw for id, raw in texts.items() if raw["text"]},
            name=self.name,
            **{"edge_extractor": links, "metadata_of": read_metadata, **options},
        )


def _title_of(document: Mapping[str, Any]) -> str:
    return str(document.get("title") or document["id"])


def _text_of(document: Mapping[str, Any]) -> str:
    return "\n".join(part for part in (document.get("title"), document.get("text")) if part).strip()


def list_data_sets() -> list[str]:
    """Return the names of the data sets that have documents and queries, sorted.

    This call blocks: use a worker thread in async code.

    Raises:
        ArgumentError: If `AIRW_DATA` names no folder.
    """
    folder = _data_folder()
    names = [each.name for each in folder.iterdir() if each.is_dir()]
    return sorted(name for name in names if all(_find(folder / name, stem) for stem in ("corpus", "queries")))


def load_data_set(name: str) -> DataSet:
    """Read a data set from the folder that `AIRW_DATA` names.

    This call blocks: use a worker thread in async code.

    Args:
        name: The name of its folder.

    Raises:
        ArgumentError: If there is no such data set, or a line is not what it should be.
        SourceError: If a file cannot be read.
    """
    folder = _data_folder() / name if is_valid_name(name) else None
    corpus, queries = (_find(folder, stem) if folder else None for stem in ("corpus", "queries"))
    if corpus is None or queries is None:
        raise ArgumentError(f"{VARIABLE} has no data set {short_repr(name)}; it has {', '.join(list_data_sets())}")

    def read_case(row: Any) -> DiscoveryCase:
        metadata = {field: value for field, value in _check_row(row).items() if field not in ("text", "gold")}
        return DiscoveryCase(row["text"], row.get("gold") or (), name, None, metadata)

    (_, documents), (_, cases) = read_rows(corpus, _check_row, most=_MOST_BYTES), read_rows(queries, read_case)
    return DataSet(name, {str(row["id"]): row for row in documents}, tuple(cases))


def _data_folder() -> Path:
    text = os.environ.get(VARIABLE, "")
    if not text or not Path(text).is_dir():
        raise ArgumentError(f"{VARIABLE} must name the folder of the data sets, not be {short_repr(text)}")
    return Path(text)


def _find(folder: Path, stem: str) -> Path | None:
    files = (folder / f"{stem}.jsonl", folder / f"{stem}.jsonl.gz")
    return next((file for file in files if file.is_file()), None)


def _check_row(row: Any) -> dict[str, Any]:
    """Return a row of a file, which has an id and a text.

    Raises:
        ArgumentError: If it has not, or another field is not what it should be.
    """
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("id", "text")):
        raise ArgumentError("a row must be an object with an id and a text")
    for name, kind in _KINDS.items():
        if row.get(name) is not None and not isinstance(row[name], kind):
            raise ArgumentError(f"{name} must be a {kind.__name__}, not {short_repr(row[name])}")
    if not all(isinstance(id, str) for id in row.get("links") or ()):
        raise ArgumentError(f"links must contain ids, not {short_repr(row['links'])}")
    return row
