"""Files of formats 6 and 7 that are written to, and what they answer then."""

import json
import subprocess
import sys

import anyio

import airw
from airw.protocols import Counts, Edges, UnresolvedLinks, ask
from tests.golden.files import (
    EXTRA,
    QUERIES,
    STARTS,
    WRONG,
    answers,
    digest,
    edge_row,
    find,
    format_of,
    open_own,
    outcome,
    report_row,
    source,
    unpack,
)

PARTS = ("notes-6", "notes-7", "logs-6", "logs-7", "records-6", "records-7", "wrong")
WAYS = ("sqlite asyncio",)
QUICK = ()


async def build_again(name, path, root):
    """Build a corpus from the documents that it has already: the answers that are others then."""
    async with open_own(name, path) as corpus:
        before = await answers(corpus, name)
    async with airw.build(source(name, root), store=path, on_error="skip") as corpus:
        rows = {"same documents": report_row(corpus.report)}
        after = await answers(corpus, name)
    rows["same documents, answers gone"] = sorted(before.keys() - after.keys())
    others = {key: value for key, value in after.items() if before.get(key, ()) != value}
    return rows | {f"same documents, {key}": value for key, value in others.items()}


async def change(name, path):
    """Upsert and delete documents of a corpus that was opened."""
    id, raw = EXTRA[name]
    async with open_own(name, path) as corpus:
        report = await corpus.upsert({id: raw, "new": raw})
        rows = {"upsert": report_row(report)["counts"]}
        rows["upsert, edges"] = [*map(edge_row, (await ask(corpus.store, Edges(["new"], "both")))[0])]
        rows["upsert, found"] = await find(corpus, "Upserted", k=3, mode="lexical")
        rows["delete"] = await corpus.delete(["new", STARTS[name][0], "unknown"])
        rows["delete, counts"] = await ask(corpus.store, Counts())
        unresolved = await ask(corpus.store, UnresolvedLinks())
        rows["delete, links that lead nowhere"] = [[each.source, each.link.target_ref] for each in unresolved]
    return rows


async def share(name, path):
    """Search a corpus that this process has open, and changes, in another process."""
    query = QUERIES[name][0]
    async with open_own(name, path) as corpus:
        rows = {"two processes": find_in_another_process(path, query)}
        await corpus.delete([hit.artifact_id for hit in await corpus.search(query, k=1, mode="lexical")])
        rows["two processes, after a change"] = find_in_another_process(path, query)
        rows["two processes, this one"] = await find(corpus, query, k=3, mode="lexical")
    return rows


async def build_others(name, path, root):
    """Build a corpus from other documents, and in another language."""
    rows, target = {}, {"store": path, "on_error": "skip"}
    language = "en" if name == "records" else None
    async with airw.build(source(name, root, first=True), language=language, **target) as corpus:
        rows["other documents"] = report_row(corpus.report)
        for query in QUERIES[name]:
            rows[f"other documents, other language: {query}"] = await find(corpus, query, k=4, mode="lexical")
    return rows


def find_in_another_process(path, query):
    """Return what the command line finds while this process has the file open."""
    command = [sys.executable, "-m", "airw", "search", str(path), query, "-k", "3", "--mode", "lexical", "--format"]
    done = subprocess.run([*command, "json"], capture_output=True, text=True, check=True, timeout=300)
    hits = [json.loads(line) for line in done.stdout.splitlines()]
    return [[hit["artifact_id"], hit["surface_kind"], hit["surface_index"], hit["score"]] for hit in hits]


async def wrong_files(folder):
    """Build what is in each wrong file again."""
    rows, logs = {}, source("logs", folder)
    for kind, spoil in WRONG.items():
        (folder / kind).mkdir()
        spoil(path := unpack("logs-7", folder / kind))
        before = digest(path)
        rows[kind] = [await outcome(build(logs, path)), "same bytes" if digest(path) == before else "other bytes"]
    return rows


async def build(documents, path, **options):
    async with airw.build(documents, store=path, on_error="skip", **options) as corpus:
        return report_row(corpus.report)["counts"]


def record(part, way, folder):
    if part == "wrong":
        return anyio.run(wrong_files, folder)
    name, path, root = part.partition("-")[0], unpack(part, folder), folder / "notes"

    async def run():
        rows = {}
        steps = {"same documents": build_again(name, path, root)}
        if name == "logs":
            steps["two processes"] = share(name, path)
        else:
            steps["upsert"] = change(name, path)
            steps["other documents"] = build_others(name, path, root)
        for label, step in steps.items():
            rows |= await step
            rows[f"{label}, format"] = format_of(path)
        return rows

    return anyio.run(run)
