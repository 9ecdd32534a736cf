"""Cases of filters: a search keeps the records that `airw.values.filters` matches."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from typing import Any

from airw._base.json import json_clean
from airw.protocols import Rank, ask
from airw.testing._store_tools import StoreCase, StoreFixture
from airw.testing.changes import EAST, axes, put
from airw.testing.exam import Case, expect_equal
from airw.values.filters import matches, parse_filter

VALUES: list[Any] = [
    None, True, False, 0, 1, 1.0, -1, 2, 0.5, -0.0, 1e300,
    2**53, 2**53 + 1, 2.0**53, 2**63 - 1, 2**63, -(2**63) - 1, 10**30,
    "", "a", "A", "ab", "b", "1", "true", "null", "é", "e\u0301", "日本", "🦊",
    'say "a"', "it's", "a\\b", "a\nb", "%", "a%", "_",
    [], ["a"], ["a", "b"], ["b", "a"], ["ab"], [1], [True, "a"], [None], [["a"]], [{"k": 1}],
    {}, {"k": 1}, {"k": [1]},
]  # fmt: skip
NESTED: list[dict[str, Any]] = [
    {}, {"a": {"b": 1}}, {"a.b": 1}, {"a.b": 2, "a": {"b": 1}}, {"a": {"b": 2}}, {"a": {"b": None}}, {"a": {}},
    {"a": 1}, {"a": [{"b": 1}]}, {"a": {"b": {"c": 1}}}, {"a.b": {"c": 1}}, {"a": {"b.c": 1}}, {"a": {"b": [1, 2]}},
    {"a": None}, {"": 1}, {"é": {"🦊": 1}}, {'q"': 1}, {"it's": {"a": 1}}, {"a[0]": 1}, {"0": 1}, {"a": {"0": 1}},
    {"a": ["z"]},
]  # fmt: skip
ROWS: list[dict[str, Any]] = [*({"v": value} for value in VALUES), {"other": 1}, *NESTED]

_PATHS = ["a", "a.b", "a.b.c", "a.0", "0", "", ".", "é.🦊", 'q"', "it's.a", "a[0]", "none.at.all", "v.k"]
_LISTS: list[list[Any]] = [
    [], [1], [True], ["a"], ["a", 1, None], [["a"]], [[]], [2**53 + 1, 0.5], ["é", "日本"], [{"k": 1}], [None],
    list(range(3_000)),
]  # fmt: skip
_SCALARS = [value for value in VALUES if not isinstance(value, list | dict)]
_PARTS: list[dict[str, Any]] = [
    {"v": 1}, {"v": {"$gt": 0}}, {"v": {"$contains": "a"}}, {"v": {"$exists": True}}, {"a.b": 1}, {"v": {"$ne": "a"}},
    {"v": {"$in": ["a", "b", 2]}},
]  # fmt: skip

_OPERANDS: list[tuple[str, list[str], list[str], list[Any]]] = [
    ("of_equality", ["v"], ["$eq", "$ne"], VALUES),
    ("of_order", ["v"], ["$gt", "$gte", "$lt", "$lte"], _SCALARS),
    ("of_membership", ["v"], ["$in", "$nin"], _LISTS),
    ("of_lists_and_substrings", ["v"], ["$contains"], VALUES),
    ("of_presence", ["v", *_PATHS], ["$exists"], [True, False]),
    ("of_dotted_paths", _PATHS, ["$eq", "$ne", "$gte"], [1, None]),
]
FAMILIES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    **{
        family: [{path: {op: value}} for path in paths for op in ops for value in values]
        for family, paths, ops, values in _OPERANDS
    },
    "of_order_in_a_range": [{"v": {"$gte": low, "$lt": high}} for low, high in ((0, 2), ("a", "b"), (2**53, 2**63))],
    "of_several_conditions": [
        {}, {"$and": []}, {"$or": []}, {"$not": {}}, {"$not": {"$or": []}},
        {"v": {"$gt": 0, "$ne": 1}, "other": {"$exists": False}},
        *({"$not": part} for part in _PARTS),
        *({key: [one, two]} for key in ("$and", "$or") for one, two in permutations(_PARTS, 2)),
        *({"$not": {"$or": [one, {"$not": {"$and": [two, _PARTS[1]]}}]}} for one, two in product(_PARTS, _PARTS[:3])),
    ],
}  # fmt: skip


async def _filters_keep_what_they_match(family: str, search: Rank, fixture: StoreFixture) -> None:
    """Check which artifacts searches with filters keep; scores do not matter."""
    rows = {f"a{number:02}": row for number, row in enumerate(ROWS)}
    store = await fixture.open_store([put(name, "word", metadata=row, vectors=axes(0)) for name, row in rows.items()])
    for condition in FAMILIES[family]:
        parsed = parse_filter(condition)
        [ranking] = await ask(store, replace(search, filter=parsed))
        for name, row in rows.items():
            is_kept = matches(parsed, json_clean(row))
            expect_equal(name in ranking.artifact_ids, is_kept, f"whether the filter {condition} keeps {row}")


CASES: list[StoreCase] = [
    Case(
        f"filters_{family}_keep_what_they_match_in_search_by_{how}",
        f"In a search by {how}, filters {family.replace('_', ' ')} keep exactly the artifacts that match.",
        partial(_filters_keep_what_they_match, family, search),
        frozenset([search.needs]),
    )
    for how, search in {"vector": Rank(EAST), "words": Rank(["word"])}.items()
    for family in FAMILIES
]
