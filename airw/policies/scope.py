"""Which artifacts a walk may start from, cross and return."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.values.filters import And, Filter, Or, matches, parse_filter


class Verdict(NamedTuple):
    """What a scope says of one artifact."""

    start: bool
    cross: bool
    keep: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Three metadata filters on the artifacts of a walk; `None` lets all through.

    They are asked of the surface by which an artifact scores: its best one, or the one that the search for the start
    found among those that satisfy `start`. An artifact that may be crossed but not kept only routes, one that may be
    kept but not crossed is a hit with nothing behind it, and one that may be neither is passed over as if it were not
    there. What a limit of a policy counts are artifacts that are not passed over.

    Args:
        start: What a walk may start from, whether found by search or given by id.
        cross: What it may follow links or shared metadata from.
        keep: What it may return.

    Raises:
        FilterError: A filter is malformed; see `airw.values.filters` for what can be said.

    Example:
        >>> Scope(keep={"status": "Final"}).keep
        Compare(path='status', op='$eq', operand='Final')
    """

    start: Mapping[str, Any] | Filter | None = None
    cross: Mapping[str, Any] | Filter | None = None
    keep: Mapping[str, Any] | Filter | None = None

    def __post_init__(self) -> None:
        """Read the filters once."""
        for each in fields(self):
            object.__setattr__(self, each.name, parse_filter(getattr(self, each.name)))

    @property
    def of_starts(self) -> Filter | None:
        """What the start of a walk must satisfy: to be started from, and not to be passed over."""
        start, cross, keep = (cast("Filter | None", each) for each in (self.start, self.cross, self.keep))
        passes = None if cross is None or keep is None else Or((cross, keep))
        parts = tuple(each for each in (start, passes) if each is not None)
        return And(parts) if len(parts) > 1 else next(iter(parts), None)

    def verdict(self, fields: Mapping[str, Any]) -> Verdict:
        """Return what may be done with an artifact of these fields."""
        filters = cast("tuple[Filter | None, ...]", (self.start, self.cross, self.keep))
        return Verdict(*(matches(each, fields) for each in filters))

    @classmethod
    def only(cls, filter: Mapping[str, Any] | Filter) -> "Scope":
        """Keep the whole walk to what one filter lets through.

        Example:
            >>> Scope.only({"lang": "en"}) == Scope(start={"lang": "en"}, cross={"lang": "en"}, keep={"lang": "en"})
            True
        """
        return cls(start=filter, cross=filter, keep=filter)


ALLOW_ALL = Scope()


def check_scope(scope: object) -> None:
    """Refuse what is no `Scope`.

    Raises:
        ArgumentError: It is none.
    """
    if not isinstance(scope, Scope):
        raise ArgumentError(f"scope must be a Scope, not {short_repr(scope)}; one filter is Scope.only(...)")
