"""The JSON Schemas (draft 2020-12) of printed walks and paths, derived from their classes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from airw.links import LinkPath
from airw.values import Edge, Limits, NodeId
from airw.views.model import NodeView, TreeLink, WalkTree
from airw.views.reading import VIEW_LIMIT_NAMES

Schema: TypeAlias = dict[str, Any]

_NAME: Schema = {"type": "string", "minLength": 1}
_PAIR: Schema = {"type": "array", "prefixItems": [_NAME, _NAME], "items": False, "minItems": 2}
_ID: Schema = {
    "description": "The id of an artifact; for several corpora, the name of its corpus and its id there.",
    "oneOf": [_NAME, _PAIR],
}
_TRUNCATED = "True if anything was, or may have been, left out; a limit reached exactly leaves nothing out."
_UNBOUND = ("max_concurrency", "count_beyond_limits")  # settings of a walk that leave nothing out


def tree_schema() -> Schema:
    """Return the JSON Schema of `WalkTree.to_dict()`.

    Example:
        >>> tree_schema()["properties"]["truncated"]["type"]
        'boolean'
    """
    names = ("roots", "direction", "max_hops", "left_out", "at_least", "unknown", "nodes", "edges", "spanning_tree")
    root = {"description": "The first root; null if the walk ended before it.", **_schema_of(NodeId | None)}
    properties = {
        "root": root,
        **_fields(WalkTree, {name: name for name in names}),
        "truncated": {"description": _TRUNCATED, "type": "boolean"},
    }
    return _document("A walk along links, as a tree", properties, [_truncation_rule("left_out", "at_least", "unknown")])


def path_schema() -> Schema:
    """Return the JSON Schema of `path_dict(…)`.

    Example:
        >>> path_schema()["properties"]["found"]["type"]
        'boolean'
    """
    names = ("direction", "max_hops", "cost", "edges", "left_out", "at_least")
    nodes = _schema_of(Sequence[NodeView])
    properties = {
        **_fields(LinkPath, {"start": "from", "end": "to", **{name: name for name in names}}),
        "nodes": {"description": "The artifacts on the path, both ends included.", **nodes},
        "found": {"type": "boolean"},
        "path_length": {"description": "The length in hops; null if no path was found.", **_schema_of(int | None)},
        "truncated": {"description": f"{_TRUNCATED} There may then be a shorter path.", "type": "boolean"},
        "reason": {"description": "Why no path was found; null if one was found.", **_schema_of(str | None)},
    }
    found = {
        "reason": {"type": "null"},
        "nodes": {"minItems": 1},
        "path_length": {"type": "integer"},
        "cost": {"type": "number"},
    }
    missing = {
        "reason": {"type": "string"},
        **{name: {"maxItems": 0} for name in ("nodes", "edges")},
        **{name: {"type": "null"} for name in ("path_length", "cost")},
    }
    rules = [_truncation_rule("left_out", "at_least"), _either("found", {"properties": found}, {"properties": missing})]
    return _document("A path along links", properties, rules)


def _document(title: str, properties: Mapping[str, Schema], rules: Iterable[Schema]) -> Schema:
    step = _object(_fields(TreeLink, {"source": "from", "target": "to", "hop": "hop", "type": "type"}))
    step["properties"]["hop"]["minimum"] = 1  # a root is not a step
    node = _object(_fields(NodeView, {field.name: field.name for field in fields(NodeView)}))
    del node["properties"]["tags"]["uniqueItems"]  # tags stay as written, with duplicates
    edge = _object(_fields(Edge, {"source": "from", "target": "to", "type": "type", "origin": "source"}))
    weight = {"description": "How much the edge counts for a walk; 1 if missing."}
    edge["properties"]["weight"] = {**weight, "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    for part in (step, edge):
        del part["properties"]["type"]["minLength"]  # an extractor may use any text as type, even an empty one
    walk_limits = {*VIEW_LIMIT_NAMES.values(), *(field.name for field in fields(Limits) if field.name not in _UNBOUND)}
    limit = {"enum": sorted({*walk_limits, "closed", "corpora", "timeout"})}
    return deepcopy(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": title,
            **_object(properties),
            "allOf": list(rules),
            "$defs": {"id": _ID, "limit": limit, "node": node, "edge": edge, "step": step},
        }
    )


def _object(properties: Mapping[str, Schema]) -> Schema:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": dict(properties),
    }


def _fields(of: type, names: Mapping[str, str]) -> dict[str, Schema]:
    """Return the schemas of fields of a class, by their printed names.

    Descriptions come from the docstring of the class, so that the two cannot differ.
    """
    hints = get_type_hints(of)
    docs = dict(re.findall(r"^ +(\w+): (.+(?:\n {12}.+)*)", of.__doc__ or "", re.MULTILINE))
    described = {
        name: {"description": " ".join(docs[name].split()).replace("`None`", "null")} if name in docs else {}
        for name in names
    }
    limited = {name: {"items": {"$ref": "#/$defs/limit"}} for name in ("at_least", "unknown")}
    return {
        printed: described[name] | _schema_of(hints[name]) | limited.get(name, {}) for name, printed in names.items()
    }


_PLAIN: Mapping[Any, Schema] = {
    NodeId: {"$ref": "#/$defs/id"},
    NodeView: {"$ref": "#/$defs/node"},
    Edge: {"$ref": "#/$defs/edge"},
    TreeLink: {"$ref": "#/$defs/step"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number", "minimum": 0},
    str: _NAME,
}


def _schema_of(hint: Any) -> Schema:
    """Return the schema of a type: no negative numbers, empty strings or repeated items."""
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, UnionType):
        schema = _schema_of(Union[tuple(arg for arg in args if arg is not type(None))])  # noqa: UP007 - from a tuple
        if "$ref" in schema:
            return {"oneOf": [schema, {"type": "null"}]}
        return {**schema, "type": [schema["type"], "null"]}
    if origin is not None and issubclass(origin, Mapping):
        counts = {"type": "integer", "minimum": 1}
        return {"type": "object", "propertyNames": {"$ref": "#/$defs/limit"}, "additionalProperties": counts}
    return {"type": "array", "items": _schema_of(args[0]), "uniqueItems": True}


def _truncation_rule(*names: str) -> Schema:
    """Return the rule that `truncated` is true exactly if one of these fields is not empty."""
    sizes = {name: "Properties" if name == "left_out" else "Items" for name in names}
    some = [{"properties": {name: {f"min{size}": 1}}} for name, size in sizes.items()]
    empty = {name: {f"max{size}": 0} for name, size in sizes.items()}
    return _either("truncated", {"anyOf": some}, {"properties": empty})


def _either(name: str, then: Schema, otherwise: Schema) -> Schema:
    return {"if": {"properties": {name: {"const": True}}}, "then": then, "else": otherwise}
