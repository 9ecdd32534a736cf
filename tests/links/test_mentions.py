"""Mentions of titles in texts: matching, guards, and builds.

After any changes, the mentions are those of a fresh build.
"""

import pickle
import re
import sys
import tarfile
import time
import tracemalloc
import zlib
from base64 import b85encode

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw.corpora import build, finish_ingest, ingest_partition, open_corpus, prepare_ingest
from airw.embedders import HashingEmbedder, embedder_from
from airw.errors import ArgumentError, SourceError
from airw.indexing import Notes, WholeText
from airw.links import (
    DependencyLinks,
    MarkdownLinks,
    MentionFinder,
    TitleMentions,
    extractor_from,
    extractor_from_spec,
    extractor_spec,
)
from airw.protocols import (
    ArtifactIds,
    CorpusWideExtractor,
    EdgeExtractor,
    Edges,
    ask,
)
from airw.sources import from_mapping, from_notes
from airw.stores import MemoryStore, SqliteStore
from airw.values import Artifact, Link, LinkFilter
from tests.support.archives import unpack
from tests.support.drawing import examples
from tests.support.stored import content_of
from tests.support.waiting import PATIENCE

TITLES = ("Merge sort", "Sort", "Graph walk", "Café Noir", "C++", "walk", "x_y", "Straße")


def finder(*titles, **options):
    notes = [Artifact(f"{number}.md", f"# {title}") for number, title in enumerate(titles)]
    return TitleMentions(**{"cased": False, **options}).over(notes)


def find_mentions(text, *titles, own="own.md", **options):
    """Return the title and the line of each mention in a text."""
    extraction = finder(*titles, **options).extract(Artifact(own, text), {})
    mentions = [link for link in extraction.links if link.type == "mentions"]
    assert all((link.origin, link.file) == ("derived", own) for link in mentions)
    return [(titles[int(link.target_ref.removesuffix(".md"))], link.line) for link in mentions]


# Matches


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("About merge SORT.", [("Merge sort", 1)]),
        ("merge\nsort", [("Merge sort", 1)]),
        ("> one\n> merge\n> sort", [("Merge sort", 2)]),
        ("a merge  sort\n\tmerge\tsort", [("Merge sort", 1)]),
        ("sort, then merge sort", [("Sort", 1), ("Merge sort", 1)]),
        ("merge sorted", []),
        ("merge sorting sort", [("Sort", 1)]),
        ("resort sorts sort1 sort_ed", []),
        ("graph walk walk", [("Graph walk", 1), ("walk", 1)]),
        ("**Graph walk** and _walk_", [("Graph walk", 1), ("walk", 1)]),
        ("\n\nCAFE\u0301 NOIR\n\nstrasse", [("Café Noir", 3), ("Straße", 5)]),
        ("ü C++ (c++)\n\nC++11", [("C++", 1)]),
        ("# Sort\n\n- walk\n  - x_y", [("Sort", 1), ("walk", 3), ("x_y", 4)]),
        ("| walk | x |\n|---|---|\n| sort | y |", [("walk", 1), ("Sort", 3)]),
        ("---\ntitle: walk\n---\nsort", [("Sort", 4)]),
        ("---\r\na: 1\r\n---\r\n\r\n\r\nsort", [("Sort", 6)]),
        ("---\n: [\nwalk\n---\nsort", [("Sort", 5)]),
        ("sort\n\nwalk\n\nsort", [("Sort", 1), ("walk", 3)]),
    ],
)
def test_titles_are_found_as_whole_words_in_any_case_with_the_line_of_their_first_mention(text, found):
    assert find_mentions(text, *TITLES, min_chars=1) == found


@pytest.mark.parametrize(
    "text",
    [
        "`sort`",
        "``\nsort `` and ``a`sort``",
        "```\nsort\n```",
        "~~~\nsort",
        "    sort",
        "<!-- sort -->",
        "a <!-- \nsort --> b",
        "<div>\nsort\n</div>",
        '<a title="sort">x</a>',
        "[sort](a.md)",
        "[a `x` *sort* b](a.md 'sort')",
        "[sort][r]\n\n[r]: sort.md 'sort'",
        "[[sort]] [[a|sort]] ![[sort]]",
        "![sort](a.png) ![a [sort](b.md)](c.png)",
        "<https://a.b/sort> https://a.b/sort www.sort.org/sort",
        "---\nabout: sort\n---\n",
        "merge [sort](a.md)",
    ],
)
def test_code_comments_frontmatter_links_and_addresses_contain_no_mentions(text):
    assert find_mentions(text, "Sort", "Merge sort") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[x](a.md) sort", [("Sort", 1)]),
        ("`a` sort [x](\nb.md)\nwalk", [("Sort", 1), ("walk", 3)]),
        ("[sort] and <b>walk</b>", [("Sort", 1), ("walk", 1)]),
        ("merge `x` sort", [("Sort", 1)]),
        ("`sort walk", [("Sort", 1), ("walk", 1)]),
        ("<!-- x --> sort", []),  # CommonMark: the rest of that line is HTML
        ("x <!-- x --> sort", [("Sort", 1)]),
    ],
)
def test_text_beside_a_link_or_code_is_prose(text, found):
    assert find_mentions(text, "Merge sort", "Sort", "walk") == found


def test_a_linked_note_is_also_mentioned_and_mentions_follow_the_links():
    notes = [Artifact("a.md", "# Sort"), Artifact("b.md", "---\naliases: [Order]\n---\n# Walk")]
    mentions = TitleMentions(cased=False).over(notes)
    found = mentions.extract(Artifact("c.md", "Sort by [order](b.md), in this order."), {})
    assert found.links == [
        Link("b.md", "related", "inline", file="c.md", line=1, or_ref="/b.md"),
        *(Link(target, "mentions", "derived", file="c.md", line=1) for target in ("a.md", "b.md")),
    ]
    assert found.names == MarkdownLinks().extract(Artifact("c.md", ""), {}).names


# Case, parentheses and shared titles


def mentions_among(texts, **options):
    """Return the mentions of the last of these notes."""
    notes = [Artifact(name, text) for name, text in texts.items()]
    return [link.target_ref for link in TitleMentions(**options).over(notes).extract(notes[-1], {}).links]


@pytest.mark.parametrize(
    ("title", "text", "found"),
    [
        ("Apple", "It was made by Apple.", True),
        ("Apple", "Apple made it. The phone of Apple is new.", True),
        ("Apple", "Phones by Apple, and phones of Apple.", True),
        ("Apple", "They ate an apple.", False),
        ("Gone Girl", "We saw Gone Girl. She wrote Gone Girl.", True),
        ("Paris Agreement", "The Paris agreement is an agreement of Paris.", True),
        ("Paris Agreement", "An agreement of Paris, a paris agreement.", False),
        ("Merge sort", "A merge sort is stable.", True),
        ("Merge sort", "Merge sort is stable.", True),
        ("Merge sort", "MERGE SORT", False),
        ("Loss Function", "Any loss function, a function with a loss.", True),
        ("Loss Function", "Loss function: any loss, any function.", True),
        ("numpy", "We use numpy.", True),
        ("numpy", "Numpy is used.", True),
        ("Point", "A data point, and a point.", False),
        ("UNICEF", "Works for UNICEF.", True),
        ("UNICEF", "Works for unicef.", False),
        ("Élan Vital", "Speaks of Élan Vital.", True),
        ("Élan Vital", "Speaks of E\N{COMBINING ACUTE ACCENT}lan Vital.", True),
        ("東京", "これは、東京、です。", True),
    ],
)
def test_a_name_is_found_as_written_and_ordinary_words_in_any_case(title, text, found):
    assert mentions_among({"title.md": f"# {title}", "text.md": text}, min_chars=2) == ["title.md"] * found


def test_parentheses_at_the_end_of_a_title_may_be_missing_in_a_text():
    planet, metal = "# Mercury (planet)\n\nMercury is hot.", "# Mercury (metal)\n\nIt is liquid."
    texts = {"planet.md": planet, "metal.md": metal, "text.md": "It flew to Mercury."}
    assert mentions_among(texts) == ["metal.md", "planet.md"]
    assert mentions_among(texts, shared=1) == []
    assert mentions_among({**texts, "god.md": "# Mercury", "x.md": "It flew to Mercury."}) == ["god.md"]
    assert mentions_among({**texts, "x.md": "It flew to Mercury (planet)."}) == ["planet.md"]
    assert mentions_among({"text.md": texts["text.md"], "metal.md": metal, "planet.md": planet}) == []


def test_a_name_that_few_notes_share_leads_to_each_and_a_heading_that_they_share_to_none():
    names = {f"{number}.md": "# Erik Berg\n\nHe was born." for number in range(5)}
    assert mentions_among({**names, "x.md": "The son of Erik Berg."}) == sorted(names)
    assert mentions_among({**names, "5.md": "# Erik Berg", "x.md": "The son of Erik Berg."}) == []
    headings = {f"{number}.md": "# Getting Started\n\nIt is started by getting it." for number in range(2)}
    assert mentions_among({**headings, "x.md": "## Getting Started"}) == []


def test_the_order_of_the_notes_does_not_matter():
    notes = {"a.md": "# Apple pie", "b.md": "# apple pie", "x.md": "They bake apple pie and Apple pie."}
    assert mentions_among(notes) == mentions_among(dict(reversed(notes.items())))


def test_a_title_that_grows_in_capitals_stops_no_build():
    notes = {"a.md": f"# {'ß ' * 249}", "b.md": "# Erik Berg", "x.md": "The son of Erik Berg."}
    assert mentions_among(notes) == ["b.md"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["md-notes"])
def test_most_mentions_in_notes_depend_on_titles_of_one_ordinary_word(data, tmp_path, name):
    """Run it with `-s` to see how many mentions the rules for case keep in notes."""
    with tarfile.open(data / name / f"{name}.tar.gz") as archive:
        unpack(archive, tmp_path)
    paths = sorted(tmp_path.rglob("*.md"))
    notes = [Artifact(str(path), path.read_text("utf-8", errors="replace")) for path in paths]

    def find(**options):
        mentions = TitleMentions(inner=DependencyLinks(), **options).over(notes)
        return {(note.id, link.target_ref) for note in notes for link in mentions.extract(note, {}).links}

    in_any_case, as_written = find(cased=False, shared=1), find()
    print(f"{name}: in any case {len(in_any_case)}, as written {len(as_written)}, new {len(as_written - in_any_case)}")
    assert len(as_written - in_any_case) < len(notes) / 50
    assert len(as_written) < len(in_any_case)


# Guards


def test_a_title_of_more_notes_than_may_share_it_is_no_mention_and_neither_are_its_parts():
    assert find_mentions("merge sort and sort", "Merge sort", "Merge Sort", "Merge", shared=1) == []
    notes = [Artifact("a.md", "---\naliases: [Sort, sort]\n---\n# SORT"), Artifact("b.md", "sort")]
    mentions = TitleMentions(cased=False, shared=1).over(notes)
    assert [link.target_ref for link in mentions.extract(notes[1], {}).links] == ["a.md"]


def test_a_note_mentions_neither_itself_nor_the_parts_of_its_own_title():
    assert find_mentions("# Merge sort\n\nMerge sort is fast.", "Merge sort", "Sort", own="0.md") == []


def test_short_titles_are_not_searched():
    assert find_mentions("a new sort", "new", "sort") == [("sort", 1)]
    assert find_mentions("a new sort", "new", "sort", min_chars=3) == [("new", 1), ("sort", 1)]
    assert find_mentions("-- ++++ __ .", "----", "++++", "____", min_chars=1) == []


def test_common_titles_are_not_searched():
    texts = {"sort": "# sort", "rare": "# rare", "both": "# rare sort", **{f"n{n}": f"sort {n}" for n in range(18)}}
    texts |= {"s": "a rare sort, a rare, a sort"}
    notes = [Artifact(name, text) for name, text in texts.items()]

    def targets(**options):
        links = TitleMentions(cased=False, **options).over(notes).extract(notes[-1], {}).links
        return [link.target_ref for link in links]

    assert targets() == ["both", "rare"]
    assert targets(max_share=1) == ["both", "rare", "sort"]
    for cased in (False, True):
        assert TitleMentions(cased=cased).over(notes) == TitleMentions(cased=cased).over(notes[::-1])


@pytest.mark.parametrize(
    "options",
    [
        {"inner": None},
        {"inner": TitleMentions()},
        {"type": ""},
        {"min_chars": 0},
        {"max_share": 2},
        {"max_share": True},
        {"shared": 0},
        {"cased": 1},
    ],
)
def test_meaningless_settings_are_refused(options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        TitleMentions(**options)


def test_brackets_without_end_are_reported_and_not_read():
    found = finder("sort").extract(Artifact("a", "sort " + "[" * 3_000 + "\nwalk"), {})
    assert [link.target_ref for link in found.links] == []
    assert "too many brackets on one line; mentions on it are not read (line 1)" in found.problems
    assert find_mentions("[" * 900 + "\n" + "[" * 900 + "\nsort", "sort") == [("sort", 3)]


# The extractor and its id


def test_titles_are_pickled_and_have_a_specification():
    mentions = finder(*TITLES, type="names", inner=MarkdownLinks(inline_type="x"))
    assert isinstance(mentions, EdgeExtractor)
    assert not isinstance(mentions, CorpusWideExtractor)
    for again in (pickle.loads(pickle.dumps(mentions)), extractor_from_spec(extractor_spec(mentions))):
        assert (again, again.id) == (mentions, mentions.id)
        assert again.extract(Artifact("n", "sort"), {}) == mentions.extract(Artifact("n", "sort"), {})
    asked = TitleMentions(min_chars=3, inner=DependencyLinks())
    assert extractor_from_spec(extractor_spec(asked)) == asked
    assert extractor_from_spec({"name": "TitleMentions"}) == TitleMentions()
    assert extractor_spec(TitleMentions(inner=extractor_from(lambda *_: {}, id="x"))) is None


@pytest.mark.parametrize("titles", [{"": ["a.md"]}, {"sort": None}, {"sort": "a.md"}, {"sort": [1]}, {3: ["a.md"]}])
def test_invalid_titles_are_refused(titles):
    with pytest.raises(ArgumentError, match="titles must be a mapping"):
        MentionFinder(MarkdownLinks(), "mentions", titles)


@pytest.mark.parametrize("titles", ["", "c%", 3, None])
def test_titles_that_cannot_be_read_back_are_an_error_that_contains_the_fix(titles):
    spec = extractor_spec(finder("sort"))
    with pytest.raises(ArgumentError, match="build the corpus again"):
        extractor_from_spec({**spec, "params": {**spec["params"], "titles": titles}})


def titles_spec(text):
    """Return the specification of a finder whose titles are this text, packed as in a file."""
    params = {"inner": {"name": "MarkdownLinks"}, "type": "mentions", "titles": b85encode(zlib.compress(text)).decode()}
    return {"name": "MentionFinder", "params": params}


@pytest.mark.slow
def test_a_file_whose_titles_unpack_to_sixty_megabytes_is_refused_before_they_fill_the_memory():
    spec = titles_spec(b'{"a": "' + b"a" * 60_000_000 + b'"}')
    tracemalloc.start()
    try:
        with pytest.raises(
            ArgumentError, match="stored titles of MentionFinder cannot be read; build the corpus again"
        ):
            extractor_from_spec(spec)
        assert tracemalloc.get_traced_memory()[1] < 80_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": ' + b"[" * 100_000 + b"}",
        b'{"a": {"b": "c"}}',
        b'{"a": ' + b"9" * 5_000 + b"}",
        b'{"a": NaN}',
        b'["a", "b"]',
        b'{"a": "b",}',
        b'{"a": "b"',
        b'{"' + b"long " * 200 + b'": "b"}',
    ],
)
def test_titles_that_are_no_mapping_of_short_texts_to_texts_are_refused(text):
    with pytest.raises(ArgumentError):
        extractor_from_spec(titles_spec(text))


def test_truncated_titles_are_refused():
    spec = titles_spec(b'{"sort": "a.md"}')
    packed = b85encode(zlib.compress(b'{"sort": "a.md"}')[:-6]).decode()
    with pytest.raises(ArgumentError, match="build the corpus again"):
        extractor_from_spec({**spec, "params": {**spec["params"], "titles": packed}})


def test_odd_titles_are_read_back():
    titles = {'a "b" \\ c': ["a.md", "b"], "\u2028é\ud800": ["c\n"], 'x": "y': [], ", ": ["}"]}
    finder = MentionFinder(MarkdownLinks(), "mentions", titles)
    assert extractor_from_spec(extractor_spec(finder)).titles == titles
    assert extractor_from_spec(extractor_spec(MentionFinder(MarkdownLinks(), "mentions", {}))).titles == {}


def test_an_extractor_within_many_others_is_refused():
    spec = {"name": "MarkdownLinks"}
    for _ in range(2_000):
        spec = {"name": "TitleMentions", "params": {"inner": spec}}
    with pytest.raises(ArgumentError, match="there is no inner edge extractor 'TitleMentions'"):
        extractor_from_spec(spec)
    nested = TitleMentions(inner=MentionFinder(MarkdownLinks(), "mentions", {}))
    assert extractor_spec(nested) is None


def test_a_title_of_more_than_500_characters_is_none():
    notes = [Artifact(f"{size}.md", f"---\naliases: [{'a' * size}]\n---\n") for size in (500, 501)]
    assert sorted(map(len, TitleMentions(min_chars=400, cased=False).over(notes).titles)) == [500]


def test_a_run_of_underscores_takes_linear_time():
    began = time.process_time()
    assert find_mentions("a" + "_" * 200_000 + "b __sort__ _sort_", "sort") == [("sort", 1)]
    assert time.process_time() - began < PATIENCE


@pytest.mark.slow
def test_a_note_that_mentions_thousands_of_others_takes_linear_time():
    titles = [f"title {number}" for number in range(8_000)]
    notes = TitleMentions(max_share=1).over(Artifact(title, f"# {title}") for title in titles)
    text = "\n\n".join(titles)
    began = time.process_time()
    assert len(notes.extract(Artifact("all", text), {}).links) == 8_000
    assert time.process_time() - began < PATIENCE


def test_its_id_changes_only_with_the_titles_and_the_settings():
    notes = [Artifact("a", "# Sort"), Artifact("b", "# Walk")]
    before = TitleMentions(cased=False).over(notes).id
    assert TitleMentions(cased=False).over([Artifact("b", "# WALK\n\nmore"), *notes]).id == before
    others = [notes[:1], [*notes, Artifact("c", "# Runs")], [notes[0], Artifact("c", "# Walk")]]
    ids = {TitleMentions(cased=False).over(other).id for other in others}
    ids |= {TitleMentions(type="x").over(notes).id, TitleMentions().over(notes).id, before}
    assert len(ids) == 6
    assert len(TitleMentions(inner=MarkdownLinks(inline_type="y")).over(notes).id) < 200


def test_without_its_library_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)
    with pytest.raises(ArgumentError, match=re.escape("needs ahocorasick-rs: pip install 'airw[mentions]'")):
        TitleMentions().survey()


# In a build


class Counting:
    """An embedder that remembers the texts that it has embedded."""

    def __init__(self):
        self.texts = 0
        self.embedder = embedder_from(self.embed, id="count", dim=2)

    def embed(self, texts):
        self.texts += len(texts)
        return [[1.0, 0.0]] * len(texts)


def notes(items, **options):
    mentions = TitleMentions(cased=False)
    options = {"strategy": Notes(), "embedder": HashingEmbedder(dim=16), "edge_extractor": mentions, **options}
    return from_mapping(items, name="notes", **options)


async def mentions(store, name):
    [edges] = await ask(store, Edges([name], links=LinkFilter(types=["mentions"])))
    return [edge.target for edge in edges]


WORDS = st.sampled_from(
    ["sort", "Sort", "merge", "walk", "Graph Walk", "graph", "[sort](b.md)", "[[walk]]", "`sort`", "\n", "\n\n# "]
)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
HEADS = st.sampled_from(
    [
        "",
        "# sort\n",
        "# Merge Sort\n",
        "# Graph Walk (x)\n",
        "# walk\n",
        "---\naliases: [walk, graph walk]\n---\n",
        "# A sort\n",
    ]
)
NAMES = ["a.md", "b.md", "c.md", "sort.md"]
EDIT = st.tuples(st.sampled_from(NAMES), st.none() | st.tuples(HEADS, TEXTS))
EXTRACTORS = st.sampled_from([TitleMentions(cased=False), TitleMentions(), TitleMentions(shared=1)])
STEPS = st.lists(st.lists(EDIT, max_size=2), min_size=1, max_size=4)


async def check_builds(edits, store, mentions):
    state = dict.fromkeys(NAMES[:2], "sort a walk, merge sort")
    for edit in ((), *edits):
        state = {name: text for name, text in {**state, **dict(edit)}.items() if text is not None}
        source = notes({name: "".join(text) for name, text in state.items()}, edge_extractor=mentions)
        await build(source, store=store, force=True, batch_size=2)
        fresh = MemoryStore()
        await build(source, store=fresh)
        assert await content_of(store) == await content_of(fresh)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(edits=STEPS, mentions=EXTRACTORS)
@settings(max_examples=examples(40))
def test_after_any_changes_a_build_contains_the_mentions_of_a_fresh_one(backend, edits, mentions):
    anyio.run(check_builds, edits, MemoryStore(), mentions, backend=backend)


@pytest.mark.slow
@given(edits=STEPS, mentions=EXTRACTORS)
@settings(max_examples=examples(12))
def test_the_same_is_true_for_a_file(tmp_path_factory, edits, mentions):
    async def main():
        async with SqliteStore(tmp_path_factory.mktemp("law") / "law.airw") as store:
            await check_builds(edits, store, mentions)

    anyio.run(main)


async def test_a_new_title_is_found_in_notes_that_did_not_change_without_embedding_them():
    counting, store = Counting(), MemoryStore()
    texts, whole = {"a.md": "They sort by hand.", "b.md": "Nothing."}, {"strategy": WholeText()}
    await build(notes(texts, **whole), store=store, embedder=counting.embedder)
    assert (counting.texts, await mentions(store, "a.md")) == (2, [])
    for title, found in (("# Sort", ["c.md"]), ("# Sorts", []), ("# By hand", ["c.md"])):
        counting.texts = 0
        corpus = await build(notes({**texts, "c.md": title}, **whole), store=store, embedder=counting.embedder)
        assert (counting.texts, await mentions(store, "a.md")) == (1, found)
        assert corpus.report.unchanged == 0
    for expected in ((1, 2), (0, 3)):  # another text and no other title; nothing
        counting.texts = 0
        source = notes({**texts, "c.md": "# By hand\n\nmore"}, **whole)
        corpus = await build(source, store=store, embedder=counting.embedder)
        assert (counting.texts, corpus.report.unchanged) == expected


async def test_upserted_notes_are_searched_for_the_titles_of_the_last_build():
    store = MemoryStore()
    corpus = await build(notes({"a.md": "# Sort", "b.md": "They walk."}), store=store)
    await corpus.upsert({"c.md": "# Walk\n\nThey sort, they walk."})
    assert (await mentions(store, "c.md"), await mentions(store, "b.md")) == (["a.md"], [])
    await build(notes({"a.md": "# Sort", "b.md": "They walk.", "c.md": "# Walk\n\nThey sort, they walk."}), store=store)
    assert (await mentions(store, "c.md"), await mentions(store, "b.md")) == (["a.md"], ["c.md"])


@pytest.mark.asyncio_only
@pytest.mark.parametrize("given_again", [None, TitleMentions(cased=False)])
async def test_a_corpus_opened_by_name_has_the_titles_of_its_last_build(tmp_path, given_again):
    async with build(notes({"a.md": "# Sort"}), store=tmp_path / "n.airw", embedder="light"):
        pass
    async with open_corpus(tmp_path / "n.airw", edge_extractor=given_again) as corpus:
        await corpus.upsert({"c.md": "They sort."})
        assert await mentions(corpus.store, "c.md") == ["a.md"]


async def test_items_with_problems_are_reported_by_the_build_and_have_no_titles():
    class Lost(dict):
        def __getitem__(self, key):
            if key == "lost":
                raise OSError("gone")
            return super().__getitem__(key)

    store, texts = MemoryStore(), Lost({"a.md": "They sort.", "lost": "", "no text": {"text": ["Sort"]}, "": "# Sort"})
    with pytest.raises(SourceError, match="'lost' cannot be read"):
        await build(notes(texts), store=store)
    corpus = await build(notes(texts), store=store, on_error="skip")
    assert [problem.item for problem in corpus.report.problems] == ["lost", "", "no text"]
    assert (await mentions(store, "a.md"), await ask(store, ArtifactIds())) == ([], ["a.md"])


async def test_a_missing_folder_is_the_usual_error_and_creates_no_corpus(tmp_path):
    with pytest.raises(SourceError, match="missing"):
        await build(from_notes(tmp_path / "missing", edge_extractor=TitleMentions()), store=MemoryStore())


async def test_partitions_need_the_titles_first_and_then_equal_a_build():
    texts = {"a.md": "# Sort\n\nWe walk.", "b.md": "# Walk", "c.md": "# Other\n\nThey sort, then walk."}
    with pytest.raises(ArgumentError, match=r"^edge_extractor TitleMentions must see all .*; pass TitleMentions\.over"):
        await prepare_ingest(notes(texts), store=MemoryStore())
    known = TitleMentions(cased=False).over(Artifact(name, text) for name, text in texts.items())
    store, whole = MemoryStore(), MemoryStore()
    plan = await prepare_ingest(notes({}, edge_extractor=known), store=store)
    for number, (name, text) in enumerate(texts.items()):
        await ingest_partition(plan, number, {name: text})
    await finish_ingest(plan, partitions=3)
    await build(notes(texts), store=whole)
    assert await content_of(store) == await content_of(whole)


def test_the_error_without_titles_contains_the_fix():
    with pytest.raises(ArgumentError, match="over"):
        TitleMentions().extract(Artifact("a", ""), {})
    assert isinstance(TitleMentions(), CorpusWideExtractor)
    assert isinstance(TitleMentions().over([]), MentionFinder)
