"""Settings of a corpus on a PostgreSQL server: JSON values by kind and key."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airw._base.checks import find_text_fault
from airw._base.messages import error_text, short_repr
from airw.errors import StoreCorrupt, StoreError
from airw.stores._changes import settings_json
from airw.stores.postgres._field_json import decode_text, encode_text

if TYPE_CHECKING:
    from asyncpg import Connection


async def read_settings(c: "Connection", kind: str, keys: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the JSON values of one kind of setting by key; of all keys if none are given."""
    if keys is None:
        rows = await c.fetch("SELECT key, value FROM setting WHERE kind = $1 ORDER BY key", encode_text(kind))
    else:
        rows = await c.fetch(
            "SELECT key, value FROM setting WHERE kind = $1 AND key = ANY($2::text[]) ORDER BY key",
            encode_text(kind),
            [encode_text(key) for key in keys],
        )
    values = parse_mappings([row[1] for row in rows])
    return dict(zip([decode_text(row[0]) for row in rows], values, strict=True))


async def set_setting(c: "Connection", kind: str, key: str, value: Mapping[str, Any]) -> None:
    """Replace one setting in the open transaction.

    Raises:
        StoreError: If the value is not JSON, or the key contains an unpaired surrogate.
    """
    text = settings_json(value)
    if fault := find_text_fault(key):
        raise StoreError(f"the setting {short_repr(key)} contains {fault} and cannot be stored; remove it")
    await c.execute(
        """INSERT INTO setting (kind, key, value) VALUES ($1, $2, $3)
        ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value""",
        encode_text(kind),
        encode_text(key),
        text,
    )


async def delete_settings(c: "Connection", kind: str, keys: Sequence[str] | None = None) -> None:
    """Delete the settings of a kind with these keys, or all of them, in the open transaction."""
    await c.execute(
        "DELETE FROM setting WHERE kind = $1 AND ($2::text[] IS NULL OR key = ANY($2))",
        encode_text(kind),
        None if keys is None else [encode_text(key) for key in keys],
    )


def parse_mappings(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the mappings that these JSON texts contain.

    Raises:
        StoreCorrupt: If one is no mapping; airw never writes such a value.
    """
    try:
        # One call parses all texts, as one call each takes longer. The server has checked that each is JSON.
        mappings: list[Any] = json.loads(f"[{','.join(texts)}]")
    except (ValueError, RecursionError) as error:
        raise StoreCorrupt(f"a JSON value of the corpus cannot be read: {error_text(error)}") from error
    if not {*map(type, mappings)} <= {dict}:
        raise StoreCorrupt("a JSON value of the corpus is no mapping, which airw never writes; build the corpus again")
    return mappings
