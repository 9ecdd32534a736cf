"""Data sets in the folder of AIRW_DATA."""

import gzip
import json

import pytest

from airw.corpora import build
from airw.errors import ArgumentError, SourceError
from airw.evaluation import list_data_sets, load_data_set
from airw.protocols import ArtifactIds, Edges, RecordsOf, ask
from airw.stores import MemoryStore

DOCUMENTS = [
    {"id": "a", "title": "Keys", "text": "Rotate them.", "links": ["b"], "metadata": {"year": 2026}},
    {"id": "b", "text": "The vault."},
    {"id": "c", "title": "", "text": ""},
]
QUERIES = [{"id": "q1", "text": "keys?", "gold": ["a"], "type": "bridge"}, {"id": "q2", "text": "Rome?", "gold": []}]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRW_DATA", str(tmp_path))
    (tmp_path / "notes").mkdir()
    lines = {
        name: "".join(json.dumps(row) + "\n" for row in rows)
        for name, rows in (("corpus", DOCUMENTS), ("queries", QUERIES))
    }
    (tmp_path / "notes" / "corpus.jsonl.gz").write_bytes(gzip.compress(lines["corpus"].encode()))
    (tmp_path / "notes" / "queries.jsonl").write_text(lines["queries"], encoding="utf-8")
    return tmp_path / "notes"


async def test_a_data_set_has_documents_links_and_cases(folder):
    data = load_data_set("notes")
    assert [(case.query, case.gold, case.corpus) for case in data.cases] == [
        ("keys?", ("a",), "notes"),
        ("Rome?", (), "notes"),
    ]
    assert data.cases[0].metadata == {"id": "q1", "type": "bridge"}
    async with build(data.source(embedder="light"), store=MemoryStore()) as corpus:
        [[record], [other]] = await ask(corpus.store, RecordsOf(["a", "b"]))
        [[edge]] = await ask(corpus.store, Edges(["a"]))
        assert await ask(corpus.store, ArtifactIds()) == ["a", "b"]
    assert (record.text, record.metadata["title"], record.metadata["year"]) == ("Keys\nRotate them.", "Keys", 2026)
    assert (other.metadata["title"], edge.target) == ("b", "b")


def test_the_folder_is_that_of_the_environment(folder, monkeypatch):
    (folder.parent / "half").mkdir()
    assert list_data_sets() == ["notes"]
    for name in ("half", "none", "../notes", "", None):
        with pytest.raises(ArgumentError, match=r"^AIRW_DATA has no data set .*; it has notes$"):
            load_data_set(name)
    monkeypatch.delenv("AIRW_DATA")
    with pytest.raises(ArgumentError, match="AIRW_DATA must name the folder"):
        list_data_sets()


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"{}", ArgumentError, "queries.jsonl, line 1: a row must be an object with an id"),
        (b'\n{"id": 1, "text": 2}', ArgumentError, "line 2: a row must be"),
        (b"nonsense", ArgumentError, "line 1, is not JSON"),
        (b'{"id": "q", "text": "keys?"}\n{"id": "r", "text": " "}', ArgumentError, "line 2: query is blank"),
        (
            b'{"id": "q", "text": "keys?", "gold": "a b"}\n{"id": "r", "text": "b", "gold": [1]}',
            ArgumentError,
            "line 2: gold",
        ),
        (b'{"id": "q", "text": "keys?", "links": [3]}', ArgumentError, r"line 1: links must contain ids, not \[3\]"),
        (b"\xff", ArgumentError, "line 1, is not JSON in UTF-8"),
    ],
)
def test_a_wrong_line_is_named(folder, content, error, message):
    (folder / "queries.jsonl").write_bytes(content)
    with pytest.raises(error, match=message):
        load_data_set("notes")


def test_judgements_with_grades_are_gold_above_zero(folder):
    (folder / "queries.jsonl").write_text('{"id": "q", "text": "keys?", "gold": {"a": 2, "b": 0}}', encoding="utf-8")
    assert [case.gold for case in load_data_set("notes").cases] == [("a",)]


@pytest.mark.parametrize("content", [b"\x1f\x8b damaged", b"", b"plain"])
def test_a_damaged_file_is_an_error(folder, content):
    (folder / "corpus.jsonl.gz").write_bytes(content)
    if content:
        with pytest.raises(SourceError, match=r"cannot read .*corpus\.jsonl\.gz"):
            load_data_set("notes")
    else:
        assert load_data_set("notes").documents == {}


@pytest.mark.slow
@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("name", ["hotpotqa-100", "metatool", "skills"])
def test_the_cases_of_a_real_data_set_name_its_documents(name):
    data = load_data_set(name)
    gold = {id for case in data.cases for id in case.gold}
    assert gold
    assert gold <= set(data.documents)
