"""The page about quality contains the tables that its command printed, and no others."""

import json
import re
from contextlib import AsyncExitStack

import pytest

from airw.embedders import HashingEmbedder
from tests.benchmarks.quality import corpora
from tests.benchmarks.quality.__main__ import MEASURED
from tests.benchmarks.quality.corpora import Library
from tests.benchmarks.quality.tables import PAGE, Section, Table, fill_page, keep, load, write_page

TABLE = Table("notes, 3 questions", ["system", "R@5"], [["search", "0.500"]])
SECTION = Section("links", [TABLE], 1.6, "2026-11-23", "abc")
PRINTED = """Printed by `python -m tests.benchmarks.quality links` in 2 s, on 2026-11-23, commit abc.

**notes, 3 questions**

| system | R@5 |
|---|---|
| search | 0.500 |"""
PLACE = "a\n<!-- tables: links -->\nold\n<!-- end -->\nb\n"


def test_the_page_is_what_the_command_printed():
    text = PAGE.read_text(encoding="utf-8")
    assert fill_page(text, load()) == text


def test_all_tables_of_the_page_are_printed_by_the_command():
    text = PAGE.read_text(encoding="utf-8")
    by_hand = re.sub(r"<!-- tables: .*?<!-- end -->", "", text, flags=re.DOTALL)
    assert "\n|" not in by_hand


def test_a_section_is_kept_and_takes_the_place_of_an_older_one(tmp_path):
    file = tmp_path / "results.json"
    keep(Section("links", [], 1.0), file)
    keep(Section("times", [], 1.0), file)
    keep(SECTION, file)
    assert list(load(file)) == ["links", "times"]
    assert load(file)["links"] == SECTION


def test_a_page_is_filled_and_stays_as_it_is_when_it_is_filled_again(tmp_path):
    page, file = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text(PLACE, encoding="utf-8")
    keep(SECTION, file)
    for _ in range(2):
        write_page(page, file)
        assert page.read_text(encoding="utf-8") == f"a\n<!-- tables: links -->\n\n{PRINTED}\n\n<!-- end -->\nb\n"


@pytest.mark.parametrize("sections", [{}, {"links": SECTION, "times": SECTION}])
def test_a_page_has_a_place_for_each_section(sections):
    with pytest.raises(ValueError, match="places and sections differ"):
        fill_page(PLACE, sections)


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The name of a small data set: chains of two notes for each question."""
    folder = tmp_path / "chains"
    folder.mkdir()
    documents, questions = [], []
    for number in range(24):
        first, second = f"Harbour {number}", f"Lighthouse of Port{number}"
        documents += [
            {"id": f"a{number}", "title": first, "text": f"Ships of line {number} wait near the {second}."},
            {"id": f"b{number}", "title": second, "text": "It was built of white stone. A keeper lives there."},
        ]
        questions.append({"id": f"q{number}", "text": f"who lives near {first}?", "gold": [f"a{number}", f"b{number}"]})
    for name, rows in (("corpus", documents), ("queries", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setenv("AIRW_DATA", str(tmp_path))
    corpora.read.cache_clear()
    return folder.name


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("command", MEASURED)
async def test_each_command_makes_tables(notes, command):
    async with AsyncExitStack() as stack:
        tables = await MEASURED[command](Library(HashingEmbedder(), stack), [notes])
    assert tables
    for table in tables:
        assert {len(row) for row in table.rows} <= {len(table.head)}
    assert any(table.rows for table in tables)
