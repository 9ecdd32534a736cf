"""Cases of filters: a search keeps what `airw.values.filters` keeps, in every family of conditions, before the cut."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from airw._base.json import json_clean
from airw.protocols import Store
from airw.testing._store_tools import EAST, StoreCase, axes, expect_equal, on_one_store, put, store_case
from airw.values import Ranking
from airw.values.filters import matches, parse_filter

__all__ = ["CASES"]

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

FAMILIES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "of_equality": [{"v": {op: value}} for op in ("$eq", "$ne") for value in VALUES],
    "of_order": [{"v": {op: value}} for op in ("$gt", "$gte", "$lt", "$lte") for value in _SCALARS],
    "of_order_in_a_range": [{"v": {"$gte": low, "$lt": high}} for low, high in ((0, 2), ("a", "b"), (2**53, 2**63))],
    "of_membership": [{"v": {op: values}} for op in ("$in", "$nin") for values in _LISTS],
    "of_lists_and_substrings": [{"v": {"$contains": value}} for value in VALUES],
    "of_presence": [{path: {"$exists": flag}} for path in ("v", *_PATHS) for flag in (True, False)],
    "of_dotted_paths": [{path: {op: value}} for path in _PATHS for op in ("$eq", "$ne", "$gte") for value in (1, None)],
    "of_several_conditions": [
        {}, {"$and": []}, {"$or": []}, {"$not": {}}, {"$not": {"$or": []}},
        *({"$not": part} for part in _PARTS),
        *({key: [one, two]} for key in ("$and", "$or") for one in _PARTS for two in _PARTS if one is not two),
        *({"$not": {"$or": [one, {"$not": {"$and": [two, _PARTS[1]]}}]}} for one in _PARTS for two in _PARTS[:3]),
        {"v": {"$gt": 0, "$ne": 1}, "other": {"$exists": False}},
    ],
}  # fmt: skip


async def _by_vector(store: Store, k: int, **options: Any) -> Ranking:
    [ranking] = await store.search_vectors(EAST, k, **options)
    return ranking


async def _by_words(store: Store, k: int, **options: Any) -> Ranking:
    [ranking] = await store.search_text(["word"], k, **options)
    return ranking


async def _filters_keep_what_they_match(search: Callable[..., Any], family: str, store: Store) -> None:
    names = [f"a{at:02}" for at in range(len(ROWS))]
    await store.apply([put(name, "word", metadata=row, vectors=axes(0)) for name, row in zip(names, ROWS, strict=True)])
    for condition in FAMILIES[family]:
        parsed = parse_filter(condition)
        found = set((await search(store, 1_000, filter=parsed)).artifact_ids)
        for name, row in zip(names, ROWS, strict=True):
            if (name in found) != matches(parsed, json_clean(row)):
                raise AssertionError(f"expected {condition} to {'drop' if name in found else 'keep'} {row}")


async def _filters_act_before_the_cut(search: Callable[..., Any], store: Store) -> None:
    """Of 60 artifacts of two records, the ten worst pass the filter, by one record each."""
    changes = [
        put(f"a{at:02}", f"word {'pad ' * at}", f"word {'pad ' * at}", vectors=axes(at, at), metadata={"n": at})
        for at in range(60)
    ]
    await store.apply(changes)
    worst, third = parse_filter({"n": {"$gte": 50}}), parse_filter({"n": {"$gte": 50, "$lt": 53}})
    for k, options, expected in (
        (4, {"filter": worst}, ["a50", "a50", "a51", "a51"]),
        (4, {"filter": worst, "per_artifact": True}, ["a50", "a51", "a52", "a53"]),
        (100, {"filter": third, "per_artifact": True}, ["a50", "a51", "a52"]),
        (0, {"filter": worst}, []),
        (5, {"filter": parse_filter({"n": -1})}, []),
    ):
        found = list((await search(store, k, **options)).artifact_ids)
        expect_equal(found, expected, f"artifacts found with k={k} and {options}")


async def _surface_metadata_is_what_a_filter_sees(search: Callable[..., Any], store: Store) -> None:
    """A filter is about records: one record of an artifact may pass where another does not."""
    change = put("a", "word", "word", vectors=axes(0, 10))
    records = [replace(record, metadata={"page": at}) for at, record in enumerate(change.records)]
    await store.apply([replace(change, records=records)])
    for page in (0, 1):
        ranking = await search(store, 5, filter=parse_filter({"page": page}))
        expect_equal(list(ranking.record_ids), [change.records[page].id], f"records found on page {page}")


async def _filters_follow_every_write(search: Callable[..., Any], store: Store) -> None:
    await store.apply([put(name, "word", vectors=axes(0), metadata={"tag": "old"}) for name in "abc"])
    await search(store, 5, filter=parse_filter({"tag": "old"}))
    await store.apply([put("a", "word", vectors=axes(0), metadata={"tag": "new"})], removals=["b"])
    for tag, expected in (("old", ["c"]), ("new", ["a"])):
        found = list((await search(store, 5, filter=parse_filter({"tag": tag}))).artifact_ids)
        expect_equal(found, expected, f"artifacts found with the tag {tag!r}")


def _cases() -> list[StoreCase]:
    found = []
    for capability, how, search in (("vectors", "vector", _by_vector), ("text", "words", _by_words)):
        checks = {
            f"filters_{each}_keep_what_they_match": partial(_filters_keep_what_they_match, search, each)
            for each in FAMILIES
        }
        checks |= {
            "filters_act_before_the_cut": partial(_filters_act_before_the_cut, search),
            "filters_see_each_record_by_itself": partial(_surface_metadata_is_what_a_filter_sees, search),
            "filters_follow_every_write": partial(_filters_follow_every_write, search),
        }
        found += [
            store_case(f"{name}_in_search_by_{how}", [capability], on_one_store(check))
            for name, check in checks.items()
        ]
    return found


CASES = _cases()
