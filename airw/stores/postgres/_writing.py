"""Functions that write artifacts to a PostgreSQL server."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import anyio

from airw._base.arrays import Floats
from airw._base.concurrency import first_error, in_thread
from airw._base.messages import short_repr
from airw.errors import StoreError
from airw.stores._changes import check_changes, encode_metadata
from airw.stores.postgres import _link_writing, _vectors, _words
from airw.stores.postgres._copy_rows import copy_columns, encode_bytes, encode_jsonb, encode_numbers, encode_texts
from airw.stores.postgres._field_json import to_fields
from airw.stores.postgres._texts import keep_storable
from airw.stores.postgres._vector_codec import encode_vectors
from airw.stores.postgres._word_runs import TextWords, analyse
from airw.values import ArtifactChange, Extraction, Language, LedgerEntry

if TYPE_CHECKING:
    from asyncpg import Connection

_Columns: TypeAlias = dict[str, list[bytes]]

MANY_RECORDS = 1_000
"""After a block of writing with so many records, the tables are settled."""

_LONGEST_ID = 2_000  # bytes in UTF-8; a key of an index has at most 2,704


@dataclass(slots=True, eq=False, repr=False)
class NewRows:
    """The rows of checked artifacts, ready to be inserted.

    Args:
        puts: The artifacts.
        vectors: The vectors of all records; `None` if there are none.
        artifacts: The columns of the table `artifact`.
        records: Those of the table `record`, without the numbers.
        embeddings: Those of the table `embedding`, without the numbers.
        record_ids: The ids of all records.
        texts: The texts of all records.
        language: The language that the corpus had when it was last asked.
        words: The words of these texts in that language; `write_rows` cuts them.
        extractions: The links and names of each artifact.
    """

    puts: Sequence[ArtifactChange] = ()
    vectors: Floats | None = None
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
    _check_lengths(puts)
    rows.extractions = {change.entry.artifact_id: change.extraction for change in puts}
    rows.artifacts = _encode_artifacts([change.entry for change in puts])
    if rows.vectors is None:
        return rows
    records = [record for change in puts for record in change.records]
    rows.record_ids, rows.texts = [record.id for record in records], [record.text for record in records]
    metadata = encode_metadata(puts)
    shared = {
        "artifact_id": encode_texts([record.artifact_id for record in records]),
        "kind": encode_texts([record.surface_kind for record in records]),
        "idx": encode_numbers([record.surface_index for record in records]),
    }
    ids = encode_texts(rows.record_ids)
    rows.records = {
        **shared,
        "id": ids,
        "text": encode_texts(rows.texts),
        "metadata": encode_texts(metadata),
        "fields": encode_jsonb(map(to_fields, metadata)),
    }
    rows.embeddings = {**shared, "record_id": ids, "value": encode_bytes(encode_vectors(rows.vectors))}
    rows.language = language
    return rows


def _encode_artifacts(entries: Sequence[LedgerEntry]) -> _Columns:
    return {
        "id": encode_texts([entry.artifact_id for entry in entries]),
        "version": encode_texts([entry.version for entry in entries]),
        "embedder_id": encode_texts([entry.embedder_id for entry in entries]),
        "strategy_id": encode_texts([entry.strategy_id for entry in entries]),
        "extractor_id": encode_texts([entry.extractor_id for entry in entries]),
        "source": encode_texts([entry.source for entry in entries]),
    }


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
    # The words are cut in a thread while the server works.
    with first_error():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cut_words, rows)
            numbers = await _insert_rows(c, rows)
            if removed or rows.extractions:
                await _link_writing.replace_links(c, rows.extractions, removed)
    if numbers:
        await _words.insert(c, numbers, rows.texts, rows.words)


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


async def _insert_rows(c: "Connection", rows: NewRows) -> range:
    """Insert artifacts, records and vectors, and return the numbers of the records."""
    await copy_columns(c, "artifact", rows.artifacts)
    if rows.vectors is None:
        return range(0)
    await _vectors.prepare_insert(c, rows.puts, rows.vectors)
    count, ids = len(rows.record_ids), keep_storable({*rows.record_ids})
    last, is_taken = await c.fetchrow(
        """SELECT setval('record_number', nextval('record_number') + $1::bigint - 1),
        EXISTS (SELECT FROM record WHERE id = ANY($2::text[]))""",
        count,
        ids,
    )
    if is_taken or len(ids) < count:
        raise StoreError("puts contains two records with the same id; create ids with Record.make_id")
    numbers = range(last - count + 1, last + 1)
    encoded = encode_numbers(numbers)
    await copy_columns(c, "record", {"number": encoded, **rows.records})
    await copy_columns(c, "embedding", {"number": encoded, **rows.embeddings})
    return numbers
