"""After any writes, the links of both stores equal those of a simple reference.

Links have one name or two.
"""

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from threading import Lock

import pytest
from hypothesis import given, settings

from airw._base.lru import LruCache
from airw.protocols import Change, Edges, MaxFanIn, Names, Referrers, UnresolvedLinks
from airw.stores._indexes.texts import prepare_texts
from airw.stores.memory._links import LinkTable
from airw.stores.sqlite import _links
from airw.stores.sqlite._links import LinkIndex
from airw.stores.sqlite._records import counts
from airw.stores.sqlite._schema import _create_tables
from airw.stores.sqlite._writing import apply_change
from airw.values import Edge, LinkCount, LinkFilter, UnresolvedLink
from tests.support.drawing import examples
from tests.support.link_histories import NAMES, REFS, STEPS, TYPES, changes


def carriers(name, final):
    """Return the strongest tier of a name and the artifacts that carry it in this tier."""
    tiers = {}
    for artifact_id, extraction in final.items():
        tiers_of_name = [tier for tier, names in enumerate([[artifact_id], *extraction.names]) if name in names]
        if tiers_of_name:
            tiers[artifact_id] = max(0, tiers_of_name[0] - 1)
    if not tiers:
        in_any_case = [id for id, each in final.items() if each.fold_case and name.lower() in fold_names(id, each)]
        return 9, sorted(in_any_case)
    strongest = min(tiers.values())
    return strongest, [artifact_id for artifact_id in sorted(tiers) if tiers[artifact_id] == strongest]


def fold_names(artifact_id, extraction):
    return [name.lower() for names in [[artifact_id], *extraction.names] for name in names]


def candidates(link, final):
    """Return the artifacts that a link may mean; a resolved link has exactly one."""
    sides = [carriers(ref, final) for ref in (link.target_ref, link.or_ref) if ref is not None]
    single = sorted((tier, place, ids) for place, (tier, ids) in enumerate(sides) if len(ids) == 1)
    return single[0][2] if single else sorted({each for _, ids in sides for each in ids})


def expect(final):
    """Return the edges from and to each artifact, the unresolved links and the counts.

    The last item is the referrers of each text that is no id.
    """
    out, into = {name: set() for name in NAMES}, {name: set() for name in NAMES}
    unresolved, numbers, referrers = [], Counter(), {ref: set() for ref in REFS}
    for name, extraction in sorted(final.items()):
        for link in extraction.links:
            if link.target_source is not None:
                add(out[name], Edge(name, (link.target_source, link.target_ref), link.type, link.origin, link.weight))
                numbers[link.type, link.origin, "foreign"] += 1
                continue
            meant = candidates(link, final)
            state = ("dangling", "resolved", "ambiguous")[min(len(meant), 2)]
            numbers[link.type, link.origin, state] += 1
            if state != "resolved":
                unresolved.append(UnresolvedLink(name, link, tuple(meant)))
                assert unresolved[-1].state == state
                if link.target_ref not in final:
                    referrers[link.target_ref].add(name)
            elif meant != [name]:
                edge = Edge(name, meant[0], link.type, link.origin, link.weight)
                add(out[name], edge)
                add(into[meant[0]], edge)
                referrers[meant[0]].add(name)
    return {
        "out": [sorted(out[name], key=place) for name in NAMES],
        "in": [sorted(into[name], key=place) for name in NAMES],
        "unresolved": unresolved,
        "counts": [LinkCount(*key, count) for key, count in sorted(numbers.items())],
        "referrers": [sorted(referrers[ref]) for ref in REFS],
    }


def add(edges, edge):
    """Add an edge; of several with different weights, the heaviest stays."""
    equal = {other for other in edges if replace(other, weight=edge.weight) == edge}
    edges -= equal
    edges.add(max(edge, *equal, key=lambda each: each.weight) if equal else edge)


def place(edge):
    far = not isinstance(edge.target, str)
    return edge.type, far, edge.target, edge.source, edge.origin


def read_table(table):
    return {
        "out": table.neighbors(NAMES, "out", LinkFilter()),
        "in": table.neighbors(NAMES, "in", LinkFilter()),
        "unresolved": list(table.list_unresolved(None)),
        "counts": table.link_counts(),
        "referrers": [sorted(table.referrers(ref, LinkFilter())) for ref in REFS],
    }


def neighbors(connection, ids, direction, *, index=None, limit=None, **links):
    """Return the edges from an index that has read nothing before, unless one is passed."""
    request = Edges(ids, direction, LinkFilter(**links), limit)
    return (index or LinkIndex(Lock())).read(connection, request, None)


def read_file(connection):
    return {
        "out": neighbors(connection, NAMES, "out"),
        "in": neighbors(connection, NAMES, "in"),
        "unresolved": _links.unresolved_links(connection, UnresolvedLinks()),
        "counts": _links.link_counts(connection),
        "referrers": _links.referrers(connection, Referrers(REFS)),
    }


def tables():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    prepare_texts(connection)
    _create_tables(connection, "en")
    return closing(connection)


@pytest.mark.slow
@given(steps=STEPS)
@settings(max_examples=examples(100))
def test_after_any_writes_links_are_those_of_the_final_content(steps):
    table, index, final = LinkTable(), LinkIndex(Lock()), {}
    with tables() as connection:
        for puts, removals in steps:
            apply_change(connection, Change(changes(puts), removals))
            for name in removals:
                table.remove(name)
            for name, extraction in puts.items():
                table.put(name, extraction)
            final = {name: each for name, each in final.items() if name not in removals} | puts
            assert read_table(table) == expect(final)
            assert read_file(connection) == expect(final)
            # An index that saw all states before follows the changes.
            for direction in ("both", "in", "out"):
                followed = neighbors(connection, NAMES, direction, index=index)
                assert followed == neighbors(connection, NAMES, direction)
        check_alike(table, connection, sorted(final))


def check_alike(table, connection, ids_in_store):
    """Compare the answers of both under every filter, also for texts that are no ids."""
    for direction in ("out", "in", "both"):
        for limit, keys in ((None, {}), (1, {}), (None, {"types": ["r"]}), (2, {"exclude": ["r"]})):
            links = LinkFilter(**keys)
            answer = neighbors(connection, ids_in_store, direction, limit=limit, **keys)
            assert answer == table.neighbors(ids_in_store, direction, links, limit)
            assert answer == [edges[:limit] for edges in table.neighbors(ids_in_store, direction, links)]
    answer = counts(connection)
    assert {key: answer[key] for key in table.counts()} == table.counts()
    for ids in (["b", "a\0", "\ud800", "a", "b", "absent"], []):
        for limit in (None, 1):
            assert (
                _links.unresolved_links(connection, UnresolvedLinks(ids, limit))
                == list(table.list_unresolved(ids))[:limit]
            )
    refs = [*REFS, "absent", "a\0", "\ud800"]
    assert _links.names(connection, Names(refs)) == [table.resolve(ref) for ref in refs]
    nodes = [*refs, *(("else", ref) for ref in refs), ("oth\0er", "a"), ("none", "a"), "a"]
    for types in (None, ["r"], TYPES, []):
        links = LinkFilter(types=types)
        answer = _links.referrers(connection, Referrers(nodes, types))
        assert answer == [sorted(table.referrers(node, links)) for node in nodes]
        most = max(map(len, answer))
        assert [_links.max_fan_in(connection, LruCache(9), MaxFanIn(types)), table.max_fan_in(links)] == [most, most]


@pytest.mark.parametrize("direction", ["out", "in"])
def test_edges_are_read_from_one_index_without_sorting(direction):
    question = {"out": _links._OUT, "in": _links._IN}[direction].format(weight="weight")
    with tables() as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {question}", {"ids": "[]"}).fetchall()
    steps = [step for *_, step in plan if "json_each" not in step and "LIST" not in step]
    where = {"out": "PRIMARY KEY (artifact_id=?)", "in": "COVERING INDEX link_by_target (target=?)"}
    assert steps == [f"SEARCH link USING {where[direction]}"]


def test_unresolved_links_of_a_large_corpus_are_found_without_reading_the_others():
    with tables() as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT ref FROM link WHERE state IN ('dangling', 'ambiguous') "
            "ORDER BY artifact_id, position LIMIT 9"
        ).fetchall()
    assert [step for *_, step in plan] == ["SCAN link USING INDEX link_unresolved"]
