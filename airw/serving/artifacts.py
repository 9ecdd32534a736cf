"""The endpoints of one artifact: `GET`, `PUT` and `DELETE /artifact`."""

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from airw._base.concurrency import offload_if
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.corpora import Corpus
from airw.discovery import disclose
from airw.discovery.disclosure import LEVELS
from airw.discovery.selection import Selection
from airw.errors import ArgumentError, NoLedgerEntry
from airw.protocols import Edges, Ledger, OpenCorpus, RecordsOf, ask
from airw.serving.bodies import FieldKinds, check_texts_of
from airw.serving.corpora import LONGEST_WAIT
from airw.serving.queries import check_disclosure, check_ids, take_text
from airw.serving.readable_files import open_roots
from airw.serving.service import ApiCall
from airw.stores import MemoryStore, SqliteStore
from airw.values import LedgerEntry, Record
from airw.views import edge_dict

READ_FIELDS: FieldKinds = {"corpus": str, "id": str, "level": str, "timeout": float}

PUT_FIELDS: FieldKinds = {"corpus": str, "id": str, "value": (str, dict), "timeout": float}

DELETE_FIELDS: FieldKinds = {"corpus": str, "id": str, "timeout": float}

_MOST = 1_000  # records, and links, in one answer
_MANY = 20  # records; encoding more takes about a millisecond


async def read_artifact(call: ApiCall) -> Response:
    """Answer `GET /artifact`: the records of one artifact, its ledger entry and its links.

    With `level`, the answer has `disclosure`, too: the metadata, the body or the bundle of the artifact.
    """
    fields = call.fields(READ_FIELDS, of="/artifact")
    name, [id] = take_text(fields, "corpus"), check_ids("id", [fields.get("id", "")], most=1)
    level = fields.get("level")
    if level is not None and level not in LEVELS:
        raise ArgumentError(f"level must be one of {', '.join(map(repr, LEVELS))}, not {short_repr(level)}")
    if level not in (None, "metadata"):
        check_disclosure(call, "level")
    corpus = await call.open(name)
    with call.deadline():
        records = await _read_records(corpus, id)
        is_long = len(records) > _MANY
        ledger = await _read_ledger(corpus, id)
        answer: dict[str, Any] = {
            "corpus": name,
            "id": id,
            "records": await offload_if(is_long, lambda: [_record_dict(record) for record in records]),
            "records_left_out": ledger["n_records"] - len(records) if ledger is not None else None,
            "ledger": ledger,
            "links": await _read_links(corpus, id),
        }
        if level is not None:
            answer["disclosure"] = await _disclose(call, corpus, records, level)
    return await call.answer(await offload_if(is_long, call.hide_paths, answer), is_long=is_long)


async def _read_records(corpus: OpenCorpus, id: str) -> Sequence[Record]:
    """Return the first records of an artifact.

    Raises:
        NoLedgerEntry: If there is no such artifact.
    """
    [records] = await ask(corpus.store, RecordsOf([id], limit=_MOST))
    if records is None:
        raise NoLedgerEntry(f"corpus {corpus.name!r} contains no artifact {short_repr(id)}")
    return records


async def _read_ledger(corpus: OpenCorpus, id: str) -> dict[str, Any] | None:
    """Return what the ledger says of an artifact; `None` if the store has no ledger."""
    if "ledger" not in corpus.store.capabilities:
        return None
    [entry] = await ask(corpus.store, Ledger([id]))
    return None if entry is None else _ledger_dict(entry)


def _ledger_dict(entry: LedgerEntry) -> dict[str, Any]:
    return {
        "version": entry.version,
        "embedder_id": entry.embedder_id,
        "strategy_id": entry.strategy_id,
        "extractor_id": entry.extractor_id,
        "source": entry.source,
        "n_records": len(entry.record_ids),
    }


async def _read_links(corpus: OpenCorpus, id: str) -> dict[str, Any] | None:
    """Return the links from and to an artifact; `None` if the store has no links."""
    if "edges" not in corpus.store.capabilities:
        return None
    [edges] = await ask(corpus.store, Edges([id], "both", limit=_MOST + 1))
    return {"edges": [edge_dict(edge) for edge in edges[:_MOST]], "truncated": len(edges) > _MOST}


def _record_dict(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "artifact_id": record.artifact_id,
        "surface_kind": record.surface_kind,
        "surface_index": record.surface_index,
        "text": record.text,
        "metadata": json_clean(record.metadata),
    }


async def _disclose(call: ApiCall, corpus: OpenCorpus, records: Sequence[Record], level: Any) -> Any:
    """Return the disclosure of an artifact; `None` if it has no record."""
    if not records:
        return None
    hit = records[0].as_hit(1.0, corpus.name)
    selection = Selection([hit], [hit], abstained=False, reason="single")
    [disclosure] = await disclose(selection, level=level, roots=await open_roots(call))
    return {key: value for key, value in disclosure.to_dict().items() if key not in ("score", "source")}


async def put_artifact(call: ApiCall) -> Response:
    """Answer `PUT /artifact`: insert an artifact, or replace the one with this id.

    The answer comes once the change is written: the next search finds it. Its `durability` states what the change
    survives from then on: `"full"`, a power failure; `"normal"`, a kill of the server's process; `"memory"`, neither;
    `"server"`, what the database server promises. Corpora that are served by name or path have the full one.

    Changes of one corpus wait for each other, and for a build, for at most a second each. Then the answer is 409, and
    nothing was changed. A client that gets no answer does not know; it may send the request again.
    """
    fields = call.fields(PUT_FIELDS, of="/artifact")
    name, [id] = take_text(fields, "corpus"), check_ids("id", [fields.get("id", "")], most=1)
    call.caller.require_write(name)
    value = fields.get("value")
    if value is None:
        raise ArgumentError("value is missing; send a text, or an object of fields")
    check_texts_of({"id": id, "value": value}, allow_nul=False)
    corpus = await _open_writable(call, name)
    async with call.service.corpora.changing(name):
        with call.deadline():
            report = await corpus.upsert({id: value}, lock_timeout=LONGEST_WAIT)
    counts = {"added": report.added, "updated": report.updated, "unchanged": report.unchanged}
    return await call.answer({"corpus": name, "id": id, **counts, "durability": durability_of(corpus)})


async def delete_artifact(call: ApiCall) -> Response:
    """Answer `DELETE /artifact`: delete an artifact; 200 whether it was there or not.

    What the answer promises is that of `put_artifact`.
    """
    fields = call.fields(DELETE_FIELDS, of="/artifact")
    name, [id] = take_text(fields, "corpus"), check_ids("id", [fields.get("id", "")], most=1)
    call.caller.require_write(name)
    corpus = await _open_writable(call, name)
    async with call.service.corpora.changing(name):
        with call.deadline():
            deleted = await corpus.delete([id], lock_timeout=LONGEST_WAIT)
    return await call.answer({"corpus": name, "id": id, "deleted": deleted, "durability": durability_of(corpus)})


async def _open_writable(call: ApiCall, name: str) -> Corpus:
    """Return an open corpus that can be changed.

    Raises:
        ArgumentError: If it cannot, such as a corpus on another machine.
    """
    corpus = await call.open(name)
    if not isinstance(corpus, Corpus):
        raise ArgumentError(f"corpus {name!r} cannot be changed through this server")
    return corpus


def durability_of(corpus: OpenCorpus) -> str:
    """Return what a change of the corpus survives, once it is acknowledged."""
    if isinstance(corpus.store, SqliteStore):
        return corpus.store.durability
    return "memory" if isinstance(corpus.store, MemoryStore) else "server"
