"""Catalogues of tools: their forms, the searched fields, and which changes index again."""

import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from airw.corpora import build
from airw.embedders import embedder_from
from airw.errors import ArgumentError, ArgumentKindError, SourceError
from airw.indexing import Skill, WholeText
from airw.protocols import ArtifactIds, RecordsOf, ask
from airw.sources import from_mcp_tools
from airw.stores import MemoryStore
from airw.values import Artifact, ItemProblem
from tests.support.reading import read

SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "description": "zebra"}, "depth": {}}}
PLAIN = {"name": "list_files", "description": "List a folder."}


@dataclass(frozen=True, slots=True)
class Slotted:
    name: str
    description: str | None = None
    inputSchema: dict | None = None  # noqa: N815 - as on the wire


def tools_now():
    return [{**PLAIN, "inputSchema": SCHEMA}]


async def tools_later():
    return {"list_files": {"description": "List a folder.", "inputSchema": SCHEMA}}


async def tools_streamed():
    yield {**PLAIN, "inputSchema": SCHEMA}


@pytest.mark.parametrize(
    "tools",
    [
        [{**PLAIN, "inputSchema": SCHEMA}],
        [{**PLAIN, "input_schema": SCHEMA, "inputSchema": None}],
        [{**PLAIN, "parameters": SCHEMA, "annotations": {"readOnlyHint": True}}],
        [{"type": "function", "function": {**PLAIN, "parameters": SCHEMA}}],
        [{"type": "function", **PLAIN, "parameters": SCHEMA}],
        [Slotted(**PLAIN, inputSchema=SCHEMA)],
        (SimpleNamespace(**PLAIN, parameters=SCHEMA, fn=print),),
        [SimpleNamespace(type="function", function=SimpleNamespace(**PLAIN, parameters=SCHEMA))],
        {"list_files": {"description": "List a folder.", "parameters": SCHEMA}},
        {"list_files": {**PLAIN, "name": "", "parameters": SCHEMA}},
        [SimpleNamespace(**PLAIN, parameters=SCHEMA, function=print)],
        {"alias": {**PLAIN, "parameters": SCHEMA}},
        {"list_files": SimpleNamespace(description="List a folder.", parameters=SCHEMA)},
        tools_now,
        tools_later,
        tools_streamed,
        f"{__name__}:tools_now",
    ],
)
async def test_a_tool_is_the_same_in_every_form(tools, monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, SimpleNamespace(tools_now=tools_now))
    raw = {**PLAIN, "parameters": SCHEMA}
    assert await read(from_mcp_tools(tools)) == [Artifact("list_files", raw, {"param_names": ["depth", "path"]})]


async def test_name_and_description_are_searched_and_the_schema_is_not():
    source = from_mcp_tools([{**PLAIN, "inputSchema": SCHEMA}, {"name": "ping"}], embedder="light")
    assert (source.name, source.indexing_strategy) == ("tools", Skill())
    corpus = await build(source, store=MemoryStore())
    records = {found[0].artifact_id: found for found in await ask(corpus.store, RecordsOf(["list_files", "ping"]))}
    assert [record.text for record in records["list_files"]] == ["list_files\n\nList a folder."]
    assert [record.text for record in records["ping"]] == ["ping"]
    assert await corpus.search("zebra", mode="lexical") == []
    (hit,) = await corpus.search("folder", mode="lexical", filter={"param_names": {"$contains": "path"}})
    assert hit.metadata["param_names"] == ["depth", "path"]


@pytest.mark.parametrize("schema", [None, {}, {"properties": ["x"]}, {"properties": None}, {"type": "object"}])
async def test_a_schema_that_names_no_parameters_has_none(schema):
    (tool,) = await read(from_mcp_tools([{"name": "ping", "inputSchema": schema}]))
    assert tool.metadata == {"param_names": []}


async def test_only_a_change_of_name_description_or_schema_indexes_a_tool_again():
    embedded, outcomes, store = [], [], MemoryStore()

    def embed(texts):
        embedded.extend(texts)
        return [[1.0] * 4] * len(texts)

    counting = embedder_from(embed, id="counting", dim=4)
    other = {"properties": {"depth": {}, "path": {"description": "zebra", "type": "string"}}, "type": "object"}
    for tool in (
        {**PLAIN, "inputSchema": SCHEMA},
        {**PLAIN, "inputSchema": SCHEMA, "title": "Files", "_meta": {"n": 1}},  # unrelated fields
        {**PLAIN, "parameters": other},  # the same in another order, under another name
        {**PLAIN, "parameters": {**SCHEMA, "required": ["path"]}},
        {**PLAIN, "description": "List a directory.", "parameters": {**SCHEMA, "required": ["path"]}},
    ):
        corpus = await build(from_mcp_tools([tool], embedder=counting), store=store)
        outcomes.append(corpus.report.added + corpus.report.updated)
    assert outcomes == [1, 0, 0, 1, 1]
    assert embedded == ["list_files\n\nList a folder.", "list_files\n\nList a directory."]


class Hostile:
    """A tool whose description cannot be read."""

    name = "hostile"

    @property
    def description(self):
        """Fail."""
        raise RuntimeError("no\nluck")


@pytest.mark.parametrize(
    ("tool", "item", "words"),
    [
        ({"description": "Nameless."}, "tools[1]", "a tool needs a name, a string that is not blank"),
        ({"name": " "}, "tools[1]", "has ' '"),
        ({"name": 3}, "tools[1]", "has 3"),
        (SimpleNamespace(description="x"), "tools[1]", "a tool needs a name"),
        ({"type": "function", "function": {"description": "x"}}, "tools[1]", "a tool needs a name"),
        ("ping", "tools[1]", "a tool must be a mapping or an object with a name, not 'ping'"),
        (None, "tools[1]", "not None"),
        (Hostile(), "tools[1]", "the tool cannot be read: RuntimeError: no luck"),
        ({"name": "x", "description": ["y"]}, "x", "the description of the tool must be a string, not ['y']"),
        ({"name": "x", "inputSchema": ["y"]}, "x", "the schema of the tool must be a mapping, as in JSON, not ['y']"),
        (dict(PLAIN), "list_files", "at position 1 is already at position 0"),
    ],
)
async def test_a_tool_that_cannot_be_indexed_ends_the_build_or_is_reported_by_name(tool, item, words):
    source = from_mcp_tools([PLAIN, tool, {"name": "ping"}], embedder="light")
    _, problem, ping = await read(source)
    assert isinstance(problem, ItemProblem)
    assert (problem.item, problem.lost, words in problem.reason) == (item, True, True)
    assert "\n" not in problem.reason
    assert ping.id == "ping"
    with pytest.raises(SourceError) as caught:
        await build(source, store=MemoryStore())
    assert item in str(caught.value)
    assert words in str(caught.value)
    corpus = await build(source, store=MemoryStore(), on_error="skip")
    assert await ask(corpus.store, ArtifactIds()) == ["list_files", "ping"]
    assert corpus.report.problems == (problem,)


async def test_a_duplicate_tool_in_a_mapping_is_a_problem():
    first, second = await read(from_mcp_tools({"a": PLAIN, "b": PLAIN}))
    assert (first.id, second.item) == ("list_files", "list_files")
    assert "server.tool" in second.reason


@pytest.mark.parametrize("tools", [None, 3, iter([PLAIN]), (tool for tool in [PLAIN])])
def test_a_value_without_tools_or_that_can_be_read_only_once_is_refused_on_construction(tools):
    with pytest.raises(ArgumentKindError, match="tools"):
        from_mcp_tools(tools)


def test_a_string_that_is_no_reference_and_an_invalid_name_are_refused_on_construction():
    with pytest.raises(ArgumentError, match="module:attribute"):
        from_mcp_tools("tools")
    with pytest.raises(ArgumentError, match="name"):
        from_mcp_tools([PLAIN], name="a/b")


async def test_another_strategy_reads_the_same_fields():
    corpus = await build(
        from_mcp_tools([PLAIN], name="mine", strategy=WholeText(text_key="description"), embedder="light"),
        store=MemoryStore(),
    )
    assert [record.text for record in (await ask(corpus.store, RecordsOf(["list_files"])))[0]] == ["List a folder."]
