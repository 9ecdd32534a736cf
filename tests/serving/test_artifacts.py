"""`GET`, `PUT` and `DELETE /artifact`: one artifact, its links and files, and its changes."""

from contextlib import asynccontextmanager

import anyio
import pytest

from airw import build, from_mapping, from_notes, from_skills
from airw.protocols import Counts, Ledger, ask
from airw.serving import Token, app
from airw.stores import MemoryStore
from tests.support.served import client, notes, serve_notes


async def test_an_artifact_has_its_records_its_ledger_entry_and_its_links():
    async with serve_notes() as asking:
        answer = (await asking.get("/artifact", params={"corpus": "notes", "id": "keys.md"})).json()
        [record] = answer["records"]
        assert record["text"].startswith("See [[rotation]]")
        assert (answer["records_left_out"], answer["ledger"]["n_records"]) == (0, 1)
        ends = [(edge["from"], edge["to"]) for edge in answer["links"]["edges"]]
        assert ends == [("bread.md", "keys.md"), ("keys.md", "rotation.md")]
        assert "disclosure" not in answer


async def test_an_artifact_that_is_not_there_is_answered_404():
    async with serve_notes() as asking:
        answer = await asking.get("/artifact", params={"corpus": "notes", "id": "locks.md"})
        assert (answer.status_code, answer.json()["error"]) == (404, "NoLedgerEntry")


WRONG = [
    ("corpus=notes", "id must be a list of ids"),
    ("id=keys.md", "corpus is missing"),
    ("corpus=notes&id=a&id=b", "id must be there only once"),
    ("corpus=notes&id=keys.md&level=everything", "level must be one of 'metadata'"),
    ("corpus=notes&id=keys.md&level=body", "level must be 'metadata' here"),
    ("corpus=notes&id=keys.md&roots=/", "/artifact takes corpus, id, level"),
]


async def test_a_wrong_query_string_is_answered_400():
    async with serve_notes() as asking:
        for query, message in WRONG:
            answer = await asking.get(f"/artifact?{query}")
            assert answer.status_code == 400, query
            assert message in answer.json()["detail"], query


async def test_bodies_are_disclosed_only_below_the_roots_of_the_operator(tmp_path):
    public, private = tmp_path / "public", tmp_path / "private"
    for folder in (public, private):
        folder.mkdir()
        (folder / "a.md").write_text(f"keys of the {folder.name} team")
    async with (
        build(from_notes(public, name="public", embedder="light"), store=MemoryStore()) as one,
        build(from_notes(private, name="private", embedder="light"), store=MemoryStore()) as other,
        client(app([one, other], roots=[public])) as asking,
    ):
        shown = await asking.get("/artifact", params={"corpus": "public", "id": "a.md", "level": "body"})
        assert shown.json()["disclosure"]["body"] == "keys of the public team"
        assert shown.json()["disclosure"]["pointer"] == "a.md"
        hidden = await asking.get("/artifact", params={"corpus": "private", "id": "a.md", "level": "bundled"})
        disclosure = hidden.json()["disclosure"]
        assert (disclosure["body"], disclosure["bundle"]) == (None, [])
        assert disclosure["metadata"]["disclosure"] == "pointer_outside_roots"
        assert str(tmp_path) not in shown.text + hidden.text


READER = Token(value="reader-of-the-notes-1", read=["notes"])
WRITER = Token(value="writer-of-the-notes-1", write=["notes"])
AUTHOR = Token(value="author-of-the-notes-1", read=["notes"], write=["notes"])
STRANGER = Token(value="stranger-to-the-notes", read=[])


def bearer(token):
    return {"Authorization": f"Bearer {token.value}"} if token else {}


async def put(asking, token=None, id="locks.md", value="Locks. See [[keys]]."):
    return await asking.put("/artifact", json={"corpus": "notes", "id": id, "value": value}, headers=bearer(token))


async def test_an_artifact_is_changed_with_the_right_to_and_found_by_the_next_search():
    async with notes() as corpus, client(app([corpus], tokens=[READER, WRITER, STRANGER])) as asking:
        assert [(await put(asking, token)).status_code for token in (None, STRANGER, READER)] == [401, 404, 403]
        answer = await put(asking, WRITER)
        assert answer.json() == {
            "corpus": "notes",
            "id": "locks.md",
            "added": 1,
            "updated": 0,
            "unchanged": 0,
            "durability": "memory",
        }
        assert (await corpus.search("locks", k=1))[0].artifact_id == "locks.md"
        assert (await put(asking, WRITER)).json()["unchanged"] == 1
        gone = [
            await asking.delete(
                "/artifact",
                params={"corpus": "notes", "id": "locks.md"},
                headers={"Authorization": f"Bearer {WRITER.value}"},
            )
            for _ in range(2)
        ]
        assert [answer.json()["deleted"] for answer in gone] == [1, 0]


@pytest.mark.asyncio_only
@pytest.mark.parametrize(("is_named", "durability"), [(True, "full"), (False, "normal")])
async def test_the_answer_states_what_a_change_survives(tmp_path, is_named, durability):
    file = tmp_path / "notes.airw"
    async with build(from_mapping({"a": "keys"}, name="notes", embedder="light"), store=file) as corpus:
        served = file if is_named else corpus
        async with client(app({"notes": served}, writable=["notes"])) as asking:
            assert (await put(asking)).json()["durability"] == durability


async def test_an_id_that_cannot_be_stored_is_refused():
    async with serve_notes(writable=["notes"]) as asking:
        for id in ("", "a\0b", 7, None, ["a"]):
            assert (await put(asking, id=id)).status_code == 400, id


async def test_a_value_that_cannot_be_stored_changes_nothing():
    async with notes() as corpus, client(app([corpus], writable=["notes"])) as asking:
        for value in (None, 7, ["a"], "[[a\0b]]", {"text": 7, "more": "a\0b"}):
            assert (await put(asking, value=value)).status_code == 400, value
        half = '{"corpus": "notes", "id": "locks.md", "value": "half \\ud800"}'
        answer = await asking.put("/artifact", content=half, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
        assert "unpaired surrogate" in answer.json()["detail"]
        assert await ask(corpus.store, Ledger(["locks.md"])) == [None]


async def test_a_change_is_refused_early_while_a_build_holds_the_corpus(monkeypatch):
    monkeypatch.setattr("airw.serving.artifacts.LONGEST_WAIT", 0.02)
    async with notes() as corpus, client(app([corpus], writable=["notes"])) as asking:
        async with corpus.store.writing():
            answer = await put(asking)
            assert (answer.status_code, answer.json()["error"]) == (409, "StoreBusy")
            assert answer.headers["retry-after"] == "1"
        assert (await put(asking)).status_code == 200


async def test_changes_of_one_corpus_wait_for_each_other():
    async with notes() as corpus, client(app([corpus], writable=["notes"])) as asking:
        statuses = []

        async def change(number):
            statuses.append((await put(asking, id=f"{number}.md", value="keys")).status_code)

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(change, number)
        assert statuses == [200] * 8
        assert (await ask(corpus.store, Counts()))["artifacts"] == 11


async def test_without_a_right_to_write_nothing_can_be_changed():
    async with serve_notes() as asking:
        assert (await put(asking)).status_code == 403


@asynccontextmanager
async def serve_two_folders(tmp_path, token=None, **options):
    """Yield a client of two corpora below one root, of which tokens allow the first only."""
    for name, text in {"notes/a.md": "keys", "secret/b.md": "midnight", "secret/.env": "KEY=midnight"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "secret" / "README.md").write_text("midnight too")
    (tmp_path / "notes" / "link.txt").symlink_to(tmp_path / "secret" / "b.md")
    (tmp_path / "notes" / ".env").write_text("KEY=midnight")
    tokens = [token] if token else []
    async with (
        build(from_notes(tmp_path / "notes", name="notes", embedder="light"), store=MemoryStore()) as one,
        build(from_notes(tmp_path / "secret", name="secret", embedder="light"), store=MemoryStore()) as other,
        client(app([one, other], roots=[tmp_path], tokens=tokens, **options), headers=bearer(token)) as asking,
    ):
        yield asking


POINTERS = [
    "secret/b.md",
    "secret",
    "secret/.env",
    "notes/../secret/b.md",
    "notes/link.txt",
    "notes/.env",
    "secret/c.md",
]


@pytest.mark.parametrize("field", ["path", "skill_path"])
@pytest.mark.parametrize("pointer", POINTERS)
async def test_an_artifact_opens_no_file_of_a_corpus_that_its_reader_may_not_see(tmp_path, pointer, field):
    async with serve_two_folders(tmp_path, AUTHOR) as asking:
        value = {"text": "signing keys", field: str(tmp_path / pointer)}
        await asking.put("/artifact", json={"corpus": "notes", "id": "x", "value": value})
        for level in ("body", "bundled"):
            shown = await asking.get("/artifact", params={"corpus": "notes", "id": "x", "level": level})
            asked = {"corpus": "notes", "query": "signing keys", "disclose_level": level, "min_score": None}
            found = await asking.post("/discover", json=asked)
            streamed = await asking.post("/discover", json=asked, headers={"Accept": "text/event-stream"})
            for answer in (shown, found, streamed):
                assert answer.status_code == 200
                assert "midnight" not in answer.text
                assert "README.md" not in answer.text
                assert "pointer_outside_roots" in answer.text


async def test_files_of_a_corpus_that_a_client_may_read_stay_open(tmp_path):
    async with serve_two_folders(tmp_path, READER) as asking:
        shown = await asking.get("/artifact", params={"corpus": "notes", "id": "a.md", "level": "body"})
        assert shown.json()["disclosure"]["body"] == "keys"


async def test_a_client_that_may_read_all_corpora_reads_all_files_but_hidden_ones(tmp_path):
    async with serve_two_folders(tmp_path, writable=["notes"]) as asking:
        for pointer, body in {"secret/b.md": "midnight", "notes/link.txt": "midnight", "secret/.env": None}.items():
            value = {"text": "keys", "path": str(tmp_path / pointer)}
            await asking.put("/artifact", json={"corpus": "notes", "id": "x", "value": value})
            shown = await asking.get("/artifact", params={"corpus": "notes", "id": "x", "level": "body"})
            assert shown.json()["disclosure"]["body"] == body


async def test_files_around_all_corpora_are_closed_if_a_hidden_corpus_may_have_them(tmp_path):
    (tmp_path / "skills" / "vault").mkdir(parents=True)
    (tmp_path / "skills" / "vault" / "SKILL.md").write_text("---\nname: vault\ndescription: opens it\n---\nmidnight")
    skills = from_skills(roots=[tmp_path / "skills"], name="secret", embedder="light")
    async with (
        notes() as one,
        build(skills, store=MemoryStore()) as other,
        client(app([one, other], roots=[tmp_path], tokens=[AUTHOR]), headers=bearer(AUTHOR)) as asking,
    ):
        value = {"text": "keys", "path": str(tmp_path / "skills" / "vault" / "SKILL.md")}
        await asking.put("/artifact", json={"corpus": "notes", "id": "x", "value": value})
        shown = await asking.get("/artifact", params={"corpus": "notes", "id": "x", "level": "body"})
        assert shown.json()["disclosure"]["body"] is None
