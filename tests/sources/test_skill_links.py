"""Links of skills and records, which somebody wrote, and extractors over each source."""

import json

import pytest

import airw
from airw import build
from airw.links import CorpusGraph, DependencyLinks, MarkdownLinks, SharedNames, TitleMentions, extractor_from
from airw.protocols import ArtifactIds, Edges, ask
from airw.sources import (
    from_files,
    from_jsonl,
    from_mapping,
    from_mcp_tools,
    from_md_reports,
    from_notes,
    from_packages,
    from_records,
    from_skills,
)  # fmt: skip
from airw.stores import MemoryStore
from airw.values import ArtifactRef
from tests.support.reading import read, write


def skill(name, body="", **fields):
    front = {"name": name, "description": f"About {name}.", **fields}
    return "---\n" + "".join(f"{key}: {json.dumps(value)}\n" for key, value in front.items()) + f"---\n{body}\n"


async def links_of(source, **options):
    """Return the edges of a corpus, and the links that lead nowhere."""
    async with await build(source, store=MemoryStore(), embedder="light", **options) as corpus:
        graph, ids = CorpusGraph(corpus), sorted(await ask(corpus.store, ArtifactIds()))
        edges = [(edge.source, edge.type, edge.target) for group in await graph.neighbors(ids) for edge in group]
        return edges, [each.link.target_ref for each in await graph.unresolved_links()]


async def test_the_folder_of_a_skill_is_no_parent(tmp_path):
    places = {"plugins/audio/skills/mix": "mix", "plugins/video/skills/audio": "audio", "plugins/text/spell": "spell"}
    write(tmp_path, {f"{place}/SKILL.md": skill(name) for place, name in places.items()})
    assert await links_of(from_skills(roots=tmp_path)) == ([], [])
    assert await links_of(from_skills(roots=tmp_path, edge_extractor=DependencyLinks())) == ([], [])
    assert await links_of(from_skills(roots=tmp_path, edge_extractor=TitleMentions())) == ([], [])
    write(tmp_path, {"plugins/text/spell/SKILL.md": skill("spell", parent="mix")})
    assert await links_of(from_skills(roots=tmp_path)) == ([("spell", "PARENT", "mix")], [])


@pytest.mark.parametrize(
    ("body", "fields", "edges"),
    [
        ("See [b](../beta/SKILL.md#use).", {}, [("related", "beta")]),
        ("See [b](../beta/) and [b](../beta).", {}, [("related", "beta")]),
        ("See [[beta]] and [[Gamma Rays|rays]].", {}, [("related", "beta"), ("related", "Gamma Rays")]),
        ("[deep](nested/delta/skill.md)", {}, [("related", "delta")]),
        ("", {"requires": ["beta", "Gamma Rays"]}, [("requires", "beta"), ("requires", "Gamma Rays")]),
        ("", {"skills": "beta, delta"}, [("skills", "beta"), ("skills", "delta")]),
        (
            "",
            {"links": [{"id": "beta", "type": "supports"}, "[[delta]]"]},
            [("supports", "beta"), ("related", "delta")],
        ),
        ("`[b](../beta/SKILL.md)` [web](https://x.y/SKILL.md) [top](#use)", {}, []),
        ("[forms](references/forms.md) [run](scripts/run.py) [folder](references/) [[forms]]", {}, []),
    ],
)
@pytest.mark.parametrize("extractor", [None, MarkdownLinks()])
async def test_what_a_skill_refers_to_becomes_a_link_to_that_skill(body, fields, edges, extractor, tmp_path):
    write(tmp_path, {"s/alpha/SKILL.md": skill("alpha", body, **fields), "s/beta/SKILL.md": skill("beta")})
    write(tmp_path, {"s/rays/SKILL.md": skill("Gamma Rays"), "s/alpha/nested/delta/skill.md": skill("delta")})
    write(tmp_path, {"s/alpha/references/forms.md": "forms", "s/alpha/scripts/run.py": "pass", "s/alpha/forms.md": ""})
    found, unresolved = await links_of(from_skills(roots=tmp_path, edge_extractor=extractor))
    assert (sorted(found), unresolved) == (sorted(("alpha", *edge) for edge in edges), [])


async def test_links_lead_to_the_skill_at_that_place_also_below_another_root(tmp_path):
    write(
        tmp_path,
        {"one/x/SKILL.md": skill("x"), "two/x/SKILL.md": skill("x"), "two/y/SKILL.md": skill("y", "[x](../x/)")},
    )
    write(tmp_path, {"one/z/SKILL.md": skill("z", "[y](../../two/y/SKILL.md)")})
    edges, unresolved = await links_of(from_skills(roots=[tmp_path / "one", tmp_path / "two"]))
    assert (edges, unresolved) == ([("y", "related", "x@two"), ("z", "related", "y")], [])


async def test_a_link_of_a_skill_that_leads_nowhere_is_reported_below_the_root(tmp_path):
    write(tmp_path, {"a/SKILL.md": skill("a", "[b](../b/SKILL.md) [c](notes/c.md) [[gone]]", requires="lost")})
    edges, unresolved = await links_of(from_skills(roots=tmp_path))
    assert (edges, sorted(unresolved)) == ([], ["a/notes/c.md", "b/SKILL.md", "gone", "lost"])


async def test_only_a_change_of_a_link_in_the_body_indexes_a_skill_again(tmp_path):
    store = MemoryStore()

    async def count_updates(body):
        write(tmp_path, {"a/SKILL.md": skill("a", body), "b/SKILL.md": skill("b")})
        report = (await build(from_skills(roots=tmp_path, embedder="light"), store=store)).report
        return report.added, report.updated

    assert await count_updates("One. [b](../b/)") == (2, 0)
    assert await count_updates("Two.\n\nMore of it. [b](../b/SKILL.md)") == (0, 0)
    assert await count_updates("Three.") == (0, 1)
    [edges] = await ask(store, Edges(["a"]))
    assert edges == []


async def test_skills_of_a_function_have_the_links_of_their_bodies_and_fields():
    skills = [
        {"name": "a", "body": "[b](../b/SKILL.md) [[c]] [x](notes.md)", "links": [["other", "z"]]},
        {"name": "b", "requires": "c", "skills": ["a"]},
        {"name": "c", "links": {"supports": ["a"]}},
    ]
    edges, _ = await links_of(from_skills(fetcher=lambda: skills))
    other = ArtifactRef("other", "z")
    assert set(edges) == {
        *(("a", "related", target) for target in ("b", "c", other)),
        ("b", "requires", "c"),
        ("b", "skills", "a"),
        ("c", "supports", "a"),
    }


# Records


@pytest.mark.parametrize(
    ("fields", "edges"),
    [
        ({"links": ["b", 7]}, [("related", "b"), ("related", "7")]),
        ({"links": "b"}, [("related", "b")]),
        ({"links": "b, c d"}, [("related", "b"), ("related", "c d")]),
        ({"links": 7}, [("related", "7")]),
        ({"links": "[[b]]"}, [("related", "b")]),
        ({"links": [["b"], "[[c d|label]]"]}, [("related", "b"), ("related", "c d")]),
        ({"links": {"supports": ["b"], "cites": "c d, 7"}}, [("supports", "b"), ("cites", "c d"), ("cites", "7")]),
        ({"links": {"id": "b", "type": "cites"}}, [("cites", "b")]),
        ({"links": [{"id": "b", "type": "cites"}, {"id": 7}]}, [("cites", "b"), ("related", "7")]),
        ({"requires": "b", "links": ["b"]}, [("requires", "b"), ("related", "b")]),
        ({"requires": ["[[c d]]", {"id": "b", "type": "cites"}]}, [("requires", "c d"), ("cites", "b")]),
        ({"links": ["https://x.y/z", "a"], "title": "b"}, []),
    ],
)
async def test_links_of_records_have_the_forms_of_frontmatter(fields, edges, tmp_path):
    rows = [{"id": "a", "text": "alpha", **fields}, *({"id": id, "text": "other"} for id in ("b", "c d", "7"))]
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    sources = [from_records(rows, name="r"), from_jsonl(tmp_path / "x.jsonl")]
    for source in [*sources, from_mapping({row["id"]: row for row in rows}, name="m")]:
        found, unresolved = await links_of(source)
        assert (sorted(found), unresolved) == (sorted(("a", *edge) for edge in edges), [])


@pytest.mark.parametrize("field", ["links", "requires"])
@pytest.mark.parametrize("value", [True, [None], [{"name": "b"}], {"cites": [True]}, [["a", "b", "c"]]])
async def test_an_entry_of_another_kind_is_a_problem_that_names_the_field(field, value):
    source = from_records([{"id": "a", "text": "alpha", field: value}], name="r", embedder="light")
    async with await build(source, store=MemoryStore()) as corpus:
        [problem] = corpus.report.problems
    assert (problem.item, problem.lost) == ("a", False)
    assert problem.reason.startswith(f"{field}: an entry must be an id, or a mapping with id and type, not ")


# Extractors

TEXT = "# Beta Tool\n\nUsed after Alpha Tool, by Hedy Lamarr. See [alpha](alpha.md)."
PROJECT = '[project]\nname = "beta"\ndescription = "x"\nreadme = "README.md"\ndependencies = ["alpha"]\n'


def make_sources(root):
    write(root, {"notes/alpha.md": "# Alpha Tool\n\nBy Hedy Lamarr.", "notes/beta.md": TEXT})
    write(root, {"g/p/docs/alpha.md": "# Alpha Tool", "g/p/docs/beta.md": TEXT})
    write(root, {"s/alpha/SKILL.md": skill("alpha", "By Hedy Lamarr."), "s/beta/SKILL.md": skill("beta", TEXT)})
    write(root, {"p/beta/pyproject.toml": PROJECT, "p/beta/README.md": TEXT, "p/alpha/setup.cfg": "[metadata]\n"})
    write(root, {"x.jsonl": '{"id": "alpha", "text": "Alpha Tool"}\n{"id": "beta", "title": "B", "body": "Alpha"}\n'})
    fields = [{"id": "alpha", "title": "Alpha Tool"}, {"id": "beta", "summary": TEXT, "year": 2026, "text": None}]
    return {
        "notes": lambda **options: from_notes(root / "notes", **options),
        "files": lambda **options: from_files(root / "notes", **options),
        "reports": lambda **options: from_md_reports(projects_root=root, **options),
        "skills": lambda **options: from_skills(roots=root / "s", **options),
        "skills of a function": lambda **options: from_skills(fetcher=lambda: [{"name": "x", "body": TEXT}], **options),
        "projects": lambda **options: from_packages(root=root / "p", **options),
        "jsonl": lambda **options: from_jsonl(root / "x.jsonl", **options),
        "records": lambda **options: from_records(fields, name="r", **options),
        "mapping": lambda **options: from_mapping({"a": TEXT, "b": {"x": "y"}, "c": b"bytes"}, name="m", **options),
        "tools": lambda edge_extractor: from_mcp_tools([{"name": "ping", "description": TEXT, "inputSchema": {}}]),
    }


EXTRACTORS = [
    MarkdownLinks(), TitleMentions(), SharedNames(), SharedNames(inner=TitleMentions()), DependencyLinks(),
    extractor_from(lambda name, _: {"REF": ["alpha"] if name == "beta" else []}, id="alpha-1"),
]  # fmt: skip


@pytest.mark.parametrize("extractor", EXTRACTORS, ids=lambda extractor: type(extractor).__name__)
async def test_every_extractor_reads_every_source(extractor, tmp_path):
    for kind, make in make_sources(tmp_path).items():
        source = make(edge_extractor=extractor)
        items = [item.id for item in await read(source) if isinstance(item, airw.Artifact)]
        async with await build(
            source, store=MemoryStore(), embedder="light", edge_extractor=extractor, on_error="skip"
        ) as corpus:
            assert [problem for problem in corpus.report.problems if problem.lost] == [], kind
            assert sorted(await ask(corpus.store, ArtifactIds())) == sorted(items), kind


@pytest.mark.parametrize("kind", ["skills", "projects"])
async def test_titles_and_links_are_found_in_the_texts_of_skills_and_packages(kind, tmp_path):
    edges, _ = await links_of(make_sources(tmp_path)[kind](edge_extractor=TitleMentions()))
    assert ("beta", "mentions", "alpha") in edges
