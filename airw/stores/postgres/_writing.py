"""Functions that write artifacts to a PostgreSQL server."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import anyio

from airw._base.arrays import Floats
from airw._base.concurrency import first_error, in_thread
from airw.errors import StoreError
from airw.stores._changes import check_changes, check_width, encode_metadata
from airw.stores.postgres import _link_writing, _vectors, _words
from airw.stores.postgres._copy_rows import copy_columns, encode_bytes, encode_jsonb, encode_numbers, encode_texts
from airw.stores.postgres._field_json import to_fields
from airw.stores.postgres._keys import check_key, to_keys
from airw.stores.postgres._texts import keep_storable
from airw.stores.postgres._vector_codec import MAX_WIDTH, encode_vectors
from airw.stores.postgres._word_runs import TextWords, analyse
from airw.values import ArtifactChange, Extraction, Language

if TYPE_CHECKING:
    from asyncpg import Connection

_Columns: TypeAlias = dict[str, list[Any]]

MANY_RECORDS = 1_000
"""After a block of writing with so many records, the tables are settled."""

# What one statement inserts, as each COPY takes two round trips.
_FEW_ARTIFACTS, _FEW_RECORDS = 100, 500
_FEW_NUMBERS = 50_000  # of vectors; so many, asyncpg encodes in some milliseconds

# Bytes in UTF-8; a key of an index has at most 2,704. The id of a record is that of its artifact, and a little more.
_LONGEST_ID, _LONGEST_RECORD_ID = 2_000, 2_600

_ARTIFACT = {
    "id": "artifact_id",
    "version": "version",
    "embedder_id": "embedder_id",
    "strategy_id": "strategy_id",
    "extractor_id": "extractor_id",
    "source": "source",
}
_RECORD = {
    "id": "text",
    "artifact_id": "text",
    "kind": "text",
    "idx": "bigint",
    "text": "bytea",
    "metadata": "text",
    "fields": "text",
}

# A row with the state, and one for each record that goes. Right after a bulk load the server has no statistics and
# would rather read a table than use an index, so this is forbidden for the transaction.
_STATE = f"""
    SELECT NULL::bigint AS number, NULL::bytea AS text, set_config('enable_seqscan', 'off', true),
        array(SELECT id FROM artifact WHERE id = ANY ($1::text[])) AS removed,
        {_words.LANGUAGE}::text AS language, {_words.RUNS} AS runs,
        CASE WHEN $2::bigint > 0 THEN setval('record_number', nextval('record_number') + $2::bigint - 1) END AS last,
        EXISTS (
            SELECT FROM record WHERE id = ANY ($3::text[]) AND artifact_id NOT IN (SELECT unnest($1::text[]))
        ) AS is_taken,
        near.artifact_id AS first_id, near.width
    FROM (SELECT) AS state LEFT JOIN (
        SELECT artifact_id, vector_dims(value) AS width FROM embedding ORDER BY artifact_id, number LIMIT 1
    ) AS near ON true
    UNION ALL
    SELECT number, text, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM record WHERE artifact_id = ANY ($1::text[])"""
_REMOVE = f"""
    WITH artifacts AS (DELETE FROM artifact WHERE id = ANY ($1::text[])),
    records AS (DELETE FROM record WHERE artifact_id = ANY ($1::text[])),
    embeddings AS (DELETE FROM embedding WHERE artifact_id = ANY ($1::text[])),
    {_link_writing.DELETE}"""
_INSERT = f"""
    WITH artifacts AS (
        INSERT INTO artifact ({", ".join(_ARTIFACT)})
        SELECT * FROM unnest({", ".join(f"${place}::text[]" for place in range(1, 7))})
    ), new AS (
        SELECT * FROM unnest(
            $7::bigint[], {", ".join(f"${place}::{type}[]" for place, type in enumerate(_RECORD.values(), 8))}
        ) WITH ORDINALITY AS new (number, {", ".join(_RECORD)}, place)
    ), records AS (
        INSERT INTO record (number, {", ".join(_RECORD)})
        SELECT number, id, artifact_id, kind, idx, text, metadata::json, fields::jsonb FROM new
    )
    INSERT INTO embedding (number, artifact_id, record_id, kind, idx, value)
    SELECT number, artifact_id, id, kind, idx,
        ($15::real[])[(place - 1) * $16::integer + 1 : place * $16::integer]::vector
    FROM new"""


@dataclass(slots=True, eq=False, repr=False)
class NewRows:
    """The rows of checked artifacts, as they are inserted; their words are cut meanwhile.

    Args:
        puts: The artifacts.
        vectors: The vectors of all records; `None` if there are none.
        is_few: Whether one statement inserts them all.
        artifacts: The columns of the table `artifact`; encoded for COPY, unless they are few.
        records: Those of the table `record`, without the numbers.
        embeddings: Those of the table `embedding`, without the numbers, if they are encoded.
        record_ids: The ids of all records.
        texts: The texts of all records.
        language: The language that the corpus had when it was last asked.
        words: The words of these texts in that language; `None` until `write_rows` has cut them.
        extractions: The links and names of each artifact.
    """

    puts: Sequence[ArtifactChange] = ()
    vectors: Floats | None = None
    is_few: bool = True
    artifacts: _Columns = field(default_factory=dict)
    records: _Columns = field(default_factory=dict)
    embeddings: _Columns = field(default_factory=dict)
    record_ids: Sequence[str] = ()
    texts: Sequence[str] = ()
    language: Language | None = None
    words: TextWords | None = None
    extractions: dict[str, Extraction] = field(default_factory=dict)


async def prepare(puts: Sequence[ArtifactChange], language: Language | None) -> NewRows:
    """Check changes of artifacts, and return their rows.

    Args:
        puts: The changes.
        language: The language that the corpus had when it was last asked.

    Raises:
        StoreError: If an artifact cannot be stored.
    """
    return await in_thread(_prepare, puts, language)


def _prepare(puts: Sequence[ArtifactChange], language: Language | None) -> NewRows:
    rows = NewRows(puts, check_changes(puts))
    _check_sizes(rows)
    rows.extractions = {change.entry.artifact_id: change.extraction for change in puts}
    rows.artifacts = {name: [getattr(change.entry, of) for change in puts] for name, of in _ARTIFACT.items()}
    count, size = (0, 0) if rows.vectors is None else (len(rows.vectors), rows.vectors.size)
    rows.is_few = len(puts) <= _FEW_ARTIFACTS and count <= _FEW_RECORDS and size <= _FEW_NUMBERS
    if not rows.is_few:
        rows.artifacts = {name: encode_texts(values) for name, values in rows.artifacts.items()}
    if rows.vectors is None:
        return rows
    records = [record for change in puts for record in change.records]
    rows.record_ids, rows.texts = [record.id for record in records], [record.text for record in records]
    rows.language = language
    metadata = encode_metadata(puts)
    rows.records = {
        "id": rows.record_ids,
        "artifact_id": [record.artifact_id for record in records],
        "kind": [record.surface_kind for record in records],
        "idx": [record.surface_index for record in records],
        "text": [text.encode() for text in rows.texts],
        "metadata": metadata,
        "fields": [*map(to_fields, metadata)],
    }
    if not rows.is_few:
        _encode(rows, rows.vectors)
    return rows


def _encode(rows: NewRows, vectors: Floats) -> None:
    encoders: dict[str, Callable[[Any], list[bytes]]] = {
        "idx": encode_numbers,
        "text": encode_bytes,
        "fields": encode_jsonb,
    }
    encoded = {name: encoders.get(name, encode_texts)(values) for name, values in rows.records.items()}
    rows.records = encoded
    rows.embeddings = {name: encoded[name] for name in ("artifact_id", "kind", "idx")}
    rows.embeddings |= {"record_id": encoded["id"], "value": encode_bytes(encode_vectors(vectors))}


def _check_sizes(rows: NewRows) -> None:
    """Check that a server can store ids and vectors of this size.

    Raises:
        StoreError: If it cannot.
    """
    for change in rows.puts:
        check_key("id", change.entry.artifact_id, _LONGEST_ID)
        for record in change.records:
            check_key("record id", record.id, _LONGEST_RECORD_ID)
    width = 1 if rows.vectors is None else rows.vectors.shape[1]
    if not 1 <= width <= MAX_WIDTH:
        raise StoreError(
            f"the vectors in puts are {width} wide; PostgreSQL stores vectors of 1 to {MAX_WIDTH:,} numbers, so use "
            "another embedder"
        )


class _State(NamedTuple):
    """What there is before artifacts are written.

    Args:
        removed: The stored artifacts that are removed or replaced.
        numbers: The numbers of the new records.
        is_taken: Whether another artifact has a record with one of their ids.
        width: The width of the vectors that stay; `None` if it is not known.
        texts: The indexed texts.
    """

    removed: list[str]
    numbers: range
    is_taken: bool
    width: int | None
    texts: _words.IndexedTexts


async def write_rows(c: "Connection", rows: NewRows, removals: Sequence[str]) -> None:
    """Write and remove whole artifacts in the open transaction.

    Raises:
        StoreError: If the vectors are not as wide as the stored ones.
    """
    ids = keep_storable({**dict.fromkeys(removals), **rows.extractions})
    state = await _read_state(c, ids, rows.record_ids)
    if not ids or not (state.removed or rows.extractions):
        return
    # The words are cut in a thread while the server works.
    with first_error():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cut_words, rows)
            # Remove first: if all other artifacts go, vectors of any width fit.
            names = await c.fetch(_REMOVE, state.removed, to_keys(state.removed)) if state.removed else []
            await _insert_rows(c, rows, state)
            await _link_writing.replace_links(c, rows.extractions, names)
    await _words.change(c, state.texts, state.numbers, rows.texts, rows.words)


async def _read_state(c: "Connection", ids: Sequence[str], record_ids: Sequence[str]) -> _State:
    """Return what there is, and draw the numbers of new records."""
    found = await c.fetch(_STATE, ids, len(record_ids), keep_storable({*record_ids}))
    [row] = [row for row in found if row["number"] is None]
    texts = _words.IndexedTexts.of(
        row["language"], row["runs"], [row[:2] for row in found if row["number"] is not None]
    )
    last, first_id, width = row["last"] or 0, row["first_id"], row["width"]
    # After the first vector is removed, another one may be there or none.
    width = None if first_id is None or first_id in {*row["removed"]} else width
    return _State(row["removed"], range(last - len(record_ids) + 1, last + 1), row["is_taken"], width, texts)


async def _cut_words(rows: NewRows) -> None:
    if rows.texts:
        rows.words = await in_thread(analyse, rows.texts, rows.language)


async def settle(c: "Connection") -> None:
    """Bring what the planner of the server knows up to date, after many rows were written.

    Without it, plans are those for small tables until the server does this by itself, a minute later or more.

    Args:
        c: A connection of its own, outside a transaction.
    """
    # What takes longer is left to the server.
    await c.execute("SET statement_timeout = '60s'")
    for table in ("artifact", "record", "embedding", "posting", "link", "name"):
        await c.execute(f"VACUUM (ANALYZE, TRUNCATE off, SKIP_LOCKED) {table}")


async def _insert_rows(c: "Connection", rows: NewRows, state: _State) -> None:
    """Insert artifacts, records and vectors."""
    if rows.vectors is not None:
        if state.width is None:
            await _vectors.prepare_insert(c, rows.puts, rows.vectors)
        else:
            check_width(rows.puts, rows.vectors, state.width)
        if state.is_taken or len({*rows.record_ids}) < len(rows.record_ids):
            raise StoreError("puts contains two records with the same id; create ids with Record.make_id")
    if rows.is_few:
        await _insert_few(c, rows, state.numbers)
        return
    encoded = encode_numbers(state.numbers)
    await copy_columns(c, "artifact", rows.artifacts)
    await copy_columns(c, "record", {"number": encoded, **rows.records})
    await copy_columns(c, "embedding", {"number": encoded, **rows.embeddings})


async def _insert_few(c: "Connection", rows: NewRows, numbers: range) -> None:
    if not rows.puts:
        return
    values, width = [], 0
    if rows.vectors is not None:
        values, width = rows.vectors.ravel().tolist(), rows.vectors.shape[1]
    records = [rows.records.get(name, []) for name in _RECORD]
    await c.execute(_INSERT, *rows.artifacts.values(), [*numbers], *records, values, width)
