"""Functions that write artifacts to a PostgreSQL server."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from airw._base.arrays import Floats
from airw._base.concurrency import in_thread
from airw.errors import StoreError
from airw.stores._changes import check_changes, check_width, encode_metadata
from airw.stores._stored_values import detect_damage
from airw.stores.postgres import _link_writing
from airw.stores.postgres._field_json import to_fields
from airw.stores.postgres._inserting import COLUMNS, insert_rows
from airw.stores.postgres._keys import check_key, keep_storable, to_keys
from airw.stores.postgres._vector_codec import MAX_WIDTH, encode_vectors
from airw.stores.postgres._vector_index import drop_indexes
from airw.stores.postgres._words import TextWords, parse_language
from airw.values import ArtifactChange, Language

if TYPE_CHECKING:
    from asyncpg import Connection

MANY_RECORDS = 1_000
"""After a block of writing with so many records, the tables are settled."""

_FEW_ROWS = 5_000  # of all tables, that one statement inserts; COPY is faster with more

# Bytes in UTF-8; a key of an index has at most 2,704. The id of a record is that of its artifact, and a little more.
_LONGEST_ID, _LONGEST_RECORD_ID = 2_000, 2_600
_entry_row = attrgetter("artifact_id", *COLUMNS["artifact"][1:])

# Right after a bulk load the server has no statistics and would rather read a table than use an index, so this is
# forbidden for the transaction.
_STATE = """
    SELECT set_config('enable_seqscan', 'off', true), language,
        array(SELECT id FROM artifact WHERE id = ANY ($1::text[])) AS removed,
        CASE WHEN $2::bigint > 0 THEN setval('record_number', nextval('record_number') + $2::bigint - 1) END AS last,
        EXISTS (
            SELECT FROM record WHERE id = ANY ($3::text[]) AND artifact_id NOT IN (SELECT unnest($1::text[]))
        ) AS is_taken,
        (
            SELECT vector_dims(value) FROM embedding WHERE artifact_id NOT IN (SELECT unnest($1::text[]))
            ORDER BY artifact_id, number LIMIT 1
        ) AS width
    FROM texts"""
# The setting tells readers that links may have changed; see `max_fan_in`.
_REMOVE = f"""
    WITH artifacts AS (DELETE FROM artifact WHERE id = ANY ($1::text[])),
    embeddings AS (DELETE FROM embedding WHERE artifact_id = ANY ($1::text[])),
    postings AS (DELETE FROM posting WHERE artifact_id = ANY ($1::text[])),
    gone AS (DELETE FROM record WHERE artifact_id = ANY ($1::text[]) RETURNING length),
    totals AS (
        UPDATE texts SET records = records + $3::bigint - (SELECT count(*) FROM gone),
            words = words + $4::bigint - (SELECT coalesce(sum(length), 0) FROM gone)
    ), changed AS (
        INSERT INTO setting VALUES ('links', '', to_json(gen_random_uuid()))
        ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value
    ), {_link_writing.DELETE}"""


@dataclass(slots=True, eq=False, repr=False)
class NewRows:
    """Checked artifacts, and what of their rows is known before they are written.

    Args:
        puts: The artifacts.
        vectors: The vectors of all records; `None` if there are none.
        records: The rows of the table `record`, without the numbers before and the lengths behind.
        embeddings: The values of the table `embedding`.
        words: The words of the texts.
    """

    puts: Sequence[ArtifactChange] = ()
    vectors: Floats | None = None
    records: Sequence[tuple[Any, ...]] = ()
    embeddings: Sequence[bytes] = ()
    words: TextWords = field(default_factory=lambda: TextWords(None, (), ()))


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
    vectors = check_changes(puts)
    records = [record for change in puts for record in change.records]
    for kind, ids, most in (
        ("id", [change.entry.artifact_id for change in puts], _LONGEST_ID),
        ("record id", [record.id for record in records], _LONGEST_RECORD_ID),
    ):
        for id in ids:
            check_key(kind, id, most)
    if vectors is not None and not 1 <= vectors.shape[1] <= MAX_WIDTH:
        raise StoreError(
            f"the vectors in puts are {vectors.shape[1]} wide; PostgreSQL stores vectors of 1 to {MAX_WIDTH:,} "
            "numbers, so use another embedder"
        )
    texts = [record.text for record in records]
    return NewRows(
        puts,
        vectors,
        [
            (
                record.id,
                record.artifact_id,
                record.surface_kind,
                record.surface_index,
                text.encode(),
                each,
                to_fields(each),
            )
            for record, text, each in zip(records, texts, encode_metadata(puts), strict=True)
        ],
        [] if vectors is None else encode_vectors(vectors),
        TextWords.of(texts, language),
    )


async def write_rows(c: "Connection", new: NewRows, removals: Iterable[str]) -> None:
    """Write and remove whole artifacts in the open transaction.

    Raises:
        StoreError: If the vectors are not as wide as the stored ones, or two records have one id.
    """
    extractions = {change.entry.artifact_id: change.extraction for change in new.puts}
    count, record_ids = len(new.records), {row[0] for row in new.records}
    ids = keep_storable(dict.fromkeys([*removals, *extractions]))
    state = await c.fetchrow(_STATE, ids, count, [*record_ids])
    with detect_damage():
        language = parse_language(state["language"])
    if not (state["removed"] or new.puts):
        return
    if new.vectors is not None:
        if state["width"] is not None:
            check_width(new.puts, new.vectors, state["width"])
        else:  # an index takes vectors of one width only
            await drop_indexes(c)
        if state["is_taken"] or len(record_ids) < count:
            raise StoreError("puts contains two records with the same id; create ids with Record.make_id")
    words = new.words
    if words.language != language:
        words = await in_thread(TextWords.of, [row[4].decode() for row in new.records], language)
    removed = state["removed"]
    # Remove first: others may get the names.
    old_names = await c.fetch(_REMOVE, removed, to_keys(removed), count, sum(words.lengths))
    links = await _link_writing.resolve_links(c, extractions, old_names)
    numbers = range((state["last"] or 0) - count + 1, (state["last"] or 0) + 1)
    rows = {
        "artifact": [_entry_row(change.entry) for change in new.puts],
        "record": [(at, *row, length) for at, row, length in zip(numbers, new.records, words.lengths, strict=True)],
        "embedding": [
            (at, *row[:4], value) for at, row, value in zip(numbers, new.records, new.embeddings, strict=True)
        ],
        "posting": words.list_postings(zip([row[1] for row in new.records], numbers, strict=True)),
        "name": links.names,
        "link": links.rows,
    }
    row_count = 2 * count + sum(map(len, words.counts)) + len(new.puts) + len(links.names) + len(links.rows)
    await insert_rows(c, rows, are_few=row_count <= _FEW_ROWS)
    await _link_writing.change_targets(c, links)


async def settle(c: "Connection") -> None:
    """Bring what the planner of the server knows up to date, after many rows were written.

    Without it, plans are those for small tables until the server does this by itself, a minute later or more.

    Args:
        c: A connection of its own, outside a transaction.
    """
    # What takes longer is left to the server.
    await c.execute("SET statement_timeout = '60s'")
    for table in COLUMNS:
        await c.execute(f"VACUUM (ANALYZE, TRUNCATE off, SKIP_LOCKED) {table}")
