"""What is registered of a corpus: the kind and parameters of its source, and when it is built; no I/O."""

import inspect
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from airw._base.checks import NAME_RULE, check_choice, check_number, is_valid_name
from airw._base.messages import short_repr
from airw.embedders import resolve_embedder
from airw.errors import ArgumentError
from airw.indexing import strategy_from_spec, strategy_spec
from airw.links import extractor_from_spec, extractor_spec
from airw.protocols import Source
from airw.sources import (
    from_files,
    from_jsonl,
    from_md_reports,
    from_notes,
    from_packages,
    from_records,
    from_skills,
    split_reference,
)

PRESETS = ("packages", "reports", "skills")
"""The kinds that can be built under their own name without being registered first."""

_MAKERS: Mapping[str, Callable[..., Source]] = MappingProxyType(
    {
        "files": from_files,
        "jsonl": from_jsonl,
        "notes": from_notes,
        "packages": from_packages,
        "records": from_records,
        "reports": from_md_reports,
        "skills": from_skills,
    }
)
_OWN = ("name", "strategy", "embedder")
_PATHS = ("manifest", "path", "projects_root", "root", "roots")
_ALLOWED = "AIRW_FETCHERS"


def make_source(kind: str, name: str, params: Mapping[str, Any], embedder: str, strategy: Any) -> Source:
    """Make the source of a kind from what is stored of it; nothing is read.

    Raises:
        ArgumentError: The kind or a parameter is not known, one is missing, or a value cannot be used.
    """
    maker = _MAKERS.get(kind) if isinstance(kind, str) else None
    if maker is None:
        raise ArgumentError(f"there is no kind {short_repr(kind)} of corpora; known: {', '.join(sorted(_MAKERS))}")
    _check_names(maker, kind, params)
    if params.get("fetcher") is not None:
        check_allowed(params["fetcher"])
    given = dict(params)
    if given.get("edge_extractor") is not None:
        given["edge_extractor"] = extractor_from_spec(given["edge_extractor"])
    made = None if strategy is None else strategy_from_spec(strategy)
    try:
        return maker(**given, name=name, embedder=embedder, strategy=made)
    except TypeError as error:
        raise ArgumentError(f"a corpus of kind {kind!r}: {error}") from error


def _check_names(maker: Callable[..., Source], kind: str, params: Mapping[str, Any]) -> None:
    taken = {name: each for name, each in inspect.signature(maker).parameters.items() if name not in _OWN}
    if unknown := [name for name in params if name not in taken]:
        raise ArgumentError(f"a corpus of kind {kind!r} takes {', '.join(taken)}, not {short_repr(unknown[0])}")
    for name, each in taken.items():
        if each.default is each.empty and name not in params:
            raise ArgumentError(f"a corpus of kind {kind!r} needs {name}=...")


def check_allowed(fetcher: object) -> None:
    """Refuse a function that the owner of this process has not allowed to be imported and called.

    Raises:
        ArgumentError: It is not named `"module:attribute"`, or `AIRW_FETCHERS` lists neither its module nor a package
            that holds it.
    """
    if not isinstance(fetcher, str):
        raise ArgumentError(f"a registered fetcher is named by 'module:attribute', not {short_repr(fetcher)}")
    module, _ = split_reference(fetcher)
    allowed = {each.strip() for each in os.environ.get(_ALLOWED, "").split(",")}
    if allowed.isdisjoint(accumulate(module.split("."), "{}.{}".format)):
        raise ArgumentError(
            f"fetcher {fetcher!r} would import {module!r}, which {_ALLOWED} does not list: "
            f"set {_ALLOWED}={module} where you trust it (several are separated by commas)"
        )


def storable_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Give parameters as JSON that means the same in any working folder: paths are absolute.

    Raises:
        ArgumentError: JSON cannot say one.

    Example:
        >>> storable_params({"root": Path("/srv/notes"), "exclude": ("old*",)})
        {'root': '/srv/notes', 'exclude': ['old*']}
    """
    return {name: _storable(name, value) for name, value in params.items()}


def _storable(name: str, value: Any) -> Any:
    if name == "edge_extractor" and value is not None and not isinstance(value, Mapping):
        value = extractor_spec(value)
        if value is None:
            raise ArgumentError("only the extractors that come with airw can be registered: give the other to build()")
    plain = _plain(value, is_path=name in _PATHS)
    try:
        if json.loads(json.dumps(plain, allow_nan=False)) == plain:
            return plain
    except (TypeError, ValueError, RecursionError):
        pass
    raise ArgumentError(f"what is registered is kept as JSON, which cannot say {name}={short_repr(value)}")


def _plain(value: Any, *, is_path: bool = False) -> Any:
    if isinstance(value, os.PathLike) or (is_path and isinstance(value, str)):
        return str(Path(value).expanduser().absolute())
    if isinstance(value, list | tuple):
        return [_plain(item, is_path=is_path) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


def storable_embedder(embedder: object) -> str:
    """Give the specification of an embedder; a model folder by its absolute path.

    Raises:
        ArgumentError: It is an object, which JSON cannot say.
    """
    if isinstance(embedder, os.PathLike):
        return str(Path(embedder).expanduser().absolute())
    if not isinstance(embedder, str):
        raise ArgumentError(
            f"a registered embedder is a specification, such as 'default', 'light', a model's name or folder, or "
            f"'http://host:8080/v1#model', since an object cannot be kept as JSON; not {short_repr(embedder)}"
        )
    if {os.sep, os.altsep}.isdisjoint(embedder):
        return embedder
    folder = Path(embedder).expanduser()
    return str(folder.absolute()) if folder.is_dir() else embedder


def storable_strategy(strategy: Any) -> dict[str, Any] | None:
    """Give the specification of a strategy; one that is given is kept, as only a build needs what it says.

    Raises:
        ArgumentError: It is not one that comes with airw, or JSON cannot say it.
    """
    spec = _storable("strategy", strategy) if isinstance(strategy, Mapping) else strategy_spec(strategy)
    if spec is None and strategy is not None:
        raise ArgumentError(
            "a registered strategy is one that comes with airw, with settings that JSON can say; "
            f"not {short_repr(strategy)}"
        )
    return spec


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
