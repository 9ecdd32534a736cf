"""The scope of a walk: the artifacts it may start from, cross and return."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.values.filters import And, Filter, Or, matches, parse_filter


class Permissions(NamedTuple):
    """The permissions for one artifact: to start from it, to cross it, to keep it as a hit."""

    start: bool
    cross: bool
    keep: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Three metadata filters on the artifacts of a walk; `None` allows all artifacts.

    The filters are applied to the surface by which an artifact scores. That is its best surface, or the surface that
    the search for the start found among those that satisfy `start`.

    An artifact that may be crossed but not kept is a router. One that may be kept but not crossed is a hit that leads
    nowhere. One that may be neither is excluded: the walk goes on as if it did not exist. Limits of a policy do not
    count excluded artifacts.

    Args:
        start: What a walk may start from, found by search or passed as an id.
        cross: What it may follow links or shared fields from.
        keep: What it may return.

    Raises:
        FilterError: If a filter is malformed; see `airw.values.filters` for the language.

    Example:
        >>> Scope(keep={"status": "Final"}).keep
        Compare(path='status', op='$eq', operand='Final')
    """

    start: Mapping[str, Any] | Filter | None = None
    cross: Mapping[str, Any] | Filter | None = None
    keep: Mapping[str, Any] | Filter | None = None

    def __post_init__(self) -> None:
        """Parse the filters once."""
        for field in fields(self):
            object.__setattr__(self, field.name, parse_filter(getattr(self, field.name)))

    @property
    def start_filter(self) -> Filter | None:
        """The filter for the start of a walk: an artifact satisfies `start` and is not excluded."""
        start, cross, keep = (cast("Filter | None", filter) for filter in (self.start, self.cross, self.keep))
        not_excluded = None if cross is None or keep is None else Or((cross, keep))
        parts = tuple(part for part in (start, not_excluded) if part is not None)
        return And(parts) if len(parts) > 1 else next(iter(parts), None)

    def permissions_of(self, fields: Mapping[str, Any]) -> Permissions:
        """Return the permissions for an artifact that has these fields."""
        filters = cast("tuple[Filter | None, ...]", (self.start, self.cross, self.keep))
        return Permissions(*(matches(filter, fields) for filter in filters))

    @classmethod
    def only(cls, filter: Mapping[str, Any] | Filter) -> "Scope":
        """Return a scope that starts from, crosses and keeps only artifacts within one filter.

        Example:
            >>> Scope.only({"lang": "en"}) == Scope(start={"lang": "en"}, cross={"lang": "en"}, keep={"lang": "en"})
            True
        """
        return cls(start=filter, cross=filter, keep=filter)


ALLOW_ALL = Scope()


def check_scope(scope: object) -> None:
    """Check that the argument `scope` is a `Scope`.

    Raises:
        ArgumentError: If it is not.
    """
    if not isinstance(scope, Scope):
        raise ArgumentError(f"scope must be a Scope, not {short_repr(scope)}; for one filter pass Scope.only(...)")
