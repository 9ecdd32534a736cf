"""Files of cases and documents: JSON Lines with an optional first line of data about them."""

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from airw._base.json import json_clean
from airw.errors import ArgumentError, SourceError

T = TypeVar("T")
_MOST_BYTES = 1 << 28
_META = "__meta__"


def write_rows(rows: Iterable[Mapping[str, Any]], path: str | os.PathLike[str], meta: Mapping[str, Any] | None) -> None:
    """Write one row a line, after a line with `meta`; missing folders are made.

    Raises:
        SourceError: If the file cannot be written.
    """
    header = [] if meta is None else [{_META: json_clean(meta)}]
    lines = [json.dumps(row, ensure_ascii=False) for row in [*header, *rows]]
    file = Path(path)
    try:
        data = "".join(f"{line}\n" for line in lines).encode()  # before the old file is emptied
    except UnicodeEncodeError as error:
        raise ArgumentError(f"a case contains an unpaired surrogate, so {str(file)!r} is not written") from error
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        raise SourceError(f"cannot write {str(file)!r}: {error}") from error


def read_rows(
    path: str | os.PathLike[str], parse: Callable[[Any], T], *, most: int = _MOST_BYTES
) -> tuple[dict[str, Any], list[T]]:
    """Return the data about the rows, and `parse(row)` for each row but blank lines.

    A file whose name ends in `.gz` is decompressed; it may have `most` bytes then.

    Raises:
        ArgumentError: If a line cannot be parsed; the message names file and line.
        SourceError: If the file cannot be read.
    """
    file = Path(path)
    try:
        lines = _read(file, most).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"cannot read {str(file)!r}: {error}") from error
    meta: dict[str, Any] = {}
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line.decode())
            if isinstance(values, dict) and _META in values:
                meta = meta or dict(values[_META] or {})
            else:
                rows.append(parse(values))
        except ArgumentError as error:
            raise ArgumentError(f"{file.name}, line {number}: {error}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise ArgumentError(f"{file.name}, line {number}, is not JSON in UTF-8: {error}") from error
    return meta, rows


def _read(file: Path, most: int) -> bytes:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as opened:
        data = opened.read(most + 1)
    if len(data) > most:
        raise SourceError(f"{str(file)!r} has more than {most:,} bytes")
    return data
