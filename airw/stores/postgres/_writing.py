"""Functions that write artifacts to a PostgreSQL server."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airw._base.arrays import Floats
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.errors import StoreError
from airw.stores._changes import check_changes, encode_metadata
from airw.stores.postgres import _link_writing, _vectors, _words
from airw.stores.postgres._field_json import to_fields
from airw.stores.postgres._texts import keep_storable
from airw.stores.postgres._vector_codec import encode_vectors
from airw.values import ArtifactChange, Extraction, Language, Record

if TYPE_CHECKING:
    from asyncpg import Connection

_LONGEST_ID = 2_000  # bytes in UTF-8; a key of an index has at most 2,704


@dataclass(slots=True, eq=False, repr=False)
class NewRows:
    """The rows of checked artifacts, ready to be inserted."""

    puts: Sequence[ArtifactChange] = ()
    vectors: Floats | None = None
    encoded: list[bytes] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    words: _words.TextWords | None = None
    extractions: dict[str, Extraction] = field(default_factory=dict)


async def prepare(puts: Sequence[ArtifactChange], language: Language | None) -> NewRows:
    """Check changes of artifacts, and return their rows.

    Args:
        puts: The changes.
        language: The language that the corpus had when it was last asked; its words are cut before a lock is held.

    Raises:
        StoreError: If an artifact cannot be stored.
    """
    return await in_thread(_prepare, puts, language)


def _prepare(puts: Sequence[ArtifactChange], language: Language | None) -> NewRows:
    rows = NewRows(puts, check_changes(puts))
    _check_lengths(puts)
    if rows.vectors is not None:
        rows.encoded = encode_vectors(rows.vectors)
    rows.records = [record for change in puts for record in change.records]
    rows.metadata = encode_metadata(puts)
    rows.fields = [*map(to_fields, rows.metadata)]
    rows.words = _words.analyse([record.text for record in rows.records], language)
    rows.extractions = {change.entry.artifact_id: change.extraction for change in puts}
    return rows


def _check_lengths(puts: Sequence[ArtifactChange]) -> None:
    """Check that the ids of artifacts fit an index of the server, which compresses long ones.

    Raises:
        StoreError: If one does not fit.
    """
    for change in puts:
        artifact_id = change.entry.artifact_id
        if len(artifact_id) <= _LONGEST_ID // 4:
            continue
        encoded = artifact_id.encode()
        # PostgreSQL compresses less than zlib does.
        if len(encoded) > _LONGEST_ID and 2 * len(zlib.compress(encoded)) > _LONGEST_ID:
            raise StoreError(
                f"the id {short_repr(artifact_id)} has {len(encoded):,} bytes, too many for an index of PostgreSQL; "
                f"use one of at most {_LONGEST_ID:,}"
            )


async def write_rows(c: "Connection", rows: NewRows, removals: Sequence[str]) -> None:
    """Write and remove whole artifacts in the open transaction.

    Raises:
        StoreError: If the vectors are not as wide as the stored ones.
    """
    # Remove first: if all other artifacts go, vectors of any width fit.
    named = keep_storable({**dict.fromkeys(removals), **rows.extractions})
    removed = await c.fetchval("SELECT array(SELECT id FROM artifact WHERE id = ANY($1::text[]))", named)
    if removed:
        await _words.delete(c, removed)
        for table, column in (("embedding", "artifact_id"), ("record", "artifact_id"), ("artifact", "id")):
            await c.execute(f"DELETE FROM {table} WHERE {column} = ANY($1::text[])", removed)
    entries = [change.entry for change in rows.puts]
    await c.copy_records_to_table(
        "artifact",
        records=[(e.artifact_id, e.version, e.embedder_id, e.strategy_id, e.extractor_id, e.source) for e in entries],
    )
    if rows.vectors is not None:
        await _insert_records(c, rows, rows.vectors)
    if removed or rows.extractions:
        await _link_writing.replace_links(c, rows.extractions, removed)


async def _insert_records(c: "Connection", rows: NewRows, vectors: Floats) -> None:
    await _vectors.prepare_insert(c, rows.puts, vectors)
    count, ids = len(rows.records), keep_storable({record.id for record in rows.records})
    last, is_taken = await c.fetchrow(
        """SELECT setval('record_number', nextval('record_number') + $1::bigint - 1),
        EXISTS (SELECT FROM record WHERE id = ANY($2::text[]))""",
        count,
        ids,
    )
    if is_taken or len(ids) < count:
        raise StoreError("puts contains two records with the same id; create ids with Record.make_id")
    numbers = range(last - count + 1, last + 1)
    columns = zip(numbers, rows.records, rows.metadata, rows.fields, strict=True)
    await c.copy_records_to_table(
        "record",
        records=[
            (number, r.id, r.artifact_id, r.surface_kind, r.surface_index, r.text.encode(), metadata, fields)
            for number, r, metadata, fields in columns
        ],
    )
    await c.copy_records_to_table(
        "embedding",
        records=[
            (number, r.artifact_id, r.id, r.surface_kind, r.surface_index, vector)
            for number, r, vector in zip(numbers, rows.records, rows.encoded, strict=True)
        ],
    )
    await _words.insert(c, numbers, [record.text for record in rows.records], rows.words)
