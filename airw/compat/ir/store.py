"""The store of a corpus, as `ir` reads it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, NoReturn, Self

from airw._base.arrays import Floats
from airw.compat._sync import close, keep_open, run
from airw.compat.ir.base import Record, ledger_key
from airw.corpora import find_corpus_path
from airw.errors import ArgumentError
from airw.protocols import Store
from airw.stores import MemoryStore, SqliteStore
from airw.values import LedgerEntry
from airw.values import Record as StoredRecord

_WHOLE = "airw writes whole artifacts, records, vectors, ledger and links at once: build(source), or upsert of airw"


class CorpusStore:
    """A store of airw, to be read as one of `ir`; it is written by `build`.

    Example:
        >>> len(CorpusStore.memory())
        0
    """

    def __init__(  # noqa: PLR0917 - as there
        self,
        meta: Any,
        vectors: Any,
        ledger: Any,
        config: Any,
        calibration: Any = None,
        links: Any = None,
        *,
        packed_dir: Any = None,
    ) -> None:
        """Raise an error that says what to write instead.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(
            "a corpus of airw is no set of mappings: write CorpusStore.memory(), CorpusStore.local(name), "
            "or give airw.build a Store of your own"
        )

    @classmethod
    def memory(cls) -> Self:
        """Make an empty store in memory."""
        return cls.over(MemoryStore())

    @classmethod
    def local(cls, name: str) -> Self:
        """Return the store of the corpus of that name; it is opened when it is first read, or built."""
        made = object.__new__(cls)
        made.name, made._opened = name, None
        return made

    @classmethod
    def over(cls, store: Store, *, owned: bool = False) -> Self:
        """Return a store of airw as one of `ir`; one that is owned is closed with it."""
        made = object.__new__(cls)
        made.name, made._opened = None, None
        made.settle(store, owned=owned)
        return made

    name: str | None
    """The name of the corpus, where the store was asked for by it."""
    _opened: Store | None

    def settle(self, store: Store, *, owned: bool) -> None:
        """Read this store from now on; one that is owned is closed with this one."""
        self._opened = store
        if owned:
            keep_open(self, store)

    @property
    def target(self) -> Any:
        """What `airw.build` is given to write here."""
        return self.name if self._opened is None else self._opened

    @property
    def opened(self) -> Store:
        """The store of airw.

        Raises:
            CorpusNotFound: There is no corpus of this name.
        """
        if self._opened is None:
            self.settle(run(SqliteStore.open, find_corpus_path(self.name or "")), owned=True)
        return self._opened  # type: ignore[return-value]

    def close(self) -> None:
        """Close it now; otherwise it is closed when the program ends, or nothing refers to it any more."""
        if self._opened is not None:
            close(self._opened)

    def __len__(self) -> int:
        """Count the records."""
        return run(self.opened.counts)["records"]

    def record_ids(self) -> Iterator[str]:
        """Iterate over the ids of all records."""
        return (id for entry in self._ledger() for id in entry.record_ids)

    def get_record(self, record_id: str) -> Record:
        """Return a record with its vector.

        Raises:
            KeyError: There is none of this id.
        """
        [record] = run(self.opened.get_records, [record_id])
        if record is None:
            raise KeyError(record_id)
        return self._with_vectors([record])[0]

    def records_of(self, artifact_id: str) -> list[Record] | None:
        """Return the records of an artifact in plan order; `None` for one that is not there."""
        [records] = run(self.opened.records_of, [artifact_id])
        return None if records is None else self._with_vectors(records)

    def matrix(self) -> tuple[list[str], Floats, list[dict[str, Any]]]:
        """Return the ids of all records, their vectors as rows of length one, and what else is known of each."""
        ids, metas = self.metas()
        return ids, run(self.opened.vectors, ids), metas

    def metas(self) -> tuple[list[str], list[dict[str, Any]]]:
        """Return the ids of all records, and what is known of each."""
        ids = list(self.record_ids())
        found = zip(ids, run(self.opened.get_records, ids), strict=True)
        metas = {id: _meta(record) for id, record in found if record is not None}
        return list(metas), list(metas.values())

    def get_ledger_entry(self, key: str) -> dict[str, Any] | None:
        """Return the entry of an artifact by `ledger_key(artifact_id)`; `None` where there is none."""
        return dict(self.ledger_items()).get(key)

    def ledger_items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Iterate over the keys and entries of all artifacts."""
        return ((ledger_key(entry.artifact_id), _row(entry)) for entry in self._ledger())

    def get_config(self) -> dict[str, Any]:
        """Return what the corpus was built with; empty before the first build."""
        config = run(self.opened.config)
        return {**config, "embedder_spec": config["embedder"]} if config else {}

    def get_calibration(self, mode: str) -> dict[str, Any] | None:
        """Return the calibration of a mode; `None` where there is none."""
        return run(self.opened.calibration, mode) or None

    def set_calibration(self, mode: str, record: Mapping[str, Any]) -> None:
        """Keep a calibration for a mode."""
        run(self.opened.set_calibration, mode, record)

    def calibration_modes(self) -> list[str]:
        """Return the modes that have a calibration."""
        return list(run(self.opened.calibration))

    def get_links(self, artifact_id: str) -> dict[str, list[Any]]:
        """Return the targets of an artifact's links by type: ids, `[source, id]` pairs, and what is not there."""
        return self._links([artifact_id])[artifact_id]

    def link_items(self) -> Iterator[tuple[str, dict[str, list[Any]]]]:
        """Iterate over the artifacts that have links."""
        links = self._links(run(self.opened.artifact_ids))
        return ((artifact_id, found) for artifact_id, found in links.items() if found)

    def put_record(self, *_: Any) -> NoReturn:
        """Raise an error that says what to write instead; so do all that write a part of an artifact.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(_WHOLE)

    delete_record = set_ledger_entry = delete_ledger_entry = set_links = delete_links = put_record
    set_config = set_maintenance_state = get_maintenance_state = put_record

    def _ledger(self) -> list[LedgerEntry]:
        return [entry for entry in run(self.opened.ledger) if entry is not None]

    def _with_vectors(self, records: list[StoredRecord]) -> list[Record]:
        rows = run(self.opened.vectors, [record.id for record in records])
        return [
            Record(each.id, each.artifact_id, each.surface_kind, each.surface_index, each.text, row, each.metadata)
            for each, row in zip(records, rows, strict=True)
        ]

    def _links(self, artifact_ids: list[str]) -> dict[str, dict[str, list[Any]]]:
        found: dict[str, dict[str, list[Any]]] = {id: defaultdict(list) for id in artifact_ids}
        for id, edges in zip(artifact_ids, run(self.opened.neighbors, artifact_ids), strict=True):
            for edge in edges:
                found[id][edge.type].append(list(edge.target) if isinstance(edge.target, tuple) else edge.target)
        for each in run(self.opened.unresolved_links, artifact_ids):
            found[str(each.source)][each.link.type].append(each.link.target_ref)
        return {id: dict(by_type) for id, by_type in found.items()}


def _row(entry: LedgerEntry) -> dict[str, Any]:
    return {**asdict(entry), "record_ids": list(entry.record_ids)}


def _meta(record: StoredRecord) -> dict[str, Any]:
    return {
        "artifact_id": record.artifact_id,
        "surface_kind": record.surface_kind,
        "surface_index": record.surface_index,
        "text": record.text,
        "metadata": dict(record.metadata),
    }
