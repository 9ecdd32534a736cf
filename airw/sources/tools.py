"""Catalogues of tools, as clients of the Model Context Protocol and of language models describe them."""

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airw._base.messages import error_text, short_repr
from airw.indexing import Skill
from airw.protocols import Embedder, IndexingStrategy
from airw.sources.records import Fetched, Fetcher, check_records
from airw.sources.source import CorpusSource, Item
from airw.values import Artifact, ItemProblem

_SCHEMAS = ("parameters", "inputSchema", "input_schema")
_PLAIN = (str, bytes, int, float, list, tuple, type(None))


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A tool of a mapping, whose key names it where it does not do so itself."""

    key: object
    tool: object


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """One reading of the tools."""

    source: str
    positions: dict[str, int] = field(default_factory=dict)

    def items(self, given: object, position: int) -> list[Item]:
        where = f"{self.source}[{position}]"
        try:
            item = _artifact(given, where)
        except Exception as error:  # noqa: BLE001 - a tool of somebody else's class; its attributes may do anything
            item = ItemProblem(where, f"the tool cannot be read: {error_text(error)}")
        if isinstance(item, Artifact) and (first := self.positions.setdefault(item.id, position)) != position:
            taken = f"the name {item.id!r} at position {position} is already at position {first}, counted from 0"
            item = ItemProblem(item.id, f"{taken}: say whose it is, as in 'server.tool'")
        return [item]


def _artifact(given: object, where: str) -> Item:
    key, tool = (given.key, given.tool) if isinstance(given, _Keyed) else (None, given)
    if isinstance(tool, _PLAIN):
        return ItemProblem(where, f"a tool must be a mapping or an object with a name, not {short_repr(tool)}")
    if _field(tool, "type") == "function" and (inner := _field(tool, "function")) is not None:
        tool = inner
    name = _field(tool, "name") or key
    if not isinstance(name, str) or not name.strip():
        return ItemProblem(
            where, f"a tool needs a name, a string that is not blank; {short_repr(tool)} has {short_repr(name)}"
        )
    return _described(name, tool)


def _described(name: str, tool: object) -> Item:
    description = _field(tool, "description")
    if not isinstance(description, str | None):
        return ItemProblem(name, f"the description of the tool must be a string, not {short_repr(description)}")
    schemas = (_field(tool, each) for each in _SCHEMAS)
    schema: object = next((found for found in schemas if found is not None), {})
    if not isinstance(schema, Mapping):
        return ItemProblem(name, f"the schema of the tool must be a mapping, as in JSON, not {short_repr(schema)}")
    raw = {"name": name, "description": description or "", "parameters": schema}
    return Artifact(name, raw, {"param_names": _param_names(schema)})


def _field(tool: object, key: str) -> Any:
    return tool.get(key) if isinstance(tool, Mapping) else getattr(tool, key, None)


def _param_names(schema: Mapping[str, Any]) -> list[str]:
    """Return the names sorted: their order in a schema means nothing."""
    properties = schema.get("properties")
    return sorted(map(str, properties)) if isinstance(properties, Mapping) else []


def _keyed(tools: Mapping[Any, Any]) -> Iterator[_Keyed]:
    return (_Keyed(key, tool) for key, tool in tools.items())


def from_mcp_tools(
    tools: Fetcher | Iterable[Any] | AsyncIterable[Any],
    *,
    name: str = "tools",
    strategy: IndexingStrategy | None = None,
    embedder: str | Embedder = "default",
) -> CorpusSource:
    """Make a source of tools, found by name and description; their names are their ids.

    A tool is a mapping or an object with `name`, `description` and a schema of its parameters, `parameters`,
    `inputSchema` or `input_schema`; or one inside `{"type": "function", "function": ...}`. The schema is no part of the
    text, but a tool whose schema changed is indexed again; other fields do not count. Metadata are `param_names`, the
    names of the parameters, sorted. A tool without a name, or with the name of one before, is an `ItemProblem`.

    Args:
        tools: A list of tools, or whatever else can be iterated again; a mapping, whose keys name the tools that have
            no name of their own; a function, async or called in a worker thread, that gives one of these; or the
            function's name as `"module:attribute"`, which is imported and called when the tools are read, so only names
            you trust.
        name: Letters, digits and `._-`; the default name of the corpus.
        strategy: Decomposes the mappings `name`, `description`, `parameters`; `Skill()` unless given.
        embedder: An embedder, or the specification of one.

    Raises:
        ArgumentError: `name` or `tools` cannot be used; where `tools` is of another kind, or an iterator, which could
            be read only once, an `ArgumentKindError`.
        SourceError: While iterating: a function leads nowhere, fails, or gives what are no tools.

    Example:
        >>> import anyio
        >>> schema = {"type": "object", "properties": {"host": {"type": "string"}}}
        >>> source = from_mcp_tools([{"name": "ping", "description": "Ask a host.", "inputSchema": schema}])
        >>> async def main():
        ...     return [(item.id, item.metadata) async for item in source.items()]
        >>> anyio.run(main)
        [('ping', {'param_names': ['host']})]
    """
    check_records("tools", tools)
    fetched = Fetched(tools, _keyed)
    return CorpusSource(name, lambda: fetched.pages(_Catalogue(name).items), strategy or Skill(), embedder=embedder)
