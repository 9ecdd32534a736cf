"""Data sets for evaluation, in the folder that the environment variable `AIRW_DATA` names.

Each data set is a folder. Its file `corpus.jsonl` has a document a line: `id`, `text`, and optionally `title`, `links`
(ids of documents) and `metadata`. Its file `queries.jsonl` has a query a line: `text` and `gold`, a list of ids. Other
fields become metadata of the case. Either file may be compressed as `.gz`.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airw._base.checks import is_valid_name
from airw._base.messages import short_repr
from airw.errors import ArgumentError, SourceError
from airw.evaluation.cases import DiscoveryCase
from airw.links import extractor_from
from airw.sources import CorpusSource, from_mapping

VARIABLE = "AIRW_DATA"
_MOST_CHARS = 1 << 30  # of a file, decompressed
_KINDS = {"title": str, "metadata": dict, "gold": list, "links": list}


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
    files = [_find(folder, stem) for stem in ("corpus", "queries")] if folder else [None]
    if folder is None or None in files:
        raise ArgumentError(f"{VARIABLE} has no data set {short_repr(name)}; it has {', '.join(list_data_sets())}")
    corpus, queries = (dict(_read_rows(file)) for file in files if file is not None)
    documents = {str(row["id"]): row for row in corpus.values()}
    known = {"id", "text", "gold"}
    cases = []
    for line, row in queries.items():
        if not row["text"].strip():
            raise ArgumentError(f"{line}: the query is blank")
        metadata = {"id": row["id"], **{field: value for field, value in row.items() if field not in known}}
        cases.append(DiscoveryCase(row["text"], tuple(row.get("gold") or ()), name, None, metadata))
    return DataSet(name, documents, tuple(cases))


def _data_folder() -> Path:
    text = os.environ.get(VARIABLE, "")
    if not text or not Path(text).is_dir():
        raise ArgumentError(f"{VARIABLE} must name the folder of the data sets, not be {short_repr(text)}")
    return Path(text)


def _find(folder: Path, stem: str) -> Path | None:
    files = (folder / f"{stem}.jsonl", folder / f"{stem}.jsonl.gz")
    return next((file for file in files if file.is_file()), None)


def _read_rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a file with their places; each has an id and a text.

    Raises:
        ArgumentError: If a line is not an object with both.
        SourceError: If the file cannot be read, or is too large.
    """
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
            left = _MOST_CHARS
            number = 0
            while line := lines.readline(left + 1):
                left, number = left - len(line), number + 1
                if left < 0:
                    raise SourceError(f"{str(file)!r} has more than {_MOST_CHARS:,} characters")
                if line.strip():
                    place = f"{file.name}, line {number}"
                    yield place, _parse_row(place, line)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise SourceError(f"cannot read {str(file)!r}: {error}") from error


def _parse_row(place: str, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{place}, is not JSON: {error}") from error
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("id", "text")):
        raise ArgumentError(f"{place}, must be an object with an id and a text")
    for name, kind in _KINDS.items():
        if row.get(name) is not None and not isinstance(row[name], kind):
            raise ArgumentError(f"{place}: {name} must be a {kind.__name__}, not {short_repr(row[name])}")
    for name in ("gold", "links"):
        if not all(isinstance(id, str) for id in row.get(name) or ()):
            raise ArgumentError(f"{place}: {name} must contain ids, not {short_repr(row[name])}")
    return row
