"""The words, bounds and answers in the OpenAPI document of a server."""

import copy
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias, get_args

from airw import errors
from airw.discovery.disclosure import LEVELS
from airw.discovery.selection import STRATEGIES
from airw.policies.specs import list_policies
from airw.protocols.wire import JSON_TYPE, MOST_MESSAGES, MOST_REQUESTS, REQUEST_NAMES
from airw.retrieval import Fusion, Mode
from airw.serving.limits import ServingLimits
from airw.values import Limits, StopReason
from airw.values.links import ORIGINS
from airw.views import path_schema, tree_schema

ApiSchema: TypeAlias = dict[str, Any]

_TEXT: ApiSchema = {"type": "string"}
_NUMBER: ApiSchema = {"type": "number"}
_COUNT: ApiSchema = {"type": "integer", "minimum": 0}
_FLAG: ApiSchema = {"type": "boolean"}
_ANY_OBJECT: ApiSchema = {"type": "object"}


def describe_fields(limits: ServingLimits) -> Mapping[str, ApiSchema]:
    """Return the words and bounds of the fields of requests, by name.

    A field means the same in every request. Its type is in the table with which the server checks it.

    Example:
        >>> describe_fields(ServingLimits(max_k=50))["k"]["maximum"]
        50
    """
    return {
        **_describe_corpora(limits),
        **_describe_search(limits),
        **_describe_selection(limits),
        **_describe_artifacts(),
        **_describe_links(limits),
        **_describe_walks(limits),
    }


def _describe_corpora(limits: ServingLimits) -> Mapping[str, ApiSchema]:
    return {
        "corpus": {"description": "The name of a corpus.", "examples": ["notes"]},
        "corpora": {
            "description": "The names of several corpora.",
            "items": _TEXT,
            "minItems": 1,
            "maxItems": limits.max_corpora,
            "uniqueItems": True,
        },
        "requests": {
            "description": "Requests by the name of their class; one in `Fed` may name an earlier one by its place.",
            "items": {"type": "object", "properties": {"ask": {"enum": [*REQUEST_NAMES]}}, "required": ["ask"]},
            "maxItems": MOST_REQUESTS,
        },
        "messages": {
            "description": "Bodies of `/store/read`, which together ask for no more than one may.",
            "items": _ANY_OBJECT,
            "minItems": 1,
            "maxItems": MOST_MESSAGES,
        },
        "timeout": {"description": f"Seconds; at most {limits.max_timeout:g} count.", "minimum": 0},
    }


def _describe_search(limits: ServingLimits) -> Mapping[str, ApiSchema]:
    return {
        "query": {
            "description": "The text to search for; not blank.",
            "maxLength": limits.max_query_chars,
            "examples": ["rotate the signing keys"],
        },
        "k": _at_most(limits.max_k, "The number of hits at most."),
        "mode": _choice(get_args(Mode), "Which channels rank: vectors, words, or both."),
        "filter": {"description": "A condition on metadata.", "examples": [{"status": "Final"}]},
        "surfaces": {"description": "Search only surfaces of these kinds.", "items": _TEXT},
        "operators": {"description": 'Read "a phrase", -without and prefix* in the query.'},
        "fusion": _choice(get_args(Fusion), "How the channels become one ranking."),
        "rrf_k": {"description": "The rank constant of a fusion by rank.", "minimum": 0},
        "alpha": {"description": "The share of vectors in a hybrid search.", "minimum": 0, "maximum": 1},
        "bm25_sat_k": {"description": "The word score that counts half.", "exclusiveMinimum": 0},
        "fetch_k": {"description": "How deep each channel is read.", "minimum": 1},
        "rerank": {"description": "A reranker that the operator offers."},
        "rerank_text": _choice(("surface", "artifact"), "The text that the reranker reads."),
        "rerank_max_chars": {"description": "The characters that the reranker reads at most.", "minimum": 1},
        "surface_weights": {"description": "The factors of kinds of surfaces.", "additionalProperties": _NUMBER},
        "boost": {
            "description": "Prefer newer artifacts: recency:<field>:<half-life>.",
            "examples": ["recency:date:90d"],
        },
        "per_artifact": {"description": "Return only the best hit of each artifact."},
    }


def _describe_selection(limits: ServingLimits) -> Mapping[str, ApiSchema]:
    return {
        "strategy": _choice(STRATEGIES, "The rule that selects hits."),
        "disclose_level": _choice(LEVELS, "How much of each selected artifact the answer contains."),
        "max_k": {"description": "Select at most this many hits.", "minimum": 0, "maximum": limits.max_k},
        "rel": {"description": "The ratio to the best score that a hit must reach.", "minimum": 0},
        "gap_ratio": {"description": "The ratio to the previous score below which there is a gap.", "minimum": 0},
        "min_score": {"description": "The floor below which a corpus abstains; a number, `auto` or null."},
        "merge": _choice(("rrf", "blend", "score", "rrf-by-source"), "How several corpora become one ranking."),
        "merge_weights": {"description": "The factors of corpora, by name.", "additionalProperties": _NUMBER},
        "merge_rrf_k": {"description": "The rank constant for several corpora.", "minimum": 0},
        "dedup_by": {"description": "A metadata field with equal values for copies of the same thing."},
        "source_timeout": {"description": "Seconds for the answer of each corpus.", "minimum": 0},
    }


def _describe_artifacts() -> Mapping[str, ApiSchema]:
    return {
        "id": {"description": "The id of an artifact.", "minLength": 1, "examples": ["keys.md"]},
        "value": {"description": "A text, or the fields of a record.", "examples": ["Rotate the signing keys."]},
        "level": _choice(LEVELS, "How much of the artifact to disclose, if anything."),
        "texts": {"description": "Texts to embed.", "items": _TEXT},
    }


def _describe_links(limits: ServingLimits) -> Mapping[str, ApiSchema]:
    most_edges = 10 * limits.max_node_budget
    return {
        "roots": {"description": "Where to begin.", "items": {**_TEXT, "minLength": 1}, "minItems": 1},
        "start": {"description": "The id of the first artifact.", "minLength": 1},
        "end": {"description": "The id of the last artifact.", "minLength": 1},
        "direction": _choice(("out", "in", "both"), "The direction in which links are followed."),
        "max_hops": _at_most(limits.max_hops, "The number of hops at most."),
        "max_nodes": _at_most(limits.max_node_budget, "The number of artifacts at most."),
        "max_edges": _at_most(most_edges, "The number of links to read at most."),
        "max_fanout": _at_most(most_edges, "The number of links to read of each artifact at most."),
        "types": {"description": "Follow only links of these types.", "items": _TEXT},
        "exclude": {"description": "Do not follow links of these types.", "items": _TEXT},
        "origins": {"description": "Follow only links of these origins.", "items": {"enum": list(ORIGINS)}},
        "weighted": {"description": "Prefer strong links to short paths."},
    }


def _describe_walks(limits: ServingLimits) -> Mapping[str, ApiSchema]:
    names = list(list_policies())
    spec = {"type": "object", "properties": {"name": {"enum": names}, "params": _ANY_OBJECT}, "required": ["name"]}
    return {
        "operators": {"description": 'Read "a phrase", -without and prefix* in the query.'},
        "walk": {"description": "Walk each corpus instead of searching it: true, or a policy."},
        "policy": {
            "description": f"The policy: its name, or its name and parameters in JSON. Names: {', '.join(names)}.",
            "anyOf": [{"enum": names}, {**spec, "additionalProperties": False}, {"type": "null"}],
        },
        "node_budget": _at_most(limits.max_node_budget, "The number of nodes to commit at most."),
        "max_depth": _at_most(limits.max_hops, "The depth cap: nodes there are not expanded."),
        "limits": {
            "description": "Lower limits than those of the library, in JSON.",
            "properties": {field.name: _describe_limit(field.default) for field in fields(Limits)},
            "additionalProperties": False,
        },
        "edges": {"description": "Send the edges and routers of the walk, too."},
        "routers": {"description": "Send the nodes without a hit, too; by default with `edges` only."},
        "hold": {"description": "Hold the walk when it ends at a limit; the summary then has a token in `continue`."},
        "continue": {"description": "The token of the summary of a walk that is held."},
        "best": {"description": "Send the best hits so far, this many.", "minimum": 1, "maximum": limits.max_k},
        "max_hits": {"description": "End the stream after this many hits.", "minimum": 1},
        "max_chars": {"description": "End the stream when the texts have this many characters.", "minimum": 1},
        "max_tokens": {"description": "End the stream when the texts have this many tokens.", "minimum": 1},
    }


def _describe_limit(most: object) -> ApiSchema:
    if isinstance(most, bool):
        return _FLAG
    return {**_COUNT, "maximum": most} if isinstance(most, int) else _or_null(_COUNT)


def _at_most(most: int, description: str) -> ApiSchema:
    return {"description": description, "minimum": 0, "maximum": most}


def _choice(values: tuple[str, ...], description: str) -> ApiSchema:
    return {"description": description, "enum": list(values)}


def _object(properties: Mapping[str, ApiSchema], *, optional: tuple[str, ...] = (), **rest: Any) -> ApiSchema:
    """Return the schema of an object with these properties and no others."""
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    } | rest


def _list(items: ApiSchema) -> ApiSchema:
    return {"type": "array", "items": items}


def _or_null(schema: ApiSchema) -> ApiSchema:
    if "type" in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def refer_to(name: str) -> ApiSchema:
    """Return a reference to a schema of the document.

    Example:
        >>> refer_to("Hit")
        {'$ref': '#/components/schemas/Hit'}
    """
    return {"$ref": f"#/components/schemas/{name}"}


def _describe_event(*kinds: str) -> ApiSchema:
    """Return the schema of one event of a stream, as readers of server-sent events see it."""
    data = {"description": "One line of JSON.", **_TEXT, "contentMediaType": JSON_TYPE}
    return _object({"id": _TEXT, "event": {"enum": list(kinds)}, "data": data}, optional=("id",))


_WRITTEN: Mapping[str, ApiSchema] = {"corpus": _TEXT, "id": _TEXT}
_DURABILITY: ApiSchema = {
    "description": "What the change survives: a power failure (`full`), a kill of the process (`normal`), neither.",
    "enum": ["full", "normal", "off", "memory", "server"],
}
_ANSWERS: Mapping[str, ApiSchema] = {
    "Problem": _object(
        {
            "error": {"description": "The class of the error in `airw.errors`.", "enum": sorted(errors.__all__)},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"description": "What is wrong, and what would do.", **_TEXT},
        }
    ),
    "Hit": _object(
        {
            "artifact_id": _TEXT,
            "surface_kind": _TEXT,
            "score": _or_null(_NUMBER),
            "text": _TEXT,
            "metadata": _ANY_OBJECT,
            "source": _or_null(_TEXT),
            "surface_index": _or_null({"type": "integer"}),
        }
    ),
    "SearchAnswer": _object({"hits": {"description": "Best first.", **_list(refer_to("Hit"))}}),
    "Discovery": _object(
        {
            "query": _TEXT,
            "mode": _TEXT,
            "strategy": _TEXT,
            "disclose_level": {"enum": list(LEVELS)},
            "results": {"description": "The selected artifacts, best first.", **_list(_ANY_OBJECT)},
            "abstained": {"description": "Whether nothing was selected.", **_FLAG},
            "reason": {"description": "The rule that ended the selection.", **_TEXT},
            "n_retrieved": _COUNT,
            "n_selected": _COUNT,
            "explanation": {"description": "What the reason means.", **_TEXT},
            "missing": {
                "description": "The corpora that failed or were late, with why.",
                **_list(_object({"source": _TEXT, "error": _TEXT})),
            },
            "signals": {"description": "The numbers behind the decision.", **_ANY_OBJECT},
        }
    ),
    "Record": _object(
        {
            "id": _TEXT,
            "artifact_id": _TEXT,
            "surface_kind": _TEXT,
            "surface_index": {"type": "integer"},
            "text": _TEXT,
            "metadata": _ANY_OBJECT,
        }
    ),
    "Artifact": _object(
        {
            **_WRITTEN,
            "records": _list(refer_to("Record")),
            "records_left_out": _or_null(_COUNT),
            "ledger": _or_null(_ANY_OBJECT),
            "links": _or_null(_object({"edges": _list(_ANY_OBJECT), "truncated": _FLAG})),
            "disclosure": _or_null(_ANY_OBJECT),
        },
        optional=("disclosure",),
    ),
    "Change": _object({**_WRITTEN, "added": _COUNT, "updated": _COUNT, "unchanged": _COUNT, "durability": _DURABILITY}),
    "Deletion": _object({**_WRITTEN, "deleted": _COUNT, "durability": _DURABILITY}),
    "Served": _object(
        {
            "name": _TEXT,
            "embedder_id": _TEXT,
            "dim": _COUNT,
            "writable": _FLAG,
            "capabilities": _list(_TEXT),
            "counts": _or_null(_ANY_OBJECT),
            "error": _TEXT,
            "detail": _TEXT,
        },
        optional=("embedder_id", "dim", "writable", "capabilities", "counts", "error", "detail"),
    ),
    "Catalogue": _object(
        {
            "api": {"description": "The versions of this API that the server understands.", **_list(_COUNT)},
            "airw": {"description": "The version of the library.", **_TEXT},
            "corpora": _list(refer_to("Served")),
            "policies": {"description": "The policies by name.", **_list({"enum": list(list_policies())})},
            "limits": {"type": "object", "additionalProperties": _NUMBER},
        },
        additionalProperties=True,
    ),
    "Alive": _object({"status": {"const": "ok"}}),
    "Ready": _object(
        {
            "status": {"enum": ["ok", "failed"]},
            "corpora": {
                "type": "object",
                "additionalProperties": _object(
                    {"status": _TEXT, "error": _TEXT, "detail": _TEXT}, optional=("error", "detail")
                ),
            },
        }
    ),
    "StoreDescription": _object(
        {
            "embedder": _object({"id": _TEXT, "dim": _COUNT}),
            "capabilities": _list(_TEXT),
            "policies": {"type": "object", "additionalProperties": _list(_TEXT)},
            "durability": _TEXT,
            "holds_walks": {"description": "Whether `/traverse` takes `hold`.", **_FLAG},
            "limits": {"type": "object", "additionalProperties": _COUNT},
        },
        additionalProperties=True,
    ),
    "StoreAnswers": _object(
        {"answers": {"type": "array", "description": "One for each request, as `airw.remote` reads it."}}
    ),
    "StoresAnswers": _object(
        {
            "answers": {
                "description": "What `/store/read` answers to each message; `null` if it must be sent there, alone.",
                **_list(_or_null(refer_to("StoreAnswers"))),
            }
        }
    ),
    "Embedding": _object({"embedder_id": _TEXT, "vectors": refer_to("NumberArray")}),
    "NumberArray": _object(
        {
            "shape": _list(_COUNT),
            "dtype": {"enum": ["<f4", "<f8"]},
            "base64": {**_TEXT, "contentEncoding": "base64"},
        }
    ),
    "WalkEvent": _describe_event("hit", "router", "edge", "progress", "best", "summary", "error"),
    "DiscoveryEvent": _describe_event("source", "result", "error"),
    "WalkSummary": _object(
        {
            "type": {"const": "summary"},
            "stop": {"description": "Why the walk ended.", "enum": list(get_args(StopReason))},
            "left_out": {"type": "object", "additionalProperties": _COUNT},
            "truncated": _FLAG,
            "continue": {"description": "The token with which the walk goes on; only with `hold`.", **_or_null(_TEXT)},
        },
        optional=("continue",),
        additionalProperties=True,
    ),
}


def describe_answers() -> dict[str, ApiSchema]:
    """Return the schemas of answers by name, as the document has them.

    Example:
        >>> sorted(describe_answers()["Problem"]["required"])
        ['detail', 'error', 'status']
    """
    return {**copy.deepcopy(dict(_ANSWERS)), **_hoist("Tree", tree_schema()), **_hoist("Path", path_schema())}


def _hoist(name: str, schema: ApiSchema) -> dict[str, ApiSchema]:
    """Return a JSON Schema and its definitions as schemas of the document.

    A reference in an OpenAPI document begins at the root of the document.
    """
    schema = _move_references(copy.deepcopy(schema), name)
    parts = schema.pop("$defs", {})
    schema.pop("$schema", None)
    return {name: schema, **{_name_part(name, part): value for part, value in parts.items()}}


def _name_part(name: str, part: str) -> str:
    return f"{name}{part.capitalize()}"


def _move_references(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _move_references(item, name) for key, item in value.items()}
    if isinstance(value, list):
        return [_move_references(item, name) for item in value]
    if isinstance(value, str) and (part := re.fullmatch(r"#/\$defs/(\w+)", value)):
        return refer_to(_name_part(name, part[1]))["$ref"]
    return value
