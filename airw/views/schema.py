"""The JSON Schemas (draft 2020-12) of what is printed of walks and paths, made of the classes that are printed."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from airw.links import LinkPath
from airw.values import Edge, Limits, NodeId
from airw.views.model import NodeView, TreeLink, WalkTree
from airw.views.reading import LIMIT_NAMES

Schema: TypeAlias = dict[str, Any]

_NAME: Schema = {"type": "string", "minLength": 1}
_PAIR: Schema = {"type": "array", "prefixItems": [_NAME, _NAME], "items": False, "minItems": 2}
_ID: Schema = {
    "description": "An artifact's id, or of several corpora its corpus and its id there.",
    "oneOf": [_NAME, _PAIR],
}
_TRUNCATED = "Whether anything was, or may have been, left out; a limit reached exactly leaves nothing out."
_UNBOUND = ("max_concurrency", "count_beyond_limits")  # what a walk may do, but never leaves anything out


def tree_schema() -> Schema:
    """Return the JSON Schema of `WalkTree.to_dict()`.

    Example:
        >>> tree_schema()["properties"]["truncated"]["type"]
        'boolean'
    """
    names = ("roots", "direction", "max_hops", "left_out", "at_least", "unknown", "nodes", "edges", "spanning_tree")
    root = {"description": "The first of the roots; null where the walk ended before it.", **_of(NodeId | None)}
    properties = {
        "root": root,
        **_fields(WalkTree, {name: name for name in names}),
        "truncated": {"description": _TRUNCATED, "type": "boolean"},
    }
    return _document("A walk along links, as a tree", properties, [_truncated("left_out", "at_least", "unknown")])


def path_schema() -> Schema:
    """Return the JSON Schema of `path_dict(…)`.

    Example:
        >>> path_schema()["properties"]["found"]["type"]
        'boolean'
    """
    names = ("direction", "max_hops", "cost", "edges", "left_out", "at_least")
    nodes = _of(Sequence[NodeView])
    properties = {
        **_fields(LinkPath, {"start": "from", "end": "to", **{name: name for name in names}}),
        "nodes": {"description": "The artifacts on the path, both ends included.", **nodes},
        "found": {"type": "boolean"},
        "path_length": {"description": "Hops; null where none was found.", **_of(int | None)},
        "truncated": {"description": f"{_TRUNCATED} A shorter path may then be hidden.", "type": "boolean"},
        "reason": {"description": "Why no path was found; null where one was.", **_of(str | None)},
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
    rules = [_truncated("left_out", "at_least"), _either("found", {"properties": found}, {"properties": missing})]
    return _document("A path along links", properties, rules)


def _document(title: str, properties: Mapping[str, Schema], rules: Iterable[Schema]) -> Schema:
    step = _object(_fields(TreeLink, {"source": "from", "target": "to", "hop": "hop", "type": "type"}))
    step["properties"]["hop"]["minimum"] = 1  # roots are no steps
    node = _object(_fields(NodeView, {each.name: each.name for each in fields(NodeView)}))
    del node["properties"]["tags"]["uniqueItems"]  # they are as they were written
    edge = _object(_fields(Edge, {"source": "from", "target": "to", "type": "type", "origin": "source"}))
    for part in (step, edge):
        del part["properties"]["type"]["minLength"]  # extractors may call a link anything
    walked = {*LIMIT_NAMES.values(), *(each.name for each in fields(Limits) if each.name not in _UNBOUND)}
    limit = {"enum": sorted({*walked, "closed", "timeout"})}
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
    """Return what describes an object of these and no other properties."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": dict(properties),
    }


def _fields(of: type, names: Mapping[str, str]) -> dict[str, Schema]:
    """Return the schemas of fields of a class, under the names that are printed."""
    hints = get_type_hints(of)
    about = dict(re.findall(r"^ +(\w+): (.+(?:\n {12}.+)*)", of.__doc__ or "", re.MULTILINE))
    told = {
        name: {"description": " ".join(about[name].split()).replace("`None`", "null")} if name in about else {}
        for name in names
    }
    limited = {name: {"items": {"$ref": "#/$defs/limit"}} for name in ("at_least", "unknown")}
    return {printed: told[name] | _of(hints[name]) | limited.get(name, {}) for name, printed in names.items()}


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


def _of(hint: Any) -> Schema:
    """Return the schema of a type: numbers count something, strings say something, lists hold nothing twice."""
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, UnionType):
        one = _of(Union[tuple(each for each in args if each is not type(None))])  # noqa: UP007 - made of a tuple
        return {"oneOf": [one, {"type": "null"}]} if "$ref" in one else {**one, "type": [one["type"], "null"]}
    if origin is not None and issubclass(origin, Mapping):
        counts = {"type": "integer", "minimum": 1}
        return {"type": "object", "propertyNames": {"$ref": "#/$defs/limit"}, "additionalProperties": counts}
    return {"type": "array", "items": _of(args[0]), "uniqueItems": True}


def _truncated(*names: str) -> Schema:
    """Return the rule that something is named exactly where something was left out."""
    sizes = {name: "Properties" if name == "left_out" else "Items" for name in names}
    some = [{"properties": {name: {f"min{size}": 1}}} for name, size in sizes.items()]
    none = {name: {f"max{size}": 0} for name, size in sizes.items()}
    return _either("truncated", {"anyOf": some}, {"properties": none})


def _either(name: str, then: Schema, otherwise: Schema) -> Schema:
    return {"if": {"properties": {name: {"const": True}}}, "then": then, "else": otherwise}
