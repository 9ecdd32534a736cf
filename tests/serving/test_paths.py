"""Absolute paths of the server never leave it."""

from pathlib import PurePosixPath

import pytest

from airw import build, from_mapping, from_notes
from airw.serving import app
from airw.serving.paths import hide_in_message, hide_paths
from airw.stores import MemoryStore
from tests.support.served import client

ROOTS = [PurePosixPath("/srv/notes"), PurePosixPath("/srv/notes/team")]


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("path", "/srv/notes/team/a.md", "a.md"),
        ("path", "/srv/notes/b/a.md", "b/a.md"),
        ("path", "/home/ada/secret/a.md", "a.md"),
        ("path", "/srv/notes/../../etc/passwd", "passwd"),
        ("path", "notes/a.md", "notes/a.md"),
        ("skill_path", r"C:\Users\ada\SKILL.md", "SKILL.md"),
        ("base_path", "/srv/notes", "."),
        ("roots", ["/srv/notes/x", "/var/y"], ["x", "y"]),
        ("image", "/srv/notes/pictures/a.png", "pictures/a.png"),
        ("image", "/usr/share/pictures/a.png", "a.png"),
        ("image", "file:///srv/a.png", "a.png"),
        ("title", "file: a manual", "file: a manual"),
        ("permalink", "/2026/05/keys", "/2026/05/keys"),
        ("permalink", f"/{'é' * 200}/keys", f"/{'é' * 200}/keys"),
        ("walk_path", ["/usr/share/a.md"], ["/usr/share/a.md"]),
        ("text", "/srv/notes is a folder", "/srv/notes is a folder"),
        ("error", "StoreCorrupt: '/var/lib/kb.airw' is damaged", "StoreCorrupt: '…/kb.airw' is damaged"),
        ("more", {"path": "/var/lib/a.md"}, {"path": "a.md"}),
        ("source", "/usr/share/secret/a.md", "a.md"),
        ("ref", "file:///home/ada/a.md", "a.md"),
        ("files", {"/usr/share/a.md": 1}, {"a.md": 1}),
    ],
)
def test_fields_keep_what_a_client_may_see(field, value, shown):
    assert hide_paths({"metadata": {field: value}}, ROOTS) == {"metadata": {field: shown}}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("there is no corpus '/srv/a b/notes.airw'; build it", "there is no corpus '…/notes.airw'; build it"),
        ("see /var/log/kb.log, or ask", "see …/kb.log, or ask"),
        (r"'D:\kb\notes.airw' is locked", "'…/notes.airw' is locked"),
        ("http://ada:secret@10.0.0.7/v1 refuses", "http://… refuses"),
        ("/search takes corpus, query, not 'path'", "/search takes corpus, query, not 'path'"),
        ("reads 3/4 of a/b", "reads 3/4 of a/b"),
    ],
)
def test_messages_keep_the_last_part_of_a_path(message, shown):
    assert hide_in_message(message) == shown


async def test_no_answer_contains_the_folder_of_the_notes(tmp_path):
    for name, text in {"a": "[[b]] keys", "b": "keys"}.items():
        (tmp_path / f"{name}.md").write_text(text)
    async with build(from_notes(tmp_path, name="notes", embedder="light"), store=MemoryStore()) as corpus:
        stored = await corpus.search("keys")
        assert stored[0].metadata["path"].startswith(str(tmp_path))
        async with client(app([corpus])) as asking:
            answers = [
                await asking.post("/search", json={"corpus": "notes", "query": "keys"}),
                await asking.post("/discover", json={"corpus": "notes", "query": "keys", "min_score": None}),
                await asking.get("/artifact", params={"corpus": "notes", "id": "a.md", "level": "metadata"}),
                await asking.get("/tree", params={"corpus": "notes", "roots": "a.md"}),
                await asking.get("/path", params={"corpus": "notes", "start": "a.md", "end": "b.md"}),
                await asking.get("/corpora"),
            ]
            assert [answer.status_code for answer in answers] == [200] * 6
            assert [answer.text for answer in answers if str(tmp_path) in answer.text] == []


SHOWN = {"image": "pictures/signing.png", "link": "https://keys.example/home/a", "page": "/2026/05/keys"}
HIDDEN = {
    "image": "/usr/share/ada/signing.png",
    "link": "file:///home/ada/a.html",
    "page": r"C:\Users\ada\keys",
    "drive": "D:/ada/keys",
    "more": {"share": r"\\host\ada\keys"},
    "error": "cannot read /home/ada/a.md",
}
GUESSES = [  # of a part that is there, and of one that is not
    ("image", "ada", "eve"),
    ("link", "home/ada", "home/eve"),
    *(
        pytest.param(*each, marks=pytest.mark.slow)
        for each in [("page", "ada", "eve"), ("drive", "ada", "eve"), ("more.share", "host", "other")]
    ),
]


def requests_with(filter):
    """Return the requests that take a filter."""
    asked = {"corpus": "notes", "query": "signing keys"}
    texts = {"ask": "Rank", "queries": ["signing keys"], "k": 5}
    scope = {"name": "path-coverage", "params": {"scope": {"start": filter, "cross": filter, "keep": filter}}}
    return [
        ("/search", {**asked, "filter": filter}),
        ("/discover", {**asked, "min_score": None, "filter": filter}),
        ("/discover", {**asked, "min_score": None, "walk": scope}),
        ("/traverse", {**asked, "policy": scope}),
        ("/store/read", {"corpus": "notes", "requests": [{**texts, "filter": filter}]}),
    ]


@pytest.mark.parametrize(("field", "right", "wrong"), GUESSES)
async def test_no_part_of_a_hidden_path_can_be_guessed(field, right, wrong):
    texts = {"first": {"text": "signing keys", **HIDDEN}, "second": {"text": "signing keys too", **SHOWN}}
    async with (
        build(from_mapping(texts, name="notes", embedder="light"), store=MemoryStore()) as corpus,
        client(app([corpus])) as asking,
    ):

        async def find(filter):
            """Return which artifacts each request finds."""
            answers = [await asking.post(path, json=fields) for path, fields in requests_with(filter)]
            assert {answer.status_code for answer in answers} == {200}, filter
            return [{id for id in texts if f'"{id}"' in answer.text} for answer in answers]

        for wrap in (dict, lambda part: {"$not": part}, lambda part: {"$or": [part, {"image": "x"}]}):
            found = [await find(wrap({field: {"$contains": part}})) for part in (right, wrong)]
            assert found[0] == found[1]
        for op, part in (("$gt", "!"), ("$gte", "!"), ("$lt", "~"), ("$lte", "~")):
            assert not any("first" in ids for ids in await find({field: {op: part}})), op
        if field in SHOWN:
            assert await find({field: {"$contains": SHOWN[field][1:-3]}}) == [{"second"}] * 5
        for path, fields in requests_with({"error": {"$contains": "ada"}}):
            assert (await asking.post(path, json=fields)).json()["error"] == "FilterError"
