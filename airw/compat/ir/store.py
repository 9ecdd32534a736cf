"""The store of a corpus with the methods of `ir`."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, NoReturn, Self

from airw._base.arrays import Floats
from airw._base.background import close, close_with_owner
from airw.compat._sync import run
from airw.compat.ir.base import Record, ledger_key
from airw.corpora import find_location, open_store
from airw.corpora.floors import is_built_key
from airw.errors import ArgumentError
from airw.protocols import Store
from airw.stores import MemoryStore
from airw.values import LedgerEntry
from airw.values import Record as StoredRecord

_WRITE_WHOLE = "a store of airw is written by whole artifacts only: call build(source), or upsert of airw"


class CorpusStore:
    """A store of airw that can be read as one of `ir`; `build` writes it.

    Example:
        >>> len(CorpusStore.memory())
        0
    """

    def __init__(  # noqa: PLR0917 - the signature of `ir`
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
        """Raise an error that names the replacement.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(
            "CorpusStore cannot be made of mappings: call CorpusStore.memory() or CorpusStore.local(name), "
            "or pass airw.build a Store of your own"
        )

    @classmethod
    def memory(cls) -> Self:
        """Make an empty store in memory."""
        return cls.over(MemoryStore())

    @classmethod
    def local(cls, name: str) -> Self:
        """Return the store of a corpus by name; it is opened on first use."""
        store = object.__new__(cls)
        store.name, store._opened = name, None
        return store

    @classmethod
    def over(cls, store: Store, *, owned: bool = False) -> Self:
        """Return a store of airw as one of `ir`; if `owned`, it is closed with this one."""
        facade = object.__new__(cls)
        facade.name, facade._opened = None, None
        facade.set_store(store, owned=owned)
        return facade

    name: str | None
    """The name of the corpus, if the store was opened by name."""
    _opened: Store | None

    def set_store(self, store: Store, *, owned: bool) -> None:
        """Use another store of airw from now on; if `owned`, it is closed with this one."""
        self._opened = store
        if owned:
            close_with_owner(self, store)

    @property
    def build_target(self) -> Any:
        """The `store` argument of `airw.build` that writes this store."""
        return self.name if self._opened is None else self._opened

    @property
    def opened(self) -> Store:
        """The store of airw.

        Raises:
            CorpusNotFound: If there is no corpus with this name.
        """
        if self._opened is None:
            self.set_store(run(open_store, find_location(self.name or "").place), owned=True)
        return self._opened  # type: ignore[return-value]

    def close(self) -> None:
        """Close the store now.

        Otherwise it is closed when the program ends or this object is garbage-collected.
        """
        if self._opened is not None:
            close(self._opened)

    def __len__(self) -> int:
        """Return the number of records."""
        return run(self.opened.counts)["records"]

    def record_ids(self) -> Iterator[str]:
        """Iterate over the ids of all records."""
        return (id for entry in self._ledger() for id in entry.record_ids)

    def get_record(self, record_id: str) -> Record:
        """Return a record with its vector.

        Raises:
            KeyError: If there is no record with this id.
        """
        [record] = run(self.opened.get_records, [record_id])
        if record is None:
            raise KeyError(record_id)
        return self._with_vectors([record])[0]

    def records_of(self, artifact_id: str) -> list[Record] | None:
        """Return the records of an artifact in plan order, or `None` if there is no such artifact."""
        [records] = run(self.opened.records_of, [artifact_id])
        return None if records is None else self._with_vectors(records)

    def matrix(self) -> tuple[list[str], Floats, list[dict[str, Any]]]:
        """Return the ids, vectors (unit rows) and fields of all records."""
        ids, metas = self.metas()
        return ids, run(self.opened.vectors, ids), metas

    def metas(self) -> tuple[list[str], list[dict[str, Any]]]:
        """Return the ids and the fields of all records."""
        ids = list(self.record_ids())
        pairs = zip(ids, run(self.opened.get_records, ids), strict=True)
        metas = {id: _meta(record) for id, record in pairs if record is not None}
        return list(metas), list(metas.values())

    def get_ledger_entry(self, key: str) -> dict[str, Any] | None:
        """Return the ledger entry with the key `ledger_key(artifact_id)`, or `None`."""
        return dict(self.ledger_items()).get(key)

    def ledger_items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Iterate over the keys and ledger entries of all artifacts."""
        return ((ledger_key(entry.artifact_id), _to_dict(entry)) for entry in self._ledger())

    def get_config(self) -> dict[str, Any]:
        """Return the settings of the last build; empty before the first build."""
        config = run(self.opened.config)
        return {**config, "embedder_spec": config["embedder"]} if config else {}

    def get_calibration(self, mode: str) -> dict[str, Any] | None:
        """Return the calibration of a mode, or `None` if there is none."""
        return run(self.opened.calibration, mode) or None

    def set_calibration(self, mode: str, record: Mapping[str, Any]) -> None:
        """Store the calibration of a mode."""
        run(self.opened.set_calibration, mode, record)

    def calibration_modes(self) -> list[str]:
        """Return the modes that have a calibration."""
        # The floors that builds measure are no calibrations.
        return [mode for mode in run(self.opened.calibration) if not is_built_key(mode)]

    def get_links(self, artifact_id: str) -> dict[str, list[Any]]:
        """Return the link targets of an artifact by type.

        They are ids, `[source, id]` pairs for other corpora, and references that are not resolved.
        """
        return self._links([artifact_id])[artifact_id]

    def link_items(self) -> Iterator[tuple[str, dict[str, list[Any]]]]:
        """Iterate over the artifacts that have links, with their targets by type."""
        links = self._links(run(self.opened.artifact_ids))
        return ((artifact_id, by_type) for artifact_id, by_type in links.items() if by_type)

    def put_record(self, *_: Any) -> NoReturn:
        """Raise an error that names the replacement, as all methods that write parts do.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(_WRITE_WHOLE)

    delete_record: Final = put_record
    set_ledger_entry: Final = put_record
    delete_ledger_entry: Final = put_record
    set_links: Final = put_record
    delete_links: Final = put_record
    set_config: Final = put_record
    set_maintenance_state: Final = put_record
    get_maintenance_state: Final = put_record

    def _ledger(self) -> list[LedgerEntry]:
        return [entry for entry in run(self.opened.ledger) if entry is not None]

    def _with_vectors(self, records: list[StoredRecord]) -> list[Record]:
        rows = run(self.opened.vectors, [record.id for record in records])
        return [
            Record(
                record.id,
                record.artifact_id,
                record.surface_kind,
                record.surface_index,
                record.text,
                row,
                record.metadata,
            )
            for record, row in zip(records, rows, strict=True)
        ]

    def _links(self, artifact_ids: list[str]) -> dict[str, dict[str, list[Any]]]:
        targets: dict[str, dict[str, list[Any]]] = {id: defaultdict(list) for id in artifact_ids}
        for id, edges in zip(artifact_ids, run(self.opened.neighbors, artifact_ids), strict=True):
            for edge in edges:
                targets[id][edge.type].append(list(edge.target) if isinstance(edge.target, tuple) else edge.target)
        for unresolved in run(self.opened.unresolved_links, artifact_ids):
            targets[str(unresolved.source)][unresolved.link.type].append(unresolved.link.target_ref)
        return {id: dict(by_type) for id, by_type in targets.items()}


def _to_dict(entry: LedgerEntry) -> dict[str, Any]:
    return {**asdict(entry), "record_ids": list(entry.record_ids)}


def _meta(record: StoredRecord) -> dict[str, Any]:
    return {
        "artifact_id": record.artifact_id,
        "surface_kind": record.surface_kind,
        "surface_index": record.surface_index,
        "text": record.text,
        "metadata": dict(record.metadata),
    }
