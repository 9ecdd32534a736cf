"""Searches with filters on dates with zones, and on decimals."""

import datetime
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from airw import build, from_notes, from_records, search
from airw.stores import MemoryStore

UTC, SUMMER = datetime.UTC, datetime.timezone(datetime.timedelta(hours=2))
TEN = datetime.datetime(2024, 1, 5, 10, tzinfo=UTC)
RECORDS = [
    {"id": "at ten", "text": "keys", "at": TEN, "price": Decimal("9.99")},
    {"id": "at nine", "text": "keys", "at": datetime.datetime(2024, 1, 5, 11, tzinfo=SUMMER), "price": Decimal(100)},
    {"id": "half past", "text": "keys", "at": "2024-01-05T10:30:00Z", "price": 10.5},
]
CASES = [
    ({"at": {"$lt": TEN}}, ["at nine"]),
    ({"at": {"$gte": "2024-01-05T12:00:00+02:00"}}, ["at ten", "half past"]),
    ({"at": "2024-01-05T10:00:00Z"}, ["at ten"]),
    ({"at": {"$in": ["2024-01-05 09:00Z", "2024-01-05 12:30+02"]}}, ["at nine", "half past"]),
    ({"at": {"$ne": TEN.astimezone(SUMMER)}}, ["at nine", "half past"]),
    ({"price": {"$lt": Decimal(20)}}, ["at ten", "half past"]),
    ({"price": {"$gt": 50}}, ["at nine"]),
    ({"price": Decimal("9.990")}, ["at ten"]),
]


@asynccontextmanager
async def open_records(source, store, tmp_path):
    async with build(source, store=MemoryStore() if store == "memory" else tmp_path / "n.airw") as corpus:
        yield corpus


async def find_ids(corpus, filter):
    return sorted(hit.artifact_id for hit in await search(corpus, "keys", filter=filter))


@pytest.mark.parametrize("store", ["memory", "file"])
@pytest.mark.asyncio_only
async def test_moments_and_amounts_are_compared_and_not_their_texts(store, tmp_path):
    async with open_records(from_records(RECORDS, name="records", embedder="light"), store, tmp_path) as corpus:
        for filter, expected in CASES:
            assert (filter, await find_ids(corpus, filter)) == (filter, sorted(expected))
        (hit,) = await search(corpus, "keys", filter={"price": Decimal(100)})
        assert (hit.metadata["price"], hit.metadata["at"]) == (100, "2024-01-05T11:00:00+02:00")


async def test_dates_of_notes_are_moments_too(tmp_path):
    for name, date in {"ten": "2024-01-05T10:00:00Z", "nine": "2024-01-05T11:00:00+02:00"}.items():
        (tmp_path / f"{name}.md").write_text(f"---\ndate: {date}\n---\nkeys\n", "utf-8")
    async with build(from_notes(tmp_path, name="notes", embedder="light"), store=MemoryStore()) as corpus:
        assert await find_ids(corpus, {"date": {"$lt": "2024-01-05T10:00:00Z"}}) == ["nine.md"]
