"""One long call holds up no short one: the connections of a file, through the server."""

import anyio
import httpx
import pytest

from airw import build, from_mapping
from airw.serving import app
from tests.support.serving import serve
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]

# SQL cannot name the field: Python reads it, record by record.
SLOW = {'"title"': "none"}


async def test_short_searches_are_answered_while_a_slow_scan_runs(tmp_path, monkeypatch):
    file = tmp_path / "notes.airw"
    texts = {str(number): f"note {number} about keys" for number in range(1_000)}
    source = from_mapping(texts, name="notes", embedder="light", metadata_of=lambda key, _: {'"title"': key})
    async with build(source, store=file):
        pass
    short = {"corpus": "notes", "query": "keys", "k": 5}
    short_answers, long_answers = [], []
    # The scan begins, and goes on only once others were answered.
    monkeypatch.setattr("airw.stores.sqlite._field_sql.hand_over", lambda: wait_until(lambda: len(short_answers) >= 10))
    with serve(app({"notes": file})) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as asking:

            async def ask_long():
                long_answers.append(await asking.post("/search", json={**short, "mode": "lexical", "filter": SLOW}))

            await asking.post("/search", json=short)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask_long)
                while not long_answers:
                    short_answers.append(await asking.post("/search", json=short))
    assert {answer.status_code for answer in [*short_answers, *long_answers]} == {200}
