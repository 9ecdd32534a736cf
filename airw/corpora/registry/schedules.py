"""When a corpus is due for maintenance: values and decisions, no I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from airw._base.checks import check_choice, check_number
from airw._base.messages import short_repr
from airw.errors import ArgumentError

__all__ = ["Action", "Decision", "Maintenance", "Reindex", "maintenance_from"]

Reindex: TypeAlias = Literal["source-change", "interval", "manual"]
Action: TypeAlias = Literal["built", "failed", "due", "not-due", "deferred", "manual"]

REINDEX: tuple[Reindex, ...] = ("source-change", "interval", "manual")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


@dataclass(frozen=True, slots=True)
class Decision:
    """What maintenance is to do about a corpus, and why."""

    action: Action
    reason: str


@dataclass(frozen=True, slots=True)
class Maintenance:
    """When `maintain` builds a corpus again.

    Args:
        reindex: `"source-change"`: each time, which costs little where nothing changed. `"interval"`: when
            `every_hours` have passed since the last time, or there was none. `"manual"`: only when asked by name.
        every_hours: Hours between two builds, above 0; for `"interval"` alone, which needs it.
        window: Local times of day, `("22:00", "06:00")`, from the first up to the second, past midnight where that is
            the earlier one; outside of it a corpus that is due is deferred.

    Raises:
        ArgumentError: A value cannot be used, or not with the others.

    Example:
        >>> Maintenance("interval", every_hours=24, window=("22:00", "06:00")).to_dict()
        {'reindex': 'interval', 'every_hours': 24, 'window': ['22:00', '06:00']}
    """

    reindex: Reindex = "source-change"
    every_hours: float | None = None
    window: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Check all three at birth."""
        check_choice("reindex", self.reindex, REINDEX)
        if (self.every_hours is None) is (self.reindex == "interval"):
            raise ArgumentError(
                f"reindex={self.reindex!r} with every_hours={self.every_hours!r}: "
                "'interval' needs every_hours, such as 24, and the others take none"
            )
        if self.every_hours is not None and check_number("every_hours", self.every_hours, least=0) == 0:
            raise ArgumentError("every_hours must be above 0, not 0")
        if self.window is not None:
            object.__setattr__(self, "window", _window(self.window))

    def decide(self, last: datetime | None, now: datetime) -> Decision:
        """Say what is to be done at `now` about a corpus that was built `last`, or never yet, both with a time zone.

        Example:
            >>> from datetime import UTC
            >>> nine, noon = (datetime(2026, 11, 21, hour, tzinfo=UTC) for hour in (9, 12))
            >>> Maintenance("interval", every_hours=24).decide(nine, noon)
            Decision(action='not-due', reason='built 3.0 hours ago, due every 24 hours')
        """
        if self.reindex == "manual":
            return Decision("manual", "built only when asked for by name")
        if self.every_hours is not None and last is not None:
            age = now - last
            # One from the future says that the clock was set back: waiting for it could take years.
            if timedelta(0) <= age < timedelta(hours=self.every_hours):
                hours = age / timedelta(hours=1)
                return Decision("not-due", f"built {hours:.1f} hours ago, due every {self.every_hours:g} hours")
        if self.window is not None and not _within(self.window, now):
            return Decision("deferred", f"due, but only from {self.window[0]} to {self.window[1]}")
        return Decision("due", self._due(last))

    def _due(self, last: datetime | None) -> str:
        if self.every_hours is None:
            return "builds what changed in the source"
        return "not built yet" if last is None else f"due every {self.every_hours:g} hours"

    def to_dict(self) -> dict[str, Any]:
        """Give what is set as JSON; `Maintenance(**it)` makes an equal one."""
        given: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        given["window"] = self.window and list(self.window)
        return {name: value for name, value in given.items() if value is not None}


def maintenance_from(given: object) -> Maintenance | None:
    """Make a `Maintenance` of what its `to_dict` gave; one, or `None`, is given back.

    Raises:
        ArgumentError: It is something else.
    """
    if given is None or isinstance(given, Maintenance):
        return given
    if not isinstance(given, Mapping):
        raise ArgumentError(f"maintenance must be a Maintenance, not {short_repr(given)}")
    names = [each.name for each in fields(Maintenance)]
    if unknown := [key for key in given if key not in names]:
        raise ArgumentError(f"maintenance knows {', '.join(names)}, not {short_repr(unknown[0])}")
    return Maintenance(**given)


def _window(given: object) -> tuple[str, str]:
    clocks = given if isinstance(given, tuple | list) else ()
    if len(clocks) == 2 and all(isinstance(clock, str) and _CLOCK.fullmatch(clock) for clock in clocks):
        start, end = clocks
        if start != end:
            return start, end
    raise ArgumentError(
        f"window must be two different times of day from '00:00' to '23:59', such as ('22:00', '06:00'), "
        f"not {short_repr(given)}"
    )


def _within(window: tuple[str, str], now: datetime) -> bool:
    clock, (start, end) = now.astimezone().strftime("%H:%M"), window
    return start <= clock < end if start < end else clock >= start or clock < end
