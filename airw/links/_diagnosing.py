"""Measures a graph, and judges it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.errors import NoLedgerEntry
from airw.links._findings import judged
from airw.links._measures import Surroundings, cosines_of, gini, gold_linkage, quantiles, reach, surroundings
from airw.links._structure import EdgeTable, Ints, labelled, read_edges, sliced
from airw.links.diagnosis import GraphDiagnosis
from airw.protocols import Store
from airw.values import LinkCount, LinkFilter

__all__ = ["diagnosed"]

_HUBS = 5
_FEWEST = 30  # pairs of a kind: the error of a mean is then a fifth of the spread


async def diagnosed(
    store: Store, *, gold: Sequence[Sequence[Any]] | None, seed: int, has_vectors: bool
) -> GraphDiagnosis:
    """Measure all that a diagnosis says, and judge it."""
    table = await read_edges(store, LinkFilter())
    near = await in_thread(surroundings, table)
    labels = await sliced(labelled(table))
    rng = np.random.default_rng(seed)
    found = {
        **_of_links(await store.link_counts()),
        **await in_thread(_of_degrees, table, near, labels),
        "reach": await sliced(reach(near, len(table.ids), rng)),
        **(await _of_cosines(store, table, rng) if has_vectors else {}),
        **(await _of_gold(table, near, gold) if gold is not None else {}),
    }
    return judged(GraphDiagnosis(**found))


def _of_links(links: Sequence[LinkCount]) -> dict[str, Any]:
    total = sum(each.count for each in links)

    def share(state: str) -> float:
        return sum(each.count for each in links if each.state == state) / total if total else 0.0

    return {"links": tuple(links), "dangling": share("dangling"), "ambiguous": share("ambiguous")}


def _of_degrees(table: EdgeTable, near: Surroundings, labels: Ints) -> dict[str, Any]:
    count, edges = len(table.ids), len(table.sources)
    incoming = np.bincount(table.targets, minlength=count)
    most = np.argsort(-incoming, kind="stable")
    top = int(incoming[most[: max(1, count // 100)]].sum())
    return {
        "artifacts": count,
        "edges": edges,
        "isolated": float((np.diff(near.bounds) == 0).mean()) if count else 0.0,
        "largest_component": float(np.bincount(labels).max() / count) if count else 0.0,
        "in_degrees": quantiles(incoming),
        "out_degrees": quantiles(np.bincount(table.sources, minlength=count)),
        "in_gini": gini(incoming),
        "hub_share": top / edges if edges else 0.0,
        "hubs": tuple((table.ids[at], int(incoming[at])) for at in most[:_HUBS].tolist() if incoming[at]),
    }


async def _of_cosines(store: Store, table: EdgeTable, rng: np.random.Generator) -> dict[str, Any]:
    linked, random = await cosines_of(store, table, rng)
    if min(len(linked), len(random)) < _FEWEST:
        return {"pairs": len(linked)}
    spread = float(np.sqrt((linked.var(ddof=1) + random.var(ddof=1)) / 2))
    apart = float(linked.mean() - random.mean())
    return {
        "pairs": len(linked),
        "linked_cosine": float(linked.mean()),
        "random_cosine": float(random.mean()),
        "gain": apart / spread if spread else 0.0,
    }


async def _of_gold(table: EdgeTable, near: Surroundings, gold: Sequence[Sequence[Any]]) -> dict[str, Any]:
    places = {id: place for place, id in enumerate(table.ids)}
    for id in (id for each in gold for id in each if id not in places):
        raise NoLedgerEntry(f"the graph holds no artifact {short_repr(id)}; gold is made of artifacts by id")
    pairs, linked, close = await sliced(gold_linkage(near, [[places[id] for id in each] for each in gold]))
    shares = {"gold_linked": linked / pairs, "gold_near": close / pairs} if pairs else {}
    return {"gold_pairs": pairs, **shares}
