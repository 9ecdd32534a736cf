"""A source of tools, as the Model Context Protocol and chat models describe them."""

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airw._base.messages import error_text, short_repr
from airw.indexing import Skill
from airw.protocols import Embedder, IndexingStrategy
from airw.sources.records import Fetcher, RecordFetcher, check_records
from airw.sources.source import CorpusSource, Item
from airw.values import Artifact, ItemProblem

_SCHEMAS = ("parameters", "inputSchema", "input_schema")
_PLAIN = (str, bytes, int, float, list, tuple, type(None))


@dataclass(frozen=True, slots=True)
class _ToolWithKey:
    """A tool of a mapping; the key is its name if it has none of its own."""

    key: object
    tool: object


@dataclass(frozen=True, slots=True)
class _ToolReader:
    """Makes artifacts from tools, for one iteration of a source.

    `positions` contains the first position of each name, to report duplicates.
    """

    source: str
    positions: dict[str, int] = field(default_factory=dict)

    def read(self, entry: object, position: int) -> list[Item]:
        where = f"{self.source}[{position}]"
        try:
            item = _to_artifact(entry, where)
        except Exception as error:  # noqa: BLE001 - properties of a caller's class may raise any error
            item = ItemProblem(where, f"the tool cannot be read: {error_text(error)}")
        if isinstance(item, Artifact) and (first := self.positions.setdefault(item.id, position)) != position:
            reason = f"the name {item.id!r} at position {position} is already at position {first}, counted from 0"
            item = ItemProblem(item.id, f"{reason}; add the server to the name, as in 'server.tool'")
        return [item]


def _to_artifact(entry: object, where: str) -> Item:
    key, tool = (entry.key, entry.tool) if isinstance(entry, _ToolWithKey) else (None, entry)
    if isinstance(tool, _PLAIN):
        return ItemProblem(where, f"a tool must be a mapping or an object with a name, not {short_repr(tool)}")
    if _field(tool, "type") == "function" and (inner := _field(tool, "function")) is not None:
        tool = inner
    name = _field(tool, "name") or key
    if not isinstance(name, str) or not name.strip():
        return ItemProblem(
            where, f"a tool needs a name, a string that is not blank; {short_repr(tool)} has {short_repr(name)}"
        )
    return _read_description(name, tool)


def _read_description(name: str, tool: object) -> Item:
    description = _field(tool, "description")
    if not isinstance(description, str | None):
        return ItemProblem(name, f"the description of the tool must be a string, not {short_repr(description)}")
    schemas = (_field(tool, key) for key in _SCHEMAS)
    schema: object = next((value for value in schemas if value is not None), {})
    if not isinstance(schema, Mapping):
        return ItemProblem(name, f"the schema of the tool must be a mapping, as in JSON, not {short_repr(schema)}")
    raw = {"name": name, "description": description or "", "parameters": schema}
    return Artifact(name, raw, {"param_names": _param_names(schema)})


def _field(tool: object, key: str) -> Any:
    return tool.get(key) if isinstance(tool, Mapping) else getattr(tool, key, None)


def _param_names(schema: Mapping[str, Any]) -> list[str]:
    """Return the parameter names, sorted: their order in a schema has no meaning."""
    properties = schema.get("properties")
    return sorted(map(str, properties)) if isinstance(properties, Mapping) else []


def _add_keys(tools: Mapping[Any, Any]) -> Iterator[_ToolWithKey]:
    return (_ToolWithKey(key, tool) for key, tool in tools.items())


def from_mcp_tools(
    tools: Fetcher | Iterable[Any] | AsyncIterable[Any],
    *,
    name: str = "tools",
    strategy: IndexingStrategy | None = None,
    embedder: str | Embedder = "default",
) -> CorpusSource:
    """Return a source of tools, which are indexed by name and description.

    A tool is a mapping or an object with `name`, `description` and a schema of its parameters. The schema is in
    `parameters`, `inputSchema` or `input_schema`. A tool inside `{"type": "function", "function": ...}` is accepted,
    too. The name of a tool is its id. The schema is not part of the text, but if it changes, the tool is indexed again.
    Other fields are ignored. Metadata are `param_names`, the names of the parameters, sorted. A tool without a name, or
    with the name of an earlier one, is an `ItemProblem`.

    Args:
        tools: The tools, in one of these forms:

            - a list, or another iterable that can be read several times;
            - a mapping, whose keys are the names of tools that have none of their own;
            - a function that returns one of these, sync or async; a sync one runs in a worker thread;
            - `"module:attribute"`, a reference to such a function. The module is imported when the tools are read,
              which runs its code: use only references that you trust.
        name: The name of the source, and the default name of the corpus: letters, digits and `._-`.
        strategy: The strategy that splits mappings of `name`, `description` and `parameters` into surfaces; `Skill()`
            by default.
        embedder: An embedder, or the specification of one.

    Raises:
        ArgumentError: If `name` or `tools` is not valid. It is an `ArgumentKindError` if `tools` has another type, or
            is an iterator, which can be read only once.
        SourceError: During iteration, if the reference cannot be resolved, or the function fails or does not return
            tools.

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
    fetcher = RecordFetcher(tools, _add_keys)
    return CorpusSource(
        name,
        lambda: fetcher.pages(_ToolReader(name).read),
        Skill() if strategy is None else strategy,
        embedder=embedder,
    )
