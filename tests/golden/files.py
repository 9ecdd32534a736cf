"""Files of formats 6 and 7, and what they answer.

The folder `files` beside this module holds them, as `NAME-FORMAT.airw.gz`, and the documents that they were made from.
`python -m tests.golden.files FOLDER` makes them, in FOLDER and with the format of the library that it finds. It made
those of format 7 with the commit that brought it. The parent of dfb9e5b, the last commit with format 6, made the
others: there this very program ran, with that working tree as its `PYTHONPATH`. They are never made again, as no later
library can make them, and are as airw left them: with free pages and tombstones, and without a log.

- `notes`: notes with links of all kinds, the embedder `"light"`, built floors and calibrated ones.
- `logs`: texts of few subjects, so that the build can measure floors; built once.
- `records`: records with odd ids, values of all kinds and two kinds of surfaces. Embedder, strategy and extractor are
  one's own. From format 7 on, words are kept as they are, and links have weights.

The other two were built twice, so that one document was removed and one replaced. Then one was upserted, and another
one deleted.
"""

import gzip
import hashlib
import json
import shutil
import sqlite3
import sys
import warnings
import zlib
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import anyio

import airw
from airw.corpora import BuildOptions, check_corpus_file, copy_corpus
from airw.evaluation import DiscoveryCase, calibrate_min_score
from airw.links import INVERSES, CorpusGraph, MarkdownLinks
from airw.policies import Beam, LinkWalk, PersonalizedPageRank, ReverseDependency
from airw.protocols import (
    ArtifactIds,
    Calibrations,
    Change,
    Config,
    Counts,
    Edges,
    Ledger,
    Matching,
    Names,
    RecordsOf,
    Referrers,
    Schema,
    Vectors,
    ask,
)
from airw.values import Extraction

FILES = Path(__file__).parent / "files"
PARTS = ("notes-6", "notes-7", "logs-6", "logs-7", "records-6", "records-7", "wrong")
WAYS = ("sqlite asyncio",)

# What a library can do whose files have format 7.
WEIGHTED = "weight" in [field.name for field in fields(airw.Link)]
LANGUAGE = {"language": None} if "language" in BuildOptions.__annotations__ else {}


# The documents, and how they are indexed


def documents(name):
    return json.loads((FILES / f"{name}.json").read_text(encoding="utf-8"))


def embed(texts):
    """Return a row of 16 numbers for each text: how often it has the words of each class."""
    rows = [[0.0] * 16 for _ in texts]
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().split():
            row[zlib.crc32(word.strip(".,:;").encode()) % 16] += 1
    return rows


OWN_EMBEDDER = airw.embedder_from(embed, id="words-16", dim=16)


class Cards:
    """A strategy of one's own: the title, then each line and each sentence of the text."""

    id = "cards-1"

    def decompose(self, artifact):
        title, text = artifact.raw.get("title"), artifact.raw.get("text", "")
        parts = [part.strip() for line in text.splitlines() for part in line.split(". ") if part.strip()]
        cards = [airw.Surface(artifact.id, "card", part, "chunk", {"card": at}) for at, part in enumerate(parts)]
        heads = [airw.Surface(artifact.id, "title", title, "field", {"cards": len(cards)})] if title else []
        return airw.IndexPlan(artifact.metadata, [*heads, *cards])


class See:
    """An extractor of one's own: the field `see`; a pair leads to another corpus.

    Later entries of the field weigh less.
    """

    id = "see-1"

    def extract(self, artifact, fields):
        links = []
        for at, entry in enumerate(fields.get("see", ())):
            source, ref = entry if isinstance(entry, list) else (None, entry)
            weight = {"weight": 1 / (at + 1)} if WEIGHTED else {}
            links.append(airw.Link(ref, f"see-{at}", "derived", target_source=source, line=at + 1, **weight))
        return Extraction(links, [[artifact.id]], fold_case=True)


def source(name, root, *, first=False):
    """Return the source of a corpus, as it was at the first build or is since the second one."""
    if name == "notes":
        notes = airw.from_notes(write_notes(root, first=first), name="notes", embedder="light")
        # As if they were in a folder that no machine has, so that the paths in the file are no others anywhere.
        return replace(notes, origin="/vault", metadata_of=lambda note, _: {"path": f"/vault/{note}"})
    if name == "logs":
        return airw.from_mapping(documents("logs"), name="logs", embedder="light", edge_extractor=MarkdownLinks())
    records = [dict(record) for record in documents("records") if first or record.get("id") != "gone"]
    for record in records:
        if record.get("id") == "changed" and not first:
            record.update(text="The second text, about nougat.", version=2, see=["gone", "2"])
    own = {"embedder": OWN_EMBEDDER, "strategy": Cards(), "edge_extractor": See()}
    return airw.from_records(records, name="records", **own)


def write_notes(root, *, first):
    shutil.rmtree(root, ignore_errors=True)
    for path, text in documents("notes").items():
        if path == "changed.md" and not first:
            text = "---\ntitle: Changed\nversion: 2\n---\nThe second text, about a quartz clock. [[gone]]\n"  # noqa: PLW2901
        if path != "gone.md" or first:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
    return root


EXTRA = {
    "notes": ("extra.md", "---\ntitle: Extra\nlinks: [{type: supports, id: weather}]\n---\nUpserted: a barometer."),
    "records": ("extra ✚", {"title": "Extra", "text": "Upserted: candied ginger.", "see": ["deep", "1"]}),
}
CASES = [
    *(DiscoveryCase(query, gold) for query, gold in [
        ("close the shutter by hand", "emergency.md"), ("dust on the lens", "telescope.md"),
        ("noise of the camera", "data/calibration.md"), ("dark lines of a star", "science/spectrum.md"),
        ("wheels of iron", "dome/wheels.md"), ("two disks", "data/backup.md")]),
    *map(DiscoveryCase, ["price of a train ticket", "who won the match", "bake a loaf of bread", "capital of Peru",
                         "cure for a headache", "repair a bicycle"]),
]  # fmt: skip


async def make(name, path):
    """Make the file of a corpus with the library that this program finds."""
    options = {"store": path, "on_error": "skip", **(LANGUAGE if name == "records" else {})}
    async with airw.build(source(name, path.parent / "root", first=True), **options):
        pass
    if name == "logs":
        return
    async with airw.build(source(name, path.parent / "root"), **options) as corpus:
        id, raw = EXTRA[name]
        await corpus.upsert({id: raw, "deleted": raw})
        await corpus.delete(["deleted"])
        await corpus.store.apply(Change(calibrations={"own key": {"floor": 0.25, "none": None, "list": [1, "é"]}}))
        if name == "notes":
            for mode in ("dense", "lexical", "hybrid"):
                await calibrate_min_score(corpus, CASES, mode=mode, persist=True)


# What a file answers

QUERIES = {
    "notes": [
        "close the dome in rain",
        "the light of a bright star",
        "Größere",
        "月は明るい",
        "price of a train ticket",
    ],
    "logs": ["rain closed the dome at midnight", "lines in the light of a star", "who won the match", "a train ticket"],
    "records": ["bake the bread for an hour", "egg sugar caramel", "the of and to", "crème", "quantum Варите"],
}
FILTERS = {
    "notes": [
        {"title": "Slit"},
        {"working": True},
        {"lens.diameter": {"$gte": 0.65}},
        {"value": {"$lt": 100}},
        {"tags": "iron"},
        {"opened": {"$gt": "1931-01-01"}},
        {"width": None},
        {"path": {"$contains": "data"}},
        {"cooled": {"$ne": -110}},
    ],
    "records": [
        {"minutes": 60},
        {"minutes": {"$gt": 9007199254740992}},
        {"minutes": {"$in": [15, 7.5, "12"]}},
        {"rating": {"$gte": 0}},
        {"big": 123456789012345678901234567890},
        {"huge": {"$gt": 1e300}},
        {"note": None},
        {"note": {"$exists": True}},
        {"vegan": False},
        {"vegan": 1},
        {"tags": "crème"},
        {"tags": []},
        {"mixed": None},
        {"where.shelf.row": {"$lte": 3}},
        {"where.shelf": "a literal key with a dot"},
        {"100%": True},
        {"$or": [{"$not": {"minutes": {"$gt": 3}}}, {"$and": [{"tags": "bread"}, {"vegan": True}]}]},
        {"card": 2},
        {"unknown": 1},
    ],
}
MATCHING = {
    "notes": [("tags", "grease"), ("value", 100.0), ("working", True), ("lens.glass", "flint"), ("width", None)],
    "records": [("tags", "魚"), ("minutes", 60), ("note", None), ("rating", 0), ("mixed", 1), ("where.shelf.row", 1)],
}
REFS = {
    "notes": ["slit", "Slit", "instruments/slit", "CCD", "wheels-40", "/dome/", "lúna", "café", "TELESCOPE", "no"],
    "records": ["7", "7.5", "щи", "RYE BREAD", "e\u0301", "É", "recipes_20", "' or 1=1 --", "no"],
}
PATHS = {
    "notes": [
        ("plans/evening.md", "science/spectrum.md"),
        ("dome/wheels.md", "data/header.md"),
        ("stub.md", "index.md"),
    ],
    "records": [("🥖🧀", "7"), ("long", "1"), ("same-1", "1")],
}
STARTS = {"notes": ["telescope.md", "dome/index.md"], "logs": ["1931-05-10"], "records": ["rye bread", "long"]}
DEPENDENCY = {"notes": "part-of", "records": "see-0"}
POLICIES = {
    "default": lambda name: None,
    "links both ways": lambda name: LinkWalk(roots=STARTS[name]),
    "links out, by cost": lambda name: LinkWalk(roots=STARTS[name], direction="out", weighted=True, max_depth=3),
    "links in, by inverse": lambda name: LinkWalk(roots=STARTS[name], direction="in", inverses=INVERSES),
    "page rank": lambda name: PersonalizedPageRank(),
    "beam": lambda name: Beam(),
    "reverse dependency": lambda name: ReverseDependency(seeds=STARTS[name], edge_type=DEPENDENCY[name]),
}


def short(text):
    return text if len(text) <= 40 else f"{text[:40]}… {len(text)}"


def marks(hits):
    return [[hit.artifact_id, hit.surface_kind, hit.surface_index, hit.score] for hit in hits]


def edge_row(edge):
    return [edge.source, edge.type, edge.target, edge.origin, edge.weight]


def link_row(link):
    row = {field.name: getattr(link, field.name) for field in fields(link)}
    return {key: value for key, value in row.items() if value not in (None, 1.0) or key == "target_ref"}


async def outcome(call):
    """Return what a call returns, or the type of its error."""
    try:
        return await call
    except airw.AirwError as error:
        public = next(kind for kind in type(error).__mro__ if kind.__module__ == "airw.errors")
        return {"error": public.__name__}


async def content(corpus):
    """Return what a corpus contains: settings, the ledger, records and vectors."""
    store = corpus.store
    ids, entries = await ask(store, ArtifactIds()), await ask(store, Ledger())
    rows = {"name": corpus.name, "embedder": corpus.embedder_id, "ids": ids, "counts": await ask(store, Counts())}
    rows |= {f"setting {key}": value for key, value in (await ask(store, Config())).items()}
    for key, value in (await ask(store, Calibrations())).items():
        rows[f"calibration {key}"] = {**value, "grid": len(value["grid"])} if "grid" in value else value
    rows["kinds"], rows["fields"] = (await ask(store, Schema())).kinds, (await ask(store, Schema())).fields
    rows["ledger versions"] = {entry.artifact_id: entry.version for entry in entries}
    for entry in entries:
        recipe = f"ledger of {entry.source!r}: {entry.embedder_id}, {entry.strategy_id}, {entry.extractor_id}"
        rows.setdefault(recipe, []).append(entry.artifact_id)
    for id, records in zip(ids, await ask(store, RecordsOf(ids)), strict=True):
        rows[f"records {id}"] = [
            [each.id, each.surface_kind, each.surface_index, short(each.text)] for each in records
        ] + [records[0].metadata if records else None]
        vectors = await ask(store, Vectors([each.id for each in records]))
        rows[f"vectors {id}"] = [[int((row != 0).sum()), float(row[row != 0][:3].sum())] for row in vectors]
    return rows


async def findings(corpus, name):
    """Return what searches of a corpus find, and what a discovery selects."""
    rows = {}
    for query in QUERIES[name]:
        for mode in ("dense", "lexical", "hybrid"):
            rows[f"search {mode}: {query}"] = await outcome(find(corpus, query, k=6, mode=mode))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = await airw.discover(corpus, query)
        rows[f"discover: {query}"] = [result.ids, result.reason, result.n_retrieved, "warned" * bool(warned)]
        if name == "logs":
            result = await airw.discover(corpus, query, mode="dense")
            rows[f"discover dense: {query}"] = [result.ids, result.reason, result.n_retrieved]
    for fusion in ("ranks", "blend", "rrf"):
        options = {"k": 6, "per_artifact": False, "fusion": fusion}
        rows[f"search records, {fusion}: {QUERIES[name][0]}"] = await find(corpus, QUERIES[name][0], **options)
    for condition in FILTERS.get(name, ()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", airw.errors.UnknownFieldWarning)
            hits = await corpus.search(QUERIES[name][0], mode="dense", k=50, filter=condition)
        rows[f"filter {json.dumps(condition, ensure_ascii=False)}"] = sorted(hit.artifact_id for hit in hits)
    for kind in (await ask(corpus.store, Schema())).kinds:
        rows[f"search {kind}: {QUERIES[name][0]}"] = await find(corpus, QUERIES[name][0], k=4, surfaces=[kind])
    return rows


async def find(corpus, query, **options):
    return marks(await corpus.search(query, **options))


async def walks(corpus, name):
    """Return the hits of walks: the artifact, its score, depth and parent."""
    rows = {}
    for label, make_policy in POLICIES.items():
        walk = airw.traverse(QUERIES[name][0], corpus, policy=make_policy(name), node_budget=15)
        hits = [hit async for hit in walk]
        steps = [[hit.artifact_id, hit.score, hit.metadata["walk_depth"], hit.metadata["walk_parent"]] for hit in hits]
        rows[f"walk {label}"] = steps
        rows[f"walk {label}, summary"] = {
            key: value for key, value in walk.summary.to_dict().items() if key != "seconds"
        }
    return rows


async def graph_rows(corpus, name):
    """Return the edges of each artifact, paths, names, and links that lead nowhere."""
    graph, store = CorpusGraph(corpus), corpus.store
    ids = await ask(store, ArtifactIds())
    rows = {
        f"edges {id}": [edge_row(edge) for edge in edges]
        for id, edges in zip(ids, await graph.neighbors(ids, direction="both"), strict=True)
    }
    for start, end in PATHS[name]:
        for weighted in (False, True):
            path = await graph.path(start, end, weighted=weighted)
            row = [path.nodes, path.cost, [edge_row(edge) for edge in path.edges], dict(path.left_out)]
            rows[f"path {start} to {end}{', by cost' * weighted}"] = row
    unresolved = await graph.unresolved_links()
    rows["unresolved"] = [[each.source, each.state, each.candidates, link_row(each.link)] for each in unresolved]
    rows["link counts"] = [[each.type, each.origin, each.state, each.count] for each in await graph.link_counts()]
    rows["names"] = dict(zip(REFS[name], await ask(store, Names(REFS[name])), strict=True))
    rows["matching"] = [*zip(MATCHING[name], await ask(store, Matching(MATCHING[name])), strict=True)]
    rows["fan in"] = {
        id: count
        for id, count in zip(ids, [len(ids) for ids in await ask(store, Referrers(ids))], strict=True)
        if count
    }
    rows["groups"] = await graph.components()
    rows["cycles"] = [[cycle.members, cycle.nodes] for cycle in await graph.cycles()]
    return rows


async def answers(corpus, name):
    """Return all that a corpus answers; of logs, only what depends on their floors."""
    rows = await content(corpus) | await findings(corpus, name)
    return rows if name == "logs" else rows | await walks(corpus, name) | await graph_rows(corpus, name)


# How a file is opened


def unpack(part, folder):
    """Return the path of a copy of a file, unpacked."""
    path = folder / "copy.airw"
    path.write_bytes(gzip.decompress((FILES / f"{part}.airw.gz").read_bytes()))
    return path


def format_of(path):
    """Return the number of the format that a file names, read without airw.

    Nobody may have the file open.
    """
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def open_own(name, path):
    """Open a corpus with what its settings cannot name."""
    own = {"embedder": OWN_EMBEDDER, "strategy": Cards(), "edge_extractor": See()} if name == "records" else {}
    return airw.open_corpus(path, **own)


async def read_file(name, path):
    """Return what a file answers that is opened and only read."""
    before = digest(path)
    async with open_own(name, path) as corpus:
        rows = await answers(corpus, name)
    if name == "records":
        async with airw.open_corpus(path) as corpus:
            for mode in ("dense", "lexical", "hybrid"):
                rows[f"without its embedder, {mode}"] = await outcome(find(corpus, "rye", k=3, mode=mode))
            rows["without its strategy, upsert"] = await outcome(corpus.upsert({"new": {"text": "new"}}))
    rows["with another embedder"] = await outcome(open_with(path, airw.embedder_from(embed, id="other", dim=16)))
    rows["format after reading"] = format_of(path)
    rows["same bytes after reading"] = digest(path) == before
    rows["files after reading"] = sorted(each.name for each in path.parent.iterdir())
    rows["faults"] = await check_corpus_file(path)
    rows["format of a copy"] = format_of(await copy_corpus(path, path.with_name("second.airw")))
    return rows


async def open_with(path, embedder):
    async with airw.open_corpus(path, embedder=embedder):
        return "open"


# Files that are no corpus, or not one of this version


def patch(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def cut(path, share):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def replace_by_foreign(path, *statements):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("CREATE TABLE t (x)", *statements):
            connection.execute(statement)
        connection.commit()


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


WRONG = {
    "whole": lambda path: None,
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "a folder": replace_by_folder,
    "a text": lambda path: path.write_text("# Notes\n" * 2000),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "cut in the header": lambda path: path.write_bytes(path.read_bytes()[:60]),
    "cut after a page": lambda path: path.write_bytes(path.read_bytes()[:8192]),
    "cut in half": lambda path: cut(path, 0.5),
    "of format 5": lambda path: patch(path, "PRAGMA user_version = 5"),
    "of format 6, but with weights": lambda path: patch(path, "PRAGMA user_version = 6"),
    "of format 9": lambda path: patch(path, "PRAGMA user_version = 9"),
    "of format 99": lambda path: patch(path, "PRAGMA user_version = 99"),
    "of another application": replace_by_foreign,
    "of another application, format 7": lambda path: replace_by_foreign(path, "PRAGMA user_version = 7"),
    "only marked as ours": lambda path: replace_by_foreign(path, f"PRAGMA application_id = {0x61697277}",
                                                            "PRAGMA user_version = 7"),
    "without a table": lambda path: patch(path, "DROP TABLE name"),
    "with a trigger": lambda path: patch(path, "CREATE TRIGGER t AFTER INSERT ON link BEGIN SELECT 1; END"),
    "with a table more": lambda path: patch(path, "CREATE TABLE mine (x)"),
    "with metadata that are no JSON": lambda path: patch(path, "UPDATE record SET metadata = '{'"),
    "with a vector cut short": lambda path: patch(path, "UPDATE vector SET data = substr(data, 1, 8)"),
    "with settings that are no JSON": lambda path: patch(path, "UPDATE setting SET value = '{'"),
    "without settings": lambda path: patch(path, "DELETE FROM setting WHERE kind = 'config'"),
    "without vectors": lambda path: patch(path, "DELETE FROM vector"),
}  # fmt: skip


async def try_all(path):
    """Return what each attempt to use a file yields, and whether it is as it was."""
    before, rows = digest(path), {"open": await outcome(open_with(path, None))}
    if "error" not in rows["open"]:
        async with airw.open_corpus(path) as corpus:
            rows["settings"] = await outcome(count(ask(corpus.store, Config())))
            rows["records"] = await outcome(count(ask(corpus.store, RecordsOf(STARTS["logs"]))))
            rows["edges"] = await outcome(count(ask(corpus.store, Edges(STARTS["logs"]))))
            for mode in ("dense", "lexical"):
                rows[mode] = await outcome(count(corpus.search("dome", k=2, mode=mode)))
    rows["faults"] = await outcome(count(check_corpus_file(path)))
    rows["copy"] = await outcome(copy(path))
    rows["same bytes"] = digest(path) == before
    return rows


async def count(answer):
    return len(await answer)


async def copy(path):
    return (await copy_corpus(path, path.with_name("second.airw"))).name


def report_row(report):
    floors = {mode: [floor.reason, floor.min_evidence] for mode, floor in report.floors.items()}
    counts = {name: getattr(report, name) for name in ("added", "updated", "unchanged", "removed")}
    return {"counts": counts, "problems": sorted({each.item for each in report.problems}), "floors": floors}


async def wrong_files(folder):
    rows = {}
    for kind, spoil in WRONG.items():
        (folder / kind).mkdir()
        spoil(path := unpack("logs-7", folder / kind))
        rows[kind] = await try_all(path)
    return rows


def record(part, way, folder):
    if part == "wrong":
        return anyio.run(wrong_files, folder)
    return anyio.run(read_file, part.partition("-")[0], unpack(part, folder))


def main(folder):
    for name in ("notes", "logs", "records"):
        path = Path(folder, f"{name}.airw").absolute()
        anyio.run(make, name, path)
        target = path.with_name(f"{name}-{format_of(path)}.airw.gz")
        target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        print(f"{target.name}: {path.stat().st_size} bytes, packed {target.stat().st_size}")


if __name__ == "__main__":
    main(*sys.argv[1:])
