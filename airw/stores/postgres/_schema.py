"""The tables of a corpus on a PostgreSQL server: one schema a corpus."""

import re

from airw._base.checks import find_text_fault
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.stores.postgres._keys import MAX_COVERED, prefix_of

# The corpus "notes" has the schema "airw_notes". All texts are compared byte by byte (collation "C"), so that their
# order is that of Python and of the other stores on every server.
SCHEMA_PREFIX = "airw_"
VERSION = 2
MARK_OF_COPY = "~"  # in the names of copies that are not whole yet; they are not listed
_COPY = re.compile(f"[^{MARK_OF_COPY}]+{MARK_OF_COPY}[0-9a-f]{{8}}")
_LONGEST_NAME = 63  # bytes

_IS_COVERED = f"""is_covered boolean NOT NULL GENERATED ALWAYS AS (coalesce(
            target <> artifact_id
            AND length(artifact_id) + length(target) + length(type) + length(origin) <= {MAX_COVERED}, false
        )) STORED"""

_POSTING = (
    'artifact_id text COLLATE "C" NOT NULL',
    "number bigint NOT NULL",
    'word text COLLATE "C" NOT NULL',
    "count integer NOT NULL",
    "length integer NOT NULL",
)
_TEXTS = ("language text", "records bigint NOT NULL", "words bigint NOT NULL")
_POSTING_INDEXES = (
    "CREATE INDEX posting_by_word ON posting (word) INCLUDE (number, count, length)",
    "CREATE INDEX posting_of_artifact ON posting (artifact_id)",
)
_EDGE_INDEXES = (
    "CREATE INDEX link_out ON link (artifact_id, type, target, origin, weight) WHERE is_covered",
    "CREATE INDEX link_in ON link (target, type, artifact_id, origin, weight) WHERE is_covered",
    f"CREATE INDEX link_other_out ON link ({prefix_of('artifact_id')}) WHERE NOT is_covered",
    f"CREATE INDEX link_other_in ON link ({prefix_of('target')}) WHERE NOT is_covered AND target IS NOT NULL",
)

TABLES = (
    # Values are JSON as written; kinds as in the file of a `SqliteStore`: "config", "calibration", "run <name>".
    """CREATE TABLE setting (
        kind text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        value json NOT NULL,
        PRIMARY KEY (kind, key)
    )""",
    """CREATE TABLE artifact (
        id text COLLATE "C" PRIMARY KEY,
        version text NOT NULL,
        embedder_id text NOT NULL,
        strategy_id text NOT NULL,
        extractor_id text NOT NULL,
        source text NOT NULL
    )""",
    # Numbers of records only grow; they keep the order in which the records of an artifact were given. `text` is UTF-8,
    # as PostgreSQL has no text with NUL. `metadata` is JSON as written; `fields` is the same for filters (see
    # `_filter_sql`); `length` is the number of words.
    "CREATE SEQUENCE record_number",
    """CREATE TABLE record (
        number bigint NOT NULL,
        id text COLLATE "C" NOT NULL,
        artifact_id text COLLATE "C" NOT NULL,
        kind text COLLATE "C" NOT NULL,
        idx bigint NOT NULL,
        text bytea NOT NULL,
        metadata json NOT NULL,
        fields jsonb NOT NULL,
        length bigint NOT NULL,
        PRIMARY KEY (artifact_id, number)
    )""",
    "CREATE INDEX record_by_number ON record (number)",
    "CREATE INDEX record_by_id ON record (id)",
    "CREATE INDEX record_by_field ON record USING gin (fields jsonb_path_ops)",
    # Apart from the records, so that comparing all vectors reads nothing else. A table `vector` would hide the type.
    """CREATE TABLE embedding (
        number bigint NOT NULL,
        artifact_id text COLLATE "C" NOT NULL,
        record_id text COLLATE "C" NOT NULL,
        kind text COLLATE "C" NOT NULL,
        idx bigint NOT NULL,
        value vector NOT NULL,
        PRIMARY KEY (artifact_id, number)
    )""",
    "CREATE INDEX embedding_by_record ON embedding (record_id)",
    # The words of each record, and in `texts` the only row about all of them. The first index answers a search alone.
    f"CREATE TABLE posting ({', '.join(_POSTING)})",
    *_POSTING_INDEXES,
    f"CREATE TABLE texts ({', '.join(_TEXTS)})",
    # An edge is with its start. `is_covered` is true for nearly all edges within the corpus: they are read from the
    # first two indexes alone, in the order of `neighbors`. A link without an edge, one to another corpus or to its own
    # artifact, and one with texts too long for a key are not covered. The other indexes contain the first characters
    # of a text, as a reference may have any length (see `_keys`).
    f"""CREATE TABLE link (
        artifact_id text COLLATE "C" NOT NULL,
        position integer NOT NULL,
        ref text COLLATE "C" NOT NULL,
        type text COLLATE "C" NOT NULL,
        origin text COLLATE "C" NOT NULL,
        target_source text COLLATE "C",
        file text,
        line bigint,
        or_ref text COLLATE "C",
        target text COLLATE "C",
        state text COLLATE "C" NOT NULL,
        folded text COLLATE "C",
        or_folded text COLLATE "C",
        weight double precision CHECK (weight BETWEEN 0.001 AND 1),
        {_IS_COVERED}
    )""",
    *_EDGE_INDEXES,
    f"CREATE INDEX link_by_ref ON link ({prefix_of('ref')})",
    f"CREATE INDEX link_by_or_ref ON link ({prefix_of('or_ref')}) WHERE or_ref IS NOT NULL",
    f"CREATE INDEX link_by_folded ON link ({prefix_of('folded')}) WHERE folded IS NOT NULL",
    f"CREATE INDEX link_by_or_folded ON link ({prefix_of('or_folded')}) WHERE or_folded IS NOT NULL",
    # The names of artifacts. Each artifact has its own id in tier 0.
    """CREATE TABLE name (
        key text COLLATE "C" NOT NULL,
        tier integer NOT NULL,
        artifact_id text COLLATE "C" NOT NULL
    )""",
    f"CREATE INDEX name_by_key ON name ({prefix_of('key')})",
    f"CREATE INDEX name_of_artifact ON name ({prefix_of('artifact_id')})",
)
"""The statements that create the tables of a corpus, in a new schema that is first in the `search_path`."""

UPGRADES = (
    # The tables stay, with their owner and the rights of others.
    "TRUNCATE posting, text_run",
    "ALTER TABLE posting DROP code, DROP run, DROP part, DROP directory, DROP entries",
    f"ALTER TABLE posting {', '.join(f'ADD {column}' for column in _POSTING)}",
    "ALTER TABLE text_run RENAME TO texts",
    "ALTER TABLE texts DROP first, DROP last, DROP records, DROP words, DROP pairs, DROP depth",
    f"ALTER TABLE texts {', '.join(f'ADD {column}' for column in _TEXTS)}",
    "DELETE FROM setting WHERE kind = 'language'",
    "ALTER TABLE record ADD length bigint NOT NULL DEFAULT 0",
    f"ALTER TABLE link DROP is_covered, ADD {_IS_COVERED}",
    *_POSTING_INDEXES,
    *_EDGE_INDEXES,
)
"""The statements that make the tables of format 1 those of this one; the words of all texts are indexed afterwards."""


def schema_of(corpus: str) -> str:
    """Return the name of the schema of a corpus; names of corpora are compared without case.

    Raises:
        ArgumentError: If PostgreSQL cannot have a schema of that name.
    """
    schema = SCHEMA_PREFIX + corpus.casefold()
    # PostgreSQL would cut a longer name, and two corpora could share a schema.
    is_odd = MARK_OF_COPY in corpus and not _COPY.fullmatch(corpus)
    if (
        schema == SCHEMA_PREFIX
        or is_odd
        or find_text_fault(schema, allow_nul=False)
        or len(schema.encode()) > _LONGEST_NAME
    ):
        raise ArgumentError(
            f"corpus {short_repr(corpus)} cannot be a schema of PostgreSQL: use a name of 1 to "
            f"{_LONGEST_NAME - len(SCHEMA_PREFIX)} bytes without NUL and {MARK_OF_COPY}"
        )
    return schema


def quote(identifier: str) -> str:
    """Return an identifier as SQL, quoted."""
    return '"' + identifier.replace('"', '""') + '"'
