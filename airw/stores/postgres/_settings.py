"""Settings of a corpus on a PostgreSQL server: JSON values by kind and key."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airw._base.checks import find_text_fault
from airw._base.messages import short_repr
from airw.errors import StoreError
from airw.stores._changes import settings_json
from airw.stores._stored_values import detect_damage, parse_mappings
from airw.stores.postgres._field_json import decode_text, encode_text
from airw.stores.postgres._keys import check_key

if TYPE_CHECKING:
    from asyncpg import Connection

_LONGEST_KEY = 2_500  # bytes in UTF-8; a long kind has short keys, and the index has both


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
    return _decode_settings(rows)


@detect_damage()
def _decode_settings(rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    values = parse_mappings([row[1] for row in rows])
    return dict(zip([decode_text(row[0]) for row in rows], values, strict=True))


async def read_config(c: "Connection", _: object = None) -> dict[str, Any]:
    """Return the settings of the corpus."""
    return dict((await read_settings(c, "config")).get("", {}))


async def read_calibrations(c: "Connection", _: object = None) -> dict[str, Any]:
    """Return all calibrations by key."""
    return await read_settings(c, "calibration")


async def set_setting(c: "Connection", kind: str, key: str, value: Mapping[str, Any]) -> None:
    """Replace one setting in the open transaction.

    Raises:
        StoreError: If the value is not JSON, or the key is too long or contains an unpaired surrogate.
    """
    text = settings_json(value)
    if fault := find_text_fault(key):
        raise StoreError(f"the setting {short_repr(key)} contains {fault} and cannot be stored; remove it")
    for part in (kind, key):
        check_key("setting", encode_text(part), _LONGEST_KEY)
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
