"""Extractors: the links of a note, their lines, and the names of the note."""

import time

import pytest
from hypothesis import given, strategies as st

from airw.errors import ArgumentError, SourceError
from airw.links import MarkdownLinks, extractor_from
from airw.links.sites import SiteSurvey
from airw.protocols import EdgeExtractor
from airw.values import Artifact, Link
from tests.support.waiting import PATIENCE


def extract(text, *, id="folder/note.md", **settings):
    return MarkdownLinks(**settings).extract(Artifact(id, text), {})


def refs(text, **settings):
    return [link.target_ref for link in extract(text, **settings).links]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[t](a.md)", ["folder/a.md"]),
        ("[t](./a.md#part)", ["folder/a.md"]),
        ("[t](../a.md?v=1)", ["a.md"]),
        ("[t](/deep/./a.md)", ["/deep/a.md"]),
        ("[t](x/../y//a.md 'title')", ["folder/y/a.md"]),
        ("[t](caf%C3%A9%20bar.md)", ["folder/café bar.md"]),
        ("[t](<a b.md>)", ["folder/a b.md"]),
        ("[t](a)", ["./folder/a"]),
        ("[t](a.mdx)", ["folder/a.mdx"]),
        ("[t](a.html) [t](index.html)", ["./folder/a", "./folder/"]),
        ("[t](sub/)", ["./folder/sub/"]),
        ("[t](.) [t](./)", ["./folder/"]),
        ("[t](..) [t](/a/)", ["./", "/a/"]),
        ("[t](/sub/page/#top)", ["/sub/page/"]),
        ("[t](../page/)", ["./page/"]),
        ("[t](%2e%2e/a%2Fb.md)", ["a/b.md"]),
        ("![t](a.md) ![t](a.png)", ["folder/a.md"]),
        ("[t](A.md)", ["folder/A.md"]),
        ("[t](a_(b).md)", ["folder/a_(b).md"]),
        ("<div>\n[t](a.md)\n</div>", ["folder/a.md"]),
        ("<Tabs>\nSee [t](a.md).\n</Tabs>", ["folder/a.md"]),
        ("[t][r]\n\n[r]: a.md", ["folder/a.md"]),
        ("[r]\n\n[r]: a.md", ["folder/a.md"]),
        ("[unused]: a.md 'title'", ["folder/a.md"]),
        ("# [t](a.md)\n\n> - **[u](b.md)**", ["folder/a.md", "folder/b.md"]),
        ("| [t](a.md) | [u](b.md) |\n|---|---|", ["folder/a.md", "folder/b.md"]),
        ("[![alt](i.png)](a.md)", ["folder/a.md"]),
        ("[t](a.md) [u](a.md#x) [[a]]", ["folder/a.md", "a"]),
        ("- [ ] [t](a.md)\n- [x] [u](b.md)", ["folder/a.md", "folder/b.md"]),
        ("text[^1]\n\n[^1]: [t](a.md)\n[^2]: see [u](b.md)\n[^3]: word", ["folder/a.md", "folder/b.md"]),
        ("<b>[t](a.md)</b> <a href='b.md'>u</a>", ["folder/a.md", "folder/b.md"]),
        (
            "<p><A class=x HREF=c%20d.md#e>t</A> <Link to='f.mdx'/> <link href='g.md'></p>",
            ["folder/c d.md", "folder/f.mdx"],
        ),
        (
            '[t](b c.md "x") [u [v]](d (e) f.md?raw=1) [![i](i.png)](g h.md)',
            ["folder/b c.md", "folder/d (e) f.md", "folder/g h.md"],
        ),
        ("[w](My Folder/)\n\n[x]: two words.md", ["./folder/My Folder/", "folder/two words.md"]),
        ("[t](re: b.md) [u](<Log: c.md>)", ["folder/re: b.md", "folder/Log: c.md"]),
        (
            '<a title="a > b" href="c.md">t</a> <area href=d.md> <!-- x --> <a href=e.md>e</a>',
            ["folder/c.md", "folder/d.md", "folder/e.md"],
        ),
        ("<!-- note --> <a href='b.md'>b</a>", ["folder/b.md"]),
        ('<a style={{ color: "red" }} onClick={() => go()} href="b">t</a>', ["./folder/b"]),
        (
            '<Link to={"b"}/> <Link className={clsx("a", x)} to="c"/> <Link to={useBaseUrl("d")}/>',
            ["./folder/b", "./folder/c", "./folder/d"],
        ),
        ('<Card\n  title="x"\n  href="b"\n>\n</Card>', ["./folder/b"]),
        ("<Tabs>\n  <TabItem>\n\n    See [b](b.md)\n\n  </TabItem>\n</Tabs>", ["folder/b.md"]),
        ("!!!note\n    [b](b.md)\n\n/// tab | T\n\n    [c](c.md)\n///", ["folder/b.md", "folder/c.md"]),
        ("<Tabs> are nice.\n\n    [x](x.md)\n\n[b](b.md)", ["folder/b.md"]),
        ("Text.\n\n    <Tabs>\n    [x](x.md)\n    </Tabs>\n\n[b](b.md)", ["folder/b.md"]),
        (
            '{{#include a.md:2:9}} {{< figure src="p.png" link="/b/" >}}\n\n{{% card href="c.md" %}}\n[d](d.md)',
            ["folder/a.md", "/b/", "folder/c.md", "folder/d.md"],
        ),
        ("<Tabs>\n{/* [x](x.md)\n*/}\n[b](b.md)\n</Tabs>", ["folder/b.md"]),
        ("text\n[^1]: one\n\n    two [b](b.md)", ["folder/b.md"]),
        ("---\nhero: [{link: /guide/}, {link: https://x.y/}, {href: ../b.md}, {link: x}]\n---\n", ["/guide/", "b.md"]),
        (
            '<a href="{{ "/b.html" | prepend: site.baseurl }}">b</a> [c]({{ "/c/" | absolute_url | escape }})',
            ["/b", "/c/"],
        ),
        ("{{embed [[my page]]}} {{query (and [[b]] (task TODO))}}", ["my page", "b"]),
        ("[t](my note.md) [u](two words.md#a b)", ["folder/my note.md", "folder/two words.md"]),
        ("[t](a\\b.md) [t](@site/docs/c.md)", ["folder/a/b.md", "/docs/c.md"]),
        ("<details>\n\n[t](a.md)\n\n</details>", ["folder/a.md"]),
    ],
)
def test_markdown_links_resolve_against_the_folder_of_the_note(text, found):
    assert refs(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[Some Note]]", ["some note"]),
        ("[[deep/Note.md|label]]", ["deep/note.md"]),
        ("[[Note#Heading|label]] ![[Embed]]", ["note", "embed"]),
        ("[[Note^block]] [[Other#^block]]", ["note", "other"]),
        ("![[a.png]] ![[b.PDF#page=3]] ![[c.jpg|100]] ![[100|d.svg]] ![[v1.2]]", ["v1.2"]),
        ("[[../Note]] [[./Note.md]] [[/Deep/Note]]", ["./Note", "folder/Note.md", "/Deep/Note"]),
        ("[[dendron://vault/some.note#part]]", ["some.note"]),
        ("- ![[a]]\n- [x] [[b]]\n\n[^1]: [[c]]\n\n# [[d]]", ["a", "b", "c", "d"]),
        ("| [[Note\\|label]] |", ["note"]),
        ("[[CAFE\u0301]]", ["café"]),
        ("[[Dune: Part One]]", ["dune: part one"]),
        ("[[a]][[b]]", ["a", "b"]),
        ("[[1]](a.md)", ["folder/a.md"]),
        ("[see [[a]] here](b.md)", ["a"]),
    ],
)
def test_wiki_links_name_notes_without_regard_to_case(text, found):
    assert refs(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "[t](https://example.org/a.md) <https://example.org>",
        "[t](mailto:me@example.org) [t](//example.org/a.md)",
        "[t](#part) [t](?q) [t]() [[#part]] [[#part|label]] [[ ]] [[|]] [[https://example.org]]",
        "[[https://example.org|label]] [[label|https://example.org]]",
        "[^1]: a.md",
        "![t](a.png) ![t][r]\n\n[r]: b.png",
        "`[t](a.md)` `[[a]]`",
        "```\n[t](a.md) [[a]]\n```\n\n    [t](a.md)",
        "<!-- [t](a.md) [[a]] -->\n\ntext <!-- [t](a.md) --> text",
        "<!-- one\n[t](a.md)\n-->",
        "<pre>\n[t](a.md)\n\n[[a]]\n</pre>",
        "<script>\nx = [[a]]\n</script>",
        "<div title='[t](a.md)'>\n<!-- [t](a.md) -->\n</div>",
        r"\[t](a.md) \[[a]]",
        "[t](note.md#x) [t](./note#y)",
        "![alt [t](a.md)](i.png)",
        "{{< code-toggle file=hugo >}}\n[[cascade]]\n[cascade.params]\ncolor = 'red'\n{{< /code-toggle >}}",
        "a\n\n{{% code %}}\ntitle='x'\n\n[[menus.main]] # one\n\n# two\nname = 'a'\n\n[[a.'b']]\nx.y=1\n{{%/code%}}",
        "{% highlight toml %}\n[[resources]]\nsrc = '*'\n{% endhighlight %}",
        "{{< tabs >}}\n{{< code >}}\n[[a]]\nb = 1\n{{< /code >}}\n{{< /tabs >}}",
        "+++\r\n[[resources]]\r\nsrc = 'a'\r\n+++\r\ntext",
    ],
)
def test_text_that_is_no_link_to_another_note_is_ignored(text):
    extraction = extract(text)
    assert (extraction.links, extraction.problems) == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        "{{< note >}}\n[[a]]\n{{< /note >}}",
        "{{< note >}}\nSee [[a]]\nx = 1\n{{< /note >}}",
        "{{< note >}}\n[[a]]\n{{< /note >}}\nx = 1",
        "{{< note >}}\n[[a]]\n\nText follows.\n{{< /note >}}",
        "[[a]]\nx = 1\n{{< note >}}\n{{< /note >}}",
        "{{< figure >}}\n[[a]]\nx = 1",
        "{{< note >}}\n[[a]]\nx == 1\n{{< /note >}}",
        "+++\n[[a]]\nx = 1",
    ],
)
def test_a_wiki_link_beside_or_in_a_block_of_a_site_generator_stays_a_link(text):
    assert refs(text) == ["a"]


@pytest.mark.parametrize(
    ("text", "sides"),
    [
        ("[[Target|the label]]", ("target", None)),
        ("[[the label|Target#part]]", ("target", None)),
        ("[[Target#part|label]]", ("target", None)),
        ("[[lang.csharp|lang.basic]]", ("lang.csharp", None)),
        ("[[here|events.office-hours.2021.05.23]]", ("events.office-hours.2021.05.23", "here")),
        ("[[config.level|dendron://my.vault/ref.config#level]]", ("ref.config", None)),
        ("| [[Target\\|label]] |", ("target", None)),
        ("[[C# for all|lang.csharp]]", ("lang.csharp", "c# for all")),
        ("[[C# for all|dendron://my.vault/C#top]]", ("c", None)),
        ("[[a|x^2]] ", ("a", None)),
        ("[[a|version 1.2]] ", ("a", None)),
        ("[[a|v1.2]] ", ("a", None)),
        ("[[a|and / or]] ", ("a", None)),
        ("[[a|b/c]] ", ("b/c", "a")),
        ("[[a|c.md]] ", ("c.md", "c")),
        ("[[label|note^kSChN1jT6OMc]]", ("note", None)),
        ("[[Same|same]]", ("same", None)),
        ("[[|x]]", ("x", None)),
        ("[[x|]]", ("x", None)),
    ],
)
def test_the_right_side_of_a_wiki_link_is_a_label_unless_it_looks_like_a_target(text, sides):
    assert [(link.target_ref, link.or_ref) for link in extract(text).links] == [sides]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("one\n[t](note.md)", []),
        ("one\n[t](../folder/note)", []),
        ("one\n[[note]]", ["note"]),
        ("one\n[[Folder/Note]]", ["folder/note"]),
        ("---\nlinks: /folder/note.md\n---\n", []),
    ],
)
def test_a_link_to_the_note_itself_is_reported_with_its_line(text, kept):
    extraction = extract(text)
    assert [link.target_ref for link in extraction.links] == kept
    (problem,) = extraction.problems
    assert problem.endswith("refers to its own note (line 2)")


def test_paths_match_in_any_unicode_composition():
    composed, apart = "caf\u00e9.md", "cafe\u0301.md"
    (link,) = extract(f"[t]({apart})").links
    assert (link.target_ref, link.or_ref) == (f"folder/{composed}", f"/{composed}")
    assert refs("[t](caf%C3%A9.md)") == [f"folder/{composed}"]
    assert f"folder/{composed}" in extract("", id=f"folder/{apart}").names[1]
    assert extract(f"[t]({composed})", id=apart).problems


def test_a_link_out_of_the_root_is_kept_with_its_line():
    links = extract("one\n\n[t](../../a.md) [u](../ok.md)\n[v](../../../../b/)").links
    assert [(link.target_ref, link.line) for link in links] == [("../a.md", 3), ("ok.md", 3), ("../../../b/", 4)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_links_carry_file_and_line_of_the_whole_file_and_come_in_that_order(newline):
    text = newline.join(
        [
            "---",
            "title: T",
            "requires:",
            "- 12",
            "- 2",
            "---",
            "",
            "a [t](a.md)",
            "b [[b]] and",
            "c [c][r]",
            "",
            "> d",
            "> [d](d.md)",
            "",
            "[r]: c.md",
            "[e]: e.md",
        ]
    )
    links = extract(text).links
    assert {link.file for link in links} == {"folder/note.md"}
    assert [(link.line, link.target_ref) for link in links] == [
        (4, "12"),
        (5, "2"),
        (8, "folder/a.md"),
        (9, "b"),
        (10, "folder/c.md"),
        (13, "folder/d.md"),
        (16, "folder/e.md"),
    ]


@pytest.mark.parametrize(
    ("yaml", "found"),
    [
        ("requires: 165", [("165", "requires")]),
        ("requires: 165, 721", [("165", "requires"), ("721", "requires")]),
        ("requires: [165, eip-721]", [("165", "requires"), ("eip-721", "requires")]),
        ("links: [a, 'b, c']", [("a", "related"), ("b, c", "related")]),
        ("links: [{type: supports, id: a}, {id: b}]", [("a", "supports"), ("b", "related")]),
        ("links: {type: supports, id: a}", [("a", "supports")]),
        ("links: '[[Some Note|x]]'", [("some note", "related")]),
        ("links: [[b, c]]", [("b, c", "related")]),
        ("up: [[2024]]\nby: [[Smith, Jane]]", [("2024", "up"), ("smith, jane", "by")]),
        ("see:\n- [[true]]\n- [[Dune: Messiah]] # read", [("true", "see"), ("dune: messiah", "see")]),
        ("matrix: [[1, 2], [3, 4]]\ndates: [[1], [2]]", []),
        ('up: "[B](b c.md)"\naliases: [[K]]', [("folder/b c.md", "up")]),
        ("links: [../sub/, ./x]", [("./sub/", "related"), ("./folder/x", "related")]),
        ("links: [../a.md, /b.md, c/d.md]", [("a.md", "related"), ("/b.md", "related"), ("folder/c/d.md", "related")]),
        ("links: ['https://example.org', '']", []),
        ("requires:\nlinks: []\nother: a", []),
    ],
)
def test_typed_links_are_read_from_the_frontmatter(yaml, found):
    extraction = extract(f"---\n{yaml}\n---\nbody")
    assert [(link.target_ref, link.type) for link in extraction.links] == found
    assert {link.origin for link in extraction.links} <= {"typed"}
    assert not extraction.problems


def test_typed_links_carry_the_line_of_their_entry():
    yaml = "requires: a, b\nlinks:\n  - {type: x, id: c}\n  - id: d\n    type: e\n\n  - |\n    f\n  - ../../g\n"
    yaml += "more:\n  id: h"
    extraction = extract(f"---\n{yaml}\n---\n", fields=["more", "links", "requires"])
    lines = [(link.target_ref, link.line) for link in extraction.links]
    assert lines == [("a", 2), ("b", 2), ("c", 4), ("d", 5), ("f", 8), ("../g", 10), ("h", 12)]


@pytest.mark.parametrize("entry", ["[true]", "{type: supports}", "{id: a, type: 3}", "true", "[null]"])
def test_a_typed_entry_that_cannot_be_understood_is_reported(entry):
    extraction = extract(f"---\nlinks: {entry}\n---\n")
    assert extraction.links == []
    assert [problem.split(":")[0] for problem in extraction.problems] == ["links"]


def test_broken_frontmatter_loses_only_the_typed_links_and_is_reported():
    extraction = extract("---\nlinks: [a\n---\n[t](b.md)")
    assert [link.target_ref for link in extraction.links] == ["folder/b.md"]
    assert len(extraction.problems) == 1
    assert "not valid YAML" in extraction.problems[0]


def test_fields_missing_in_the_text_come_from_the_filter_fields():
    extraction = MarkdownLinks().extract(Artifact("1", {"text": "[[x]]"}), {"links": ["2"], "title": "T", "id": 1})
    assert [(link.target_ref, link.origin, link.line) for link in extraction.links] == [
        ("2", "typed", None),
        ("x", "inline", 1),
    ]
    assert extraction.names[3][:2] == ["T", "t"]


def test_the_names_of_a_note_are_in_tiers():
    front = "id: Ab1\neip: 165\ntitle: The Title\naliases: [Other, 7, /old/]\nalias: x, y\npermalink: erc/165.html"
    text = f"---\n{front}\n---\n"
    declared = ["/A/EIPS/Ab1", "/A/EIPS/Ab1/", "/erc/165", "/erc/165/", "/old", "/old/"]
    titles = ["The Title", "Other", "7", "/old/", "x", "y", "the title", "other"]
    assert extract(text, id="A/EIPS/eip-165.md", root="A").names == [
        ["A/EIPS/eip-165.md"],
        ["A/EIPS/eip-165", "a/eips/eip-165", "./A/EIPS/eip-165"],
        ["eip-165", "EIPS/eip-165", "Ab1", "165", "eips/eip-165", "ab1"],
        [*titles, "./A/EIPS/eip-165/", *(f".{place}" for place in declared)],
        ["/A/EIPS/eip-165", "/A/EIPS/eip-165.md", *(place for place in declared if place != "/old/")],
        [],
        ["/A/EIPS/eip-165/"],
        [
            "/EIPS/eip-165",
            "/EIPS/eip-165.md",
            "/EIPS/Ab1",
            "/EIPS/Ab1/",
            "/A/erc/165",
            "/A/erc/165/",
            "/A/old",
            "/A/old/",
        ],
        [],
        ["/EIPS/eip-165/", "eip 165"],
    ]
    assert extract("# README.md", id="x.md").names[3][:2] == ["README", "readme"]


@pytest.mark.parametrize(
    ("id", "tiers"),
    [
        ("a/b/index.md", {"/a/b/": 1, "/a/b": 2, "/a/b/index": 1, "/a/b/index/": 3}),
        ("a/_index.md", {"/a/": 1, "/a": 2}),
        ("a/README.md", {"/a/": 2, "/a": 3}),
        ("a/a.md", {"/a/": 3, "/a": 3, "/a/a": 1}),
        ("index.md", {"/": 1}),
        ("Readme.md", {"/": 2}),
        ("a.md", {"/a": 1, "/a/": 3}),
    ],
)
def test_the_index_note_of_a_folder_has_the_paths_of_the_folder(id, tiers):
    names = extract("", id=id).names
    found = {name: [tier for tier in range(len(names)) if f".{name}" in names[tier]] for name in tiers}
    assert found == {name: [tier] for name, tier in tiers.items()}
    # And once more for links from the root of the tree, which are looked up after those from the note.
    found = {name: [tier for tier in range(len(names)) if name in names[tier]] for name in tiers}
    assert found == {name: [tier + 3] for name, tier in tiers.items()}


def test_settings_choose_fields_and_type_and_make_the_id():
    settings = {"fields": ["see"], "inline_type": "mentions"}
    links = extract("---\nsee: a\nlinks: b\n---\n[[c]]", **settings).links
    assert [(link.target_ref, link.type) for link in links] == [("a", "see"), ("c", "mentions")]
    assert MarkdownLinks(**settings).id.startswith("MarkdownLinks(fields=('see',), inline_type='mentions', ")
    assert MarkdownLinks(**settings).id != MarkdownLinks().id
    assert isinstance(MarkdownLinks(), EdgeExtractor)


@pytest.mark.parametrize(
    "settings",
    [
        {"fields": "links"},
        {"fields": ("",)},
        {"inline_type": ""},
        {"inline_type": 3},
        {"root": 3},
        {"root": "../x"},
        {"found_root": ".."},
        {"label_first": 1},
    ],
)
def test_settings_that_cannot_work_are_refused_on_construction(settings):
    with pytest.raises(ArgumentError, match=r"fields|inline_type|root|label_first"):
        MarkdownLinks(**settings)


@pytest.mark.parametrize("raw", [7, ["list"], {"text": ["no text"]}])
def test_a_raw_value_without_text_is_an_error_that_names_the_artifact(raw):
    with pytest.raises(SourceError, match="'odd'"):
        MarkdownLinks().extract(Artifact("odd", raw), {})


@given(st.text(st.sampled_from("[]()<>!`\\|#:-/. \n\rab&"), max_size=80))
def test_links_of_any_text_stay_in_the_root_and_in_the_file(text):
    for link in extract(text, id="n.md").links:
        assert link.target_ref
        assert 1 <= link.line <= len(text.splitlines()) + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile",
    [
        "[" * 300_000,
        "![x" * 100_000,
        "[[" * 100_000,
        "a <!-- " * 50_000,
        "<a " * 90_000,
        "[a](" * 50_000,
        "> " * 50_000,
        "- " * 50_000,
        "a <![CDATA[ " * 50_000,
        "[a][" * 50_000,
        ("!" + "[" * 40 + "]" * 40) * 3_000,
        "\n".join(f"{'>' * depth} q" for depth in range(1_000)),
        "\n".join(f"{' ' * 2 * depth}- i" for depth in range(1_000)),
        "> - " * 10_000,
        ("> " * 90 + "x\n" + "y\n" * 5) * 60,
        "\n" + "| [t](#x) | b |\n" * 20_000,
        "`" + "` ``" * 50_000,
        f"[t](/{'a/' * 100_000}b.md)",
        f"[t]({'a/' * 100_000}{'../' * 100_000}b.md)",
    ],
)
def test_a_hostile_paragraph_loses_at_most_its_own_links_and_takes_no_time(hostile):
    text = f"[t](before.md)\n\n[x](x.md) {hostile}\n\n[t](after.md)"
    survey = SiteSurvey()
    began = time.process_time()
    survey.add([Artifact("folder/note.md", text)])
    survey.prepare(MarkdownLinks())
    extraction = extract(text)
    assert time.process_time() - began < PATIENCE
    found = [link.target_ref for link in extraction.links]
    assert (found[0], found[-1]) == ("folder/before.md", "folder/after.md")


@pytest.mark.slow
@pytest.mark.parametrize("gap", ["\n", "\n\n", " ", "\n- ", " | "])
def test_ten_thousand_links_in_one_note_are_read_in_any_arrangement(gap):
    text = gap.join(f"[t]({number}.md) [[n{number}]]" for number in range(5_000))
    began = time.process_time()
    extraction = extract(text)
    assert time.process_time() - began < PATIENCE
    assert (len(extraction.links), extraction.problems) == (10_000, [])
    last = text.count("\n") + 1
    assert [(link.target_ref, link.line) for link in extraction.links[-2:]] == [
        ("folder/4999.md", last),
        ("n4999", last),
    ]


def test_the_same_fault_on_many_lines_is_one_problem():
    assert extract("[t](note.md)\n" * 8).problems == [
        "the link 'note.md' refers to its own note (lines 1, 2, 3, 4, 5 and 3 more)"
    ]


@pytest.mark.slow
def test_forty_thousand_links_in_the_frontmatter_are_read_in_seconds():
    yaml = "".join(f"- 'n{number}'\n" for number in range(40_000))
    began = time.process_time()
    links = extract(f"---\nlinks:\n{yaml}---\n").links
    assert time.process_time() - began < PATIENCE
    assert [(link.target_ref, link.line) for link in links[::39_999]] == [("n0", 3), ("n39999", 40_002)]


@pytest.mark.parametrize(
    ("nested", "found"),
    [
        ("> " * 150, ["folder/b.md"]),
        ("- a\n" + "- " * 150, ["folder/b.md"]),
        ("1. " * 150, ["folder/b.md"]),
        ("[" * 150, []),
    ],
)
def test_markup_that_nests_too_deeply_is_reported_with_its_line(nested, found):
    extraction = extract(f"[t](a.md)\n\n{nested}[t](b.md)\n\n[t](c.md)")
    assert [link.target_ref for link in extraction.links] == ["folder/a.md", *found, "folder/c.md"]
    line = 3 + nested.count("\n")
    assert [problem.rpartition("(")[2] for problem in extraction.problems] == [f"line {line})"]


@pytest.mark.parametrize(
    ("yaml", "reason"),
    [
        ("a: &a [x]\nb: [*a, *a]", "alias"),
        ("a: &a [*a]", "alias"),
        ("a: " + "[" * 60_000, "the frontmatter "),
        ("a: " + "[" * 100 + "]" * 100, "nests deeper"),
        ("a: !!python/object:os.system x", "not valid YAML"),
        ("a: !!int x", "not valid YAML"),
        ("a: !!timestamp x", "not valid YAML"),
        ("a: " + "9" * 5_000, "not valid YAML"),
        ("? [a]\n: b", "not valid YAML"),
        ("a: \x01", "not valid YAML"),
    ],
)
def test_frontmatter_that_could_hang_or_crash_a_build_is_a_problem(yaml, reason):
    problems = extract(f"---\n{yaml}\n---\n").problems
    assert reason in problems[0]
    assert not any("\n" in problem for problem in problems)


def test_the_edges_of_a_function_become_derived_links():
    answer = {"REF": ["numpy", ("pypi", "anyio"), ["pypi", "anyio"], "numpy"], "PARENT": ("up",)}
    extractor = extractor_from(lambda key, fields: answer if (key, fields) == ("app", {"x": 1}) else {}, id="deps-1")
    assert extractor.extract(Artifact("app", None), {"x": 1}).links == [
        Link("numpy", "REF", "derived"),
        Link("anyio", "REF", "derived", target_source="pypi"),
        Link("up", "PARENT", "derived"),
    ]
    assert (extractor.id, isinstance(extractor, EdgeExtractor)) == ("deps-1", True)


def test_a_package_is_reached_by_any_spelling_of_its_name():
    names = extractor_from(lambda key, fields: {}, id="x").extract(Artifact("Zope.Interface", ""), {}).names
    assert names == [["Zope.Interface"], ["zope.interface", "zope-interface", "zope_interface"]]


@pytest.mark.parametrize(
    "answer", [None, ["x"], {"REF": "numpy"}, {"REF": [3]}, {"REF": [("a", "b", "c")]}, {"REF": [""]}, {3: ["a"]}]
)
def test_a_result_that_is_no_edges_is_an_error_that_names_the_extractor(answer):
    with pytest.raises(SourceError, match="deps-1"):
        extractor_from(lambda key, fields: answer, id="deps-1").extract(Artifact("a", ""), {})


@pytest.mark.parametrize(("function", "id"), [("no function", "x"), (dict, ""), (dict, None)])
def test_an_extractor_needs_a_function_and_an_id(function, id):
    with pytest.raises(ArgumentError, match=r"function|id"):
        extractor_from(function, id=id)


@pytest.mark.slow
def test_names_of_a_deep_path_and_many_aliases_take_linear_time():
    began = time.process_time()
    names = extract("", id="a/" * 50_000 + "b.md").names
    assert sum(len(name) for tier in names for name in tier) < 10**6
    aliases, links = (", ".join(f"{word}{number}" for number in range(20_000)) for word in ("alias", "link"))
    found = extract(f"---\naliases: [{aliases}]\nlinks: [{links}]\n---\n")
    assert (len(found.links), len(found.names[3])) == (20_000, 20_000 + 1)
    assert time.process_time() - began < PATIENCE


def test_a_number_of_thousands_of_digits_is_no_name():
    fields = {"id": 10**5_000, "aliases": [10**5_000], "links": [10**5_000]}
    found = MarkdownLinks().extract(Artifact("note.md", "text"), fields)
    assert found.names[1:4] == [["note", "./note"], [], ["./note/"]]
    assert found.links == []
    assert "an entry must be a name" in found.problems[0]
