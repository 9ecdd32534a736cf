"""The fields at the beginning of notes: YAML, TOML, and page properties."""

import pytest

from airw import build, search
from airw.protocols import RecordsOf, UnresolvedLinks, ask
from airw.sources import from_notes
from airw.stores import MemoryStore
from tests.support.reading import read, read_items, write

TEXTS = ["NO", "no", "yes", "on", "Off", "y", "12:30", "1:30:00", "01234", "-07", "00", "01.5", "1_000", "0b11", "0o8"]
TEXTS += ["1.2.3", "1e", "+", ".", "1e999", "nul", "<<", "2026-11-22", "2021-13-45", "2026-1-2", "2021-13-45T10:00:00"]


async def read_fields(root, text):
    """Return the metadata of a note, without those of its file."""
    [note] = await read(from_notes(write(root, {"note.md": text})))
    return {name: value for name, value in note.metadata.items() if name not in ("path", "filename")}


async def read_reason(root, text):
    """Return the problem of a note, which loses its fields alone."""
    [problem, note] = await read(from_notes(write(root, {"note.md": text})))
    assert (problem.item, problem.lost, note.raw) == ("note.md", False, text)
    assert note.metadata.keys() == {"title", "path", "filename"}
    return problem.reason


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *((word, word) for word in TEXTS),
        ("2026-11-22 10:30:00", "2026-11-22T10:30:00"),
        ("2026-11-22T10:30:00Z", "2026-11-22T10:30:00+00:00"),
        ("2026-11-22 10:30:00.25 +02:00", "2026-11-22T10:30:00.250000+02:00"),
        ("12", 12),
        ("-3", -3),
        ("+5", 5),
        ("0", 0),
        ("0o17", 15),
        ("0x1F", 31),
        (".5", 0.5),
        ("-1.50", -1.5),
        ("1e3", 1000.0),
        ("1.", 1.0),
        *((word, True) for word in ["true", "True", "TRUE"]),
        *((word, False) for word in ["false", "False", "FALSE"]),
        *((word, None) for word in ["", "~", "null", "Null", "NULL", ".nan", "-.inf", ".INF"]),
        ("'true'", "true"),
        ('"12"', "12"),
        ("! 12", "12"),
        ("!!str 012", "012"),
        ("!!int '12'", 12),
        ("!!float 1", 1.0),
        ("!!bool true", True),
        ("!!null ''", None),
        ("[NO, [01, 1], {on: off}]", ["NO", ["01", 1], {"on": "off"}]),
        ("|\n  12\n  no", "12\nno"),
        ("[[y]]", [["y"]]),
    ],
)
async def test_a_plain_value_is_what_its_author_reads(tmp_path, written, value):
    fields = await read_fields(tmp_path, f"---\nfield: {written}\n---\ntext")
    assert fields == {"field": value, "title": "note"}
    assert type(fields["field"]) is type(value)


async def test_names_of_fields_are_text_as_written(tmp_path):
    names = ["on", "NO", "2024", "007", "1.0", "true", "~", "2026-11-22", "12:30", "<<", "a b"]
    yaml = "\n".join(f"{name}: {{{name}: 1}}" for name in names)
    fields = await read_fields(tmp_path, f"---\n{yaml}\n---\n")
    assert fields == {**{name: {name: 1} for name in names}, "title": "note"}


async def test_filters_find_values_as_they_are_written(tmp_path):
    write(tmp_path, {"a.md": "---\ncountry: NO\non: yes\nat: 12:30\nzip: 01234\n---\nkeys"})
    async with build(from_notes(tmp_path), store=MemoryStore(), embedder="light") as corpus:
        for fields in ({"country": "NO"}, {"on": "yes"}, {"at": "12:30"}, {"zip": "01234"}):
            assert [hit.artifact_id for hit in await search(corpus, "keys", filter=fields)] == ["a.md"]


@pytest.mark.parametrize(
    ("yaml", "line", "advice"),
    [
        ("a: 1\ntitle: {{ page.title }}", 3, "in quotes"),
        ("title: A: B", 2, "in quotes"),
        ("a: 1\nkey: @x", 3, "in quotes"),
        ("key: `x`", 2, "in quotes"),
        ("date: %Y", 2, "in quotes"),
        ("a: 1\ntitle: [x\nb: 1\nc: 2", 3, "brackets"),
        ('a: 1\ntitle: "x\nb: 1\nc: 2', 3, "quotes"),
        ("a: b\n\tc: d", 3, "indent with spaces"),
        ("a:\n\t- b", 3, "indent with spaces"),
        ("a: b\n? [c]\n: d", 3, "in quotes"),
        ("a: b\nc: !secret d", 3, "remove"),
        ("a: b\nc: !!set {d}", 3, "remove"),
        ("a: b\nc: !!int d", 3, "remove"),
        ("a: b\nc: \x01", 3, "remove"),
        ("a: b\n--- c", 3, "remove"),
        ("a: b\nc: *d", 3, "write the value out"),
        ("links: a\nb: c\nlinks: d", 4, "write one list"),
        ("a:\n- {b: c, b: d}", 3, "'b' is written twice"),
    ],
)
async def test_yaml_that_cannot_be_read_is_reported_with_its_line_and_what_would_do(tmp_path, yaml, line, advice):
    reason = await read_reason(tmp_path, f"---\n{yaml}\n---\ntext")
    assert reason.endswith(f"(line {line})")
    assert advice in reason


async def test_words_of_strangers_in_a_problem_are_cut(tmp_path):
    assert len(await read_reason(tmp_path, "---\na: *" + "b" * 10_000 + "\n---\n")) < 300
    assert len(await read_reason(tmp_path, "---\na: !" + "b" * 10_000 + " c\n---\n")) < 400


async def test_toml_between_lines_of_pluses_is_read_and_the_body_begins_after_it(tmp_path):
    toml = "title = 'Keys'\ndate = 2026-11-22T10:30:00Z\nday = 2026-11-22\nat = 10:30:00\ntags = ['a',\n 'b']\n"
    toml += "zip = '01'\nrate = inf\n[params]\ntitle = 'Other'\n"
    text = f"+++\n{toml}+++\n\nRotate the keys.".replace("\n", "\r\n")
    assert await read_fields(tmp_path, f"\ufeff{text}") == {
        "title": "Keys",
        "date": "2026-11-22T10:30:00+00:00",
        "day": "2026-11-22",
        "at": "10:30:00",
        "tags": ["a", "b"],
        "zip": "01",
        "rate": None,
        "params": {"title": "Other"},
    }
    async with build(from_notes(tmp_path), store=MemoryStore(), embedder="light") as corpus:
        [[description, chunk]] = await ask(corpus.store, RecordsOf(["note.md"]))
        assert (description.text, chunk.text) == ("Keys\n\nRotate the keys.", "Rotate the keys.")
        assert text[chunk.metadata["start"] :] == chunk.text


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("a = 1\nb = word", "(line 3)"),
        ("a = 1\nb = 'x", "(line 3)"),
        ("a = 1\nb =", "(line 3)"),
        ("a = 1\na = 2", "(line 3)"),
        ("a = 1\n" + "a." * 60 + "b = 1", "a name of more than 50 parts; shorten it (line 3)"),
        ("a = " + "[" * 60 + "]" * 60, "nests deeper than 50 levels"),
        ("a = " + "[" * 50_000, "nests deeper than 50 levels"),
        ("[" + "a." * 40 + "a]\n" + "b." * 40 + "b = 1", "nests deeper than 50 levels"),
        ("a = 0x" + "f" * 5_000, "a number of more than 120 digits: write it as text, in quotes"),
        ("a = [[" + "9" * 5_000 + "]]", "a number of more than 120 digits: write it as text, in quotes"),
        ("a = '" + "x" * 100_000 + "'", "the frontmatter has 100006 characters, more than 100000"),
    ],
)
async def test_toml_that_cannot_be_read_or_would_take_long_is_a_problem(tmp_path, toml, words):
    assert words in await read_reason(tmp_path, f"+++\n{toml}\n+++\ntext")


async def test_properties_above_the_text_of_a_page_are_fields(tmp_path):
    text = (
        "alias:: foo, [[bar, baz]],\ntags:: #a, [[b]]\ntitle:: config: edn\nsince:: 01\npublic::\n\n- text\n- later:: x"
    )
    fields = await read_fields(tmp_path, text)
    assert fields == {
        "alias": ["foo", "bar, baz"],
        "tags": ["#a", "[[b]]"],
        "title": "config: edn",
        "since": "01",
        "public": "",
    }
    async with build(from_notes(tmp_path), store=MemoryStore(), embedder="light") as corpus:
        [[_, chunk]] = await ask(corpus.store, RecordsOf(["note.md"]))
        assert chunk.text == "- text\n- later:: x"


@pytest.mark.parametrize(
    "text", ["std::vector is a list", "- alias:: a", "text\nalias:: a", "\nalias:: a", "a:b", "---\na: 1\n---\nb:: c"]
)
async def test_what_is_not_at_the_very_top_is_no_property(tmp_path, text):
    assert not {"std", "alias", "b"} & (await read_fields(tmp_path, text)).keys()


async def test_an_alias_field_that_another_note_has_is_reported_with_its_line(tmp_path):
    texts = {
        "a.md": "alias:: Keys\n",
        "b.md": "title:: B\nalias:: x, keys\n",
        "c.md": "+++\nid = 'c'\naliases = 'KEYS'\n+++\n",
    }
    _, problems = await read_items(from_notes(write(tmp_path, texts)))
    assert [(problem.item, problem.reason) for problem in problems] == [
        ("b.md", "alias: 'a.md' also has the name 'keys', so links to it are ambiguous (line 2)"),
        ("c.md", "aliases: 'a.md' also has the name 'KEYS', so links to it are ambiguous (line 3)"),
    ]


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        ("---\nlinks:\n- b\n\n- id: c\n  type: x\n- {id: d, type: x}\n---\n", [3, 5, 7]),
        ("---\nlinks: {id: b}\n---\n", [2]),
        ("---\n? links\n: [b,\n  c]\n---\n", [3, 4]),
        ("+++\ntitle = 'T'\nlinks = [\n 'b',\n 'c',\n]\n+++\n", [3, 3]),
        ("+++\nx = '''\nlinks = 1\n'''\n[[links]]\nid = 'b'\n[[links]]\nid = 'c'\n+++\n", [5, 5]),
    ],
)
async def test_links_in_fields_have_the_line_where_they_are_written(tmp_path, head, lines):
    write(tmp_path, {"a.md": head})
    async with build(from_notes(tmp_path), store=MemoryStore(), embedder="light") as corpus:
        unresolved = await ask(corpus.store, UnresolvedLinks())
    assert [each.link.line for each in unresolved] == lines


@pytest.mark.parametrize("suffix", [".md", ".MD", ".markdown", ".Markdown", ".mdx"])
async def test_a_note_of_any_suffix_has_its_stem_as_title_and_name(tmp_path, suffix):
    write(tmp_path, {f"Far{suffix}": "far", "a.md": "[[far]] [x](Far)"})
    async with build(from_notes(tmp_path, pattern="."), store=MemoryStore(), embedder="light") as corpus:
        assert await ask(corpus.store, UnresolvedLinks()) == []
        [[record, *_]] = await ask(corpus.store, RecordsOf([f"Far{suffix}"]))
        assert record.metadata["title"] == "Far"
