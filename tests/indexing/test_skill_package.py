"""The surfaces and filter fields of skills and packages.

They equal those of `ir`, except for its documented faults.
"""

import pytest
from hypothesis import assume, given, strategies as st
from ir.strategy import Package as IrPackage, Skill as IrSkill

from airw.corpora import build
from airw.errors import ArgumentError, SourceError
from airw.indexing import Package, Skill
from airw.protocols import IndexingStrategy, RecordsOf, ask
from airw.sources import from_mapping
from airw.stores import MemoryStore
from airw.values import Artifact

WORDS = st.lists(st.sampled_from(["deploy", "Ship it.", " ", "\n\n", "a: b", "é", "{deps}"]), max_size=5).map("".join)
REQUIREMENTS = st.sampled_from(
    [
        "numpy",
        "NumPy>=1.26",
        "Scikit_Learn[extra]>=1",
        "anyio ; python_version > '3'",
        "zope.interface",
        "",
        "a @ https://x",
    ]
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "name": WORDS,
        "description": WORDS | st.none(),
        "readme": WORDS | st.none(),
        "owner": st.none() | st.just("ours"),
        "parent": st.none() | st.just("ops"),
        "deps": st.none() | st.lists(REQUIREMENTS, max_size=5),
        "path": st.just("/somewhere"),
    },
)
METADATA = st.dictionaries(
    st.sampled_from(["name", "parent", "owner", "skill_path", "year"]), st.integers(), max_size=3
)


def shape(plan):
    """Return surfaces and filter fields, with only the metadata that `ir` has, too."""
    keys = ("chunk_index", "n_chunks")
    surfaces = [
        (each.kind, each.text, each.granularity, {key: each.metadata[key] for key in keys if key in each.metadata})
        for each in plan.surfaces
        if each.text.strip()
    ]
    return surfaces, list(plan.filter_fields.items())


@given(RECORDS, METADATA)
def test_a_skill_is_decomposed_as_in_ir(record, metadata):
    expected = IrSkill().decompose("s1", record, metadata)
    assert shape(Skill().decompose(Artifact("s1", record, metadata))) == shape(expected)


@given(RECORDS, METADATA)
def test_a_package_is_decomposed_as_in_ir(record, metadata):
    """Blank texts are left out of the comparison.

    So are names with a colon at an end, which `ir` strips.
    """
    assume(not any((record.get(field) or "").isspace() for field in ("name", "description")))
    ours = Package(embed_deps=True, deps_template="Depends on: {deps}").decompose(Artifact("p1", record, metadata))
    assert shape(ours) == shape(IrPackage(embed_deps=True).decompose("p1", record, metadata))
    bare = Package().decompose(Artifact("p1", record, metadata))
    assert shape(bare) == shape(IrPackage().decompose("p1", record, metadata))


@given(st.text(max_size=8))
def test_a_text_is_the_name_of_a_skill_or_package(name):
    assert Skill().decompose(Artifact("x", name)).filter_fields["name"] == name
    assert shape(Skill().decompose(Artifact("x", name))) == shape(IrSkill().decompose("x", name))
    assert Package().decompose(Artifact("x", name.encode())).filter_fields["name"] == name


@pytest.mark.parametrize("strategy", [Skill(), Package(), Package(embed_deps=True)])
def test_they_are_hashable_values_whose_id_contains_every_setting(strategy):
    assert isinstance(strategy, IndexingStrategy)
    assert strategy.id == repr(strategy)
    assert hash(strategy) == hash(eval(strategy.id))


@pytest.mark.parametrize("strategy", [Skill(), Package()])
def test_a_record_without_a_name_has_the_id_of_its_artifact_as_name(strategy):
    for record in ({}, {"name": None}):
        plan = strategy.decompose(Artifact("p1", record))
        assert plan.filter_fields["name"] == "p1"
        assert [surface.text for surface in plan.surfaces] == ["p1"]


@pytest.mark.parametrize("strategy", [Skill(), Package(embed_deps=True)])
def test_a_record_without_text_has_no_surface(strategy):
    record = {"name": " ", "description": "\n", "readme": " \n\t", "deps": ["", " ; extra"], "parent": "ops"}
    assert strategy.decompose(Artifact("p1", record)).surfaces == []


def test_the_body_of_a_skill_is_not_indexed():
    plan = Skill().decompose(
        Artifact("s", {"name": "deploy", "description": "Ship it.", "body": "secret", "text": "t"})
    )
    assert [surface.text for surface in plan.surfaces] == ["deploy\n\nShip it."]


def test_the_surfaces_of_a_package_are_its_description_then_readme_chunks_then_its_deps():
    readme = "\n\n".join(f"Paragraph {number} says something." for number in range(30))
    record = {"name": "walker", "description": "Walks.", "readme": readme, "deps": ["NumPy>=1.26", "anyio", "numpy"]}
    strategy = Package(chunk_size=200, overlap=40, embed_deps=True, deps_template="{deps} ({names})")
    about, *chunks, deps = strategy.decompose(Artifact("walker", record)).surfaces
    assert (about.kind, about.text) == ("description", "walker: Walks.")
    assert (deps.kind, deps.text, deps.granularity) == ("deps", "numpy, anyio ({names})", "field")
    assert len(chunks) > 4
    for index, chunk in enumerate(chunks):
        start, end = chunk.metadata["start"], chunk.metadata["end"]
        assert (chunk.kind, chunk.granularity) == ("readme_chunk", "chunk")
        assert chunk.text == readme[start:end]
        assert (chunk.metadata["chunk_index"], chunk.metadata["n_chunks"]) == (index, len(chunks))


@pytest.mark.parametrize(
    ("strategy", "record", "field"),
    [
        (Skill(), {"name": 7}, "name"),
        (Skill(), {"description": ["x"]}, "description"),
        (Package(), {"name": b"x"}, "name"),
        (Package(), {"description": {"en": "x"}}, "description"),
        (Package(), {"readme": 3.5}, "readme"),
        (Package(), {"deps": "numpy"}, "deps"),
        (Package(), {"deps": ["numpy", None]}, "deps"),
        (Package(), {"deps": {"numpy": ">=1"}}, "deps"),
    ],
)
def test_a_field_that_is_no_text_is_an_error_that_names_it(strategy, record, field):
    with pytest.raises(SourceError, match=f"the field '{field}' of 'odd' must be a") as caught:
        strategy.decompose(Artifact("odd", record))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("strategy", [Skill(), Package()])
@pytest.mark.parametrize("raw", [None, 7, ["name"], b"\xff"])
def test_a_raw_value_that_is_neither_fields_nor_text_is_an_error(strategy, raw):
    with pytest.raises(SourceError, match="'odd'"):
        strategy.decompose(Artifact("odd", raw))


@pytest.mark.parametrize(
    "parameters",
    [
        {"chunk_size": 0},
        {"overlap": 1500},
        {"embed_deps": 1},
        {"embed_deps": None},
        {"deps_template": "no place"},
        {"deps_template": None},
    ],
)
def test_parameters_that_cannot_work_are_refused_on_construction(parameters):
    with pytest.raises(ArgumentError, match=next(iter(parameters))):
        Package(**parameters)


async def test_hits_have_an_index_among_all_surfaces_and_one_among_the_chunks():
    readme = "alpha beta gamma.\n\n" * 6
    source = from_mapping(
        {"walker": {"name": "walker", "readme": readme, "deps": ["anyio"]}},
        name="packages",
        strategy=Package(chunk_size=40, overlap=0, embed_deps=True),
    )
    corpus = await build(source, store=MemoryStore(), embedder="light")
    (records,) = await ask(corpus.store, RecordsOf(["walker"]))
    by_kind = {record.surface_index: record.surface_kind for record in records}
    last = len(by_kind) - 1
    assert by_kind == {0: "description", last: "deps"} | dict.fromkeys(range(1, last), "readme_chunk")
    chunks = [record for record in records if record.surface_kind == "readme_chunk"]
    assert all(record.surface_index == record.metadata["chunk_index"] + 1 for record in chunks)
