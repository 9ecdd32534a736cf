"""Absolute paths of the server never leave it."""

from pathlib import PurePosixPath

import pytest

from airw import build, from_notes
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
