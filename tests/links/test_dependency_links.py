"""Links from fields: dependencies of packages and parents of skills, as in `ir`."""

import ir
import pytest
from hypothesis import given, settings, strategies as st
from ir import graph as ir_graph

from airw import links
from airw.corpora import build, open_corpus
from airw.indexing import Package
from airw.links import DependencyLinks, default_edge_extractor, extractor_from, extractor_from_spec, extractor_spec
from airw.protocols import EdgeExtractor, Edges, Referrers, UnresolvedLinks, ask
from airw.sources import from_mapping, from_packages, from_skills
from airw.stores import MemoryStore
from airw.values import Artifact, Link
from tests.support.drawing import examples

NAMES = st.text(st.sampled_from("aAbB-_.12"), max_size=4)
REQUIREMENTS = st.builds("{0}{1}{2}{3}".format, st.sampled_from(["", " "]), NAMES, st.sampled_from(
    ["", "[x]", ">=1", " ; python_version<'4'", "@git+https://x.y/z", "(1)", "~=1", "!=2", "===3", "\t", "\u00e9", "İ"]
), st.sampled_from(["", "[y]>2", "\n"]))  # fmt: skip
ODD = st.one_of(st.none(), st.booleans(), st.integers(-1, 1), st.text(max_size=3), st.dictionaries(NAMES, NAMES))
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "deps": st.lists(REQUIREMENTS | ODD) | st.tuples(REQUIREMENTS, REQUIREMENTS) | ODD,
        "parent": NAMES | ODD,
        "name": NAMES,
    },
)


@settings(max_examples=examples(300))
@given(NAMES, FIELDS)
def test_the_links_of_any_fields_are_those_of_ir(artifact_id, fields):
    assert default_edge_extractor(artifact_id, fields) == ir.default_edge_extractor(artifact_id, fields)


def test_the_five_types_have_the_names_of_ir():
    names = ("NEXT", "PREV", "PARENT", "CHILD", "REF")
    assert [getattr(links, name) for name in names] == [getattr(ir_graph, name) for name in names]


def test_it_is_an_extractor_with_a_specification():
    assert isinstance(default_edge_extractor, EdgeExtractor)
    assert extractor_from_spec(extractor_spec(DependencyLinks())) == default_edge_extractor
    found = default_edge_extractor.extract(Artifact("App", None), {"deps": ["NumPy>=1", "app"], "parent": "Tools"})
    assert found.links == [Link("numpy", "REF", "derived"), Link("Tools", "PARENT", "derived")]


PACKAGES = {
    "My.Lib": {"deps": ["zope_interface>=5", "NumPy"]},
    "app": {"deps": ["my-lib[fast]; python_version>'3'", "My_Lib", "app"]},
    "zope.interface": {},
}


@pytest.mark.parametrize("extractor", [default_edge_extractor, extractor_from(default_edge_extractor, id="deps")])
async def test_a_requirement_leads_to_the_package_in_any_spelling(extractor):
    store = MemoryStore()
    source = from_mapping(PACKAGES, name="packages", strategy=Package(), embedder="light")
    await build(source, store=store, edge_extractor=extractor)
    found = await ask(store, Edges(["My.Lib", "app", "zope.interface"]))
    assert [[(edge.target, edge.type) for edge in edges] for edges in found] == [
        [("zope.interface", "REF")],
        [("My.Lib", "REF")],
        [],
    ]
    assert [each.link.target_ref for each in await ask(store, UnresolvedLinks())] == ["numpy"]
    assert await ask(store, Referrers(["numpy"])) == [["My.Lib"]]


async def test_packages_come_with_their_dependencies(tmp_path):
    for name, deps in (("one", '["two>=1"]'), ("two", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text(f'[project]\nname = "{name}"\ndependencies = {deps}\n')
    store = MemoryStore()
    await build(from_packages(root=tmp_path, embedder="light"), store=store)
    [edges, _] = await ask(store, Edges(["one", "two"]))
    assert [(edge.target, edge.type) for edge in edges] == [("two", "REF")]


async def test_skills_come_with_their_parents_and_without_their_bodies():
    skills = [{"name": "deploy", "description": "Ships.", "parent": "ops", "body": "x"}, {"name": "ops"}]
    source = from_skills(fetcher=lambda: skills, embedder="light")
    assert all("body" not in item.raw for item in [item async for item in source.items()])
    given = from_skills(fetcher=lambda: skills, edge_extractor=DependencyLinks())
    assert [item async for item in given.items()] == [item async for item in source.items()]
    store = MemoryStore()
    await build(source, store=store)
    [edges] = await ask(store, Edges(["ops"], "in"))
    assert [(edge.source, edge.type) for edge in edges] == [("deploy", "PARENT")]


@pytest.mark.asyncio_only
async def test_a_corpus_opened_by_name_finds_the_dependencies_of_upserted_artifacts(tmp_path):
    source = from_mapping(PACKAGES, name="packages", strategy=Package(), edge_extractor=default_edge_extractor)
    async with build(source, store=tmp_path / "p.airw", embedder="light"):
        pass
    async with open_corpus(tmp_path / "p.airw") as corpus:
        await corpus.upsert({"new": {"deps": ["MY_LIB"]}})
        [edges] = await ask(corpus.store, Edges(["new"]))
    assert [edge.target for edge in edges] == ["My.Lib"]
