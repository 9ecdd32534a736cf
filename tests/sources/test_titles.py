"""The titles of notes: a field, a heading of the first level, or the name of the file."""

import time

import pytest

from airw import build
from airw.protocols import Edges, RecordsOf, ask
from airw.sources import from_md_reports, from_notes
from airw.stores import MemoryStore
from tests.support.reading import read, write
from tests.support.waiting import PATIENCE

HEADINGS = [
    ("# The *first* heading ##\n\ntext\n\n# Second", "The first heading"),
    ("Intro.\n\n# Only\n\n## Section", "Only"),
    ("## Section\n\n# Only", "Only"),
    ("Intro.\n\nOnly\r\n====\r\n\nmore", "Only"),
    ("Leading\n===\n\n# Second", "Leading"),
    ("Intro.\n\n<h1 align='center'>\n  Only <i>one</i>\n</h1>\n\nmore", "Only one"),
    ("<div>\n    <H1>Leading</H1>\n</div>\n\n# Second", "Leading"),
    ("<p><img src=a.png></p>\n\n---\n\n![a](b.png)\n# ![logo](c.png)\n<!-- c -->\n# Leading\n# Second", "Leading"),
    ("[[embed]]: x\n\n# Only", "Only"),
    ("```sh\n# code\n```\n\nIntro.\n\n# Only", "Only"),
    ("{% highlight sh %}\n# code\n{% endhighlight %}\n\nIntro.\n\n# Only", "Only"),
]
NO_HEADINGS = [
    "Intro.\n\n# One\n\ntext\n\n# Two",
    "Intro.\n\nOne\n===\n\n<h1>Two</h1>",
    "Intro.\n\n## Section",
    "#tag\n\n####### seven",
    "Intro.\n\n```sh\n# code\n```",
    "Intro.\n\n~~~~\n# code\n~~~\n",
    "Intro.\n\n    # code\n\n    <h1>code</h1>",
    "Intro.\n\n<pre>\n# code\n</pre>",
    "Intro.\n\n{{< highlight sh >}}\n# code\n{{< /highlight >}}",
    "Intro.\n\n```html\n<h1>code</h1>\n```\n\nUse `<h1>code</h1>`.",
    "Intro.\n<!--\n# hidden\n-->",
    "- # item\n> # quote\n\n===",
    "# \n\n#",
]


@pytest.mark.parametrize(("text", "title"), [*HEADINGS, *((text, "stem") for text in NO_HEADINGS)])
async def test_a_title_is_a_heading_that_leads_or_is_the_only_one_else_the_stem(tmp_path, text, title):
    [note] = await read(from_notes(write(tmp_path, {"sub/stem.md": text})))
    assert note.metadata["title"] == title


@pytest.mark.parametrize("name", ["index.md", "README.md", "_index.md"])
async def test_a_folder_note_without_a_title_has_its_stem(tmp_path, name):
    [note] = await read(from_notes(write(tmp_path, {f"sub/{name}": "Intro.\n\n## Section"})))
    assert note.metadata["title"] == name.removesuffix(".md")


async def test_links_search_and_metadata_know_the_same_title(tmp_path):
    write(
        tmp_path, {"a.md": "Intro.\n\n# The Only\n\n## S", "b.md": "[[the only]] [[S]]", "c.md": "+++\n+++\nx\n\n# C C"}
    )
    async with build(from_notes(tmp_path), store=MemoryStore(), embedder="light") as corpus:
        [edge] = (await ask(corpus.store, Edges(["b.md"])))[0]
        assert edge.target == "a.md"
        for name, title in [("a.md", "The Only"), ("c.md", "C C")]:
            [[description, *_]] = await ask(corpus.store, RecordsOf([name]))
            assert (description.metadata["title"], description.text.split("\n")[0]) == (title, title)


async def test_a_report_has_the_title_of_its_only_heading(tmp_path):
    write(tmp_path, {"group/project/docs/a.md": "Intro.\n\n# Only"})
    [report] = await read(from_md_reports(projects_root=tmp_path))
    assert report.metadata["title"] == "Only"


REPEATED = ["<h1>", "<h1<a\n", "<h1><a>", "<h1>\n", "<b>\n<h1>x</h1", "<pre ", "{% highlight ", "```\n", "````\n```\n"]
REPEATED += ["<!--", "# ![x](y)\n", "![x](y)\n", "a\n= x\n", "a\n===\n", "=\n"]


@pytest.mark.slow
@pytest.mark.parametrize("repeated", REPEATED)
async def test_the_title_of_any_text_is_found_in_seconds(tmp_path, repeated):
    write(tmp_path, {"a.md": f"{repeated * (1_900_000 // len(repeated))}\n# a\n\n# b"})
    began = time.process_time()
    await read(from_notes(tmp_path))
    assert time.process_time() - began < PATIENCE
