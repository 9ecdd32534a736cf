"""Runs of words on a server, so small that every write merges or shrinks some."""

import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings

from airw.stores import SqliteStore
from airw.stores.postgres import _word_runs, _words
from tests.support.drawing import examples
from tests.support.postgres import fresh_store
from tests.support.text_histories import SCOPES, STEPS, expect_same_words, replay

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]


@settings(max_examples=examples(15), deadline=None)
@given(steps=STEPS, scope=SCOPES)
def test_words_rank_as_in_a_file_after_any_history_of_small_runs(steps, scope):
    async def main(folder):
        async with SqliteStore(folder / "words.airw") as file, fresh_store() as server:
            await replay(steps, [file, server])
            await expect_same_words(file, server, scope)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_word_runs, "MAX_PAIRS", 64)
        patch.setattr(_word_runs, "_COMMON", 2)
        patch.setattr(_word_runs, "_ROW_PAIRS", 4)
        patch.setattr(_words, "_PAGE", 2)
        patch.setattr(_words, "_FEW", 3)
        patch.setattr(_words, "_FIRST", 1)
        patch.setattr(_words, "_GROWTH", 2)
        anyio.run(main, Path(folder))
