"""What is registered of a corpus: everything needed to build it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airw._base.messages import short_repr
from airw._base.text import NAME_RULE, is_valid_name
from airw.corpora.registry.kinds import make_source, storable_embedder, storable_params, storable_strategy
from airw.corpora.registry.schedules import Maintenance, maintenance_from
from airw.embedders import resolve_embedder
from airw.errors import ArgumentError
from airw.protocols import Source

__all__ = ["Definition", "check_name"]

_EVERY_DAY = Maintenance("interval", every_hours=24)


@dataclass(frozen=True, slots=True)
class Definition:
    """How a corpus is made: all of it JSON, with absolute paths.

    Args:
        name: The corpus's name.
        kind: What makes its source: `files`, `jsonl`, `notes`, `packages`, `records`, `reports` or `skills`.
        params: The parameters of that source; `from_notes` says those of `notes`, and so on.
        embedder: The specification of an embedder.
        strategy: An indexing strategy or its specification; `None` for the kind's own. Kept as a specification.
        maintenance: When `maintain` builds it; `None` for the kind's own.

    Raises:
        ArgumentError: A value cannot be used or kept.

    Example:
        >>> definition = Definition("vault", "notes", {"root": "/srv/vault"}, embedder="light")
        >>> definition.to_dict()["params"], definition.source().name
        ({'root': '/srv/vault'}, 'vault')
    """

    name: str
    kind: str
    params: Mapping[str, Any] = field(default_factory=dict)
    embedder: str = "default"
    strategy: Mapping[str, Any] | None = None
    maintenance: Maintenance | None = None

    def __post_init__(self) -> None:
        """Turn everything into what can be kept."""
        check_name(self.name)
        if not isinstance(self.params, Mapping):
            raise ArgumentError(f"params must map names to values, not {short_repr(self.params)}")
        object.__setattr__(self, "params", storable_params(self.params))
        object.__setattr__(self, "embedder", storable_embedder(self.embedder))
        object.__setattr__(self, "strategy", storable_strategy(self.strategy))
        object.__setattr__(self, "maintenance", maintenance_from(self.maintenance))

    @property
    def schedule(self) -> Maintenance:
        """Say when it is built: its own `maintenance`, else every 24 hours for `records`, else with each change."""
        return self.maintenance or (_EVERY_DAY if self.kind == "records" else Maintenance())

    def source(self) -> Source:
        """Make the source; nothing is read yet.

        Raises:
            ArgumentError: The kind or a parameter is not known, one is missing, or a value cannot be used; or the
                definition names a function that `AIRW_FETCHERS` does not allow to be imported.
        """
        resolve_embedder(self.embedder)
        return make_source(self.kind, self.name, self.params, self.embedder, self.strategy)

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "params": dict(self.params),
            "embedder": self.embedder,
            "strategy": None if self.strategy is None else dict(self.strategy),
            "maintenance": None if self.maintenance is None else self.maintenance.to_dict(),
        }


def check_name(name: object) -> str:
    """Give back what can name a corpus.

    Raises:
        ArgumentError: It cannot.
    """
    if isinstance(name, str) and is_valid_name(name):
        return name
    raise ArgumentError(f"{short_repr(name)} cannot name a corpus: use {NAME_RULE}")
