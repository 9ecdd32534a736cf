"""The definition of a corpus: the kind and parameters of its source, and its schedule."""

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
from airw._base.local_models import is_folder, is_hub_name
from airw._base.messages import short_repr
from airw.corpora.places import CorpusAddress
from airw.embedders import is_builtin, resolve_embedder
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
from airw.stores import hide_password, is_server_address, refuse_password

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
_COMMON_PARAMS = ("name", "strategy", "embedder")
_PATH_PARAMS = ("manifest", "path", "projects_root", "root", "roots")
_FETCHERS_VARIABLE = "AIRW_FETCHERS"


def make_source(kind: str, name: str, params: Mapping[str, Any], embedder: str, strategy: Any) -> Source:
    """Make the source of a kind from its stored parameters; nothing is read.

    Raises:
        ArgumentError: If the kind or a parameter is unknown, a parameter is missing, or a value cannot be used.
    """
    maker = _MAKERS.get(kind) if isinstance(kind, str) else None
    if maker is None:
        raise ArgumentError(f"there is no kind {short_repr(kind)} of corpus; known: {', '.join(sorted(_MAKERS))}")
    _check_names(maker, kind, params)
    if params.get("fetcher") is not None:
        check_fetcher(params["fetcher"])
    arguments = dict(params)
    if arguments.get("edge_extractor") is not None:
        arguments["edge_extractor"] = extractor_from_spec(arguments["edge_extractor"])
    indexing_strategy = None if strategy is None else strategy_from_spec(strategy)
    try:
        return maker(**arguments, name=name, embedder=embedder, strategy=indexing_strategy)
    except TypeError as error:
        raise ArgumentError(f"a corpus of kind {kind!r}: {error}") from error


def _check_names(maker: Callable[..., Source], kind: str, params: Mapping[str, Any]) -> None:
    accepted = {
        name: parameter for name, parameter in inspect.signature(maker).parameters.items() if name not in _COMMON_PARAMS
    }
    if unknown := [name for name in params if name not in accepted]:
        raise ArgumentError(f"a corpus of kind {kind!r} takes {', '.join(accepted)}, not {short_repr(unknown[0])}")
    for name, parameter in accepted.items():
        if parameter.default is parameter.empty and name not in params:
            raise ArgumentError(f"a corpus of kind {kind!r} needs {name}=...")


def check_fetcher(fetcher: object) -> None:
    """Refuse a fetcher that `AIRW_FETCHERS` does not allow this process to import and call.

    Raises:
        ArgumentError: If it is not of the form `"module:attribute"`, or if `AIRW_FETCHERS` lists neither its module
            nor a package above it.
    """
    if not isinstance(fetcher, str):
        raise ArgumentError(f"a registered fetcher must be a string 'module:attribute', not {short_repr(fetcher)}")
    module, _ = split_reference(fetcher)
    allowed = {name.strip() for name in os.environ.get(_FETCHERS_VARIABLE, "").split(",")}
    # An allowed package allows its modules too: compare `a`, `a.b` and `a.b.c` of the module `a.b.c`.
    if allowed.isdisjoint(accumulate(module.split("."), "{}.{}".format)):
        raise ArgumentError(
            f"fetcher {fetcher!r} would import {module!r}, which {_FETCHERS_VARIABLE} does not list; "
            f"if you trust it, set {_FETCHERS_VARIABLE}={module} (several are separated by commas)"
        )


def params_to_json(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON; paths become absolute, so that any working folder will do.

    Raises:
        ArgumentError: If a value cannot be written as JSON.

    Example:
        >>> params_to_json({"root": Path("/srv/notes"), "exclude": ("old*",)})
        {'root': '/srv/notes', 'exclude': ['old*']}
    """
    return {name: _param_to_json(name, value) for name, value in params.items()}


def _param_to_json(name: str, value: Any) -> Any:
    if name == "edge_extractor" and value is not None and not isinstance(value, Mapping):
        value = extractor_spec(value)
        if value is None:
            raise ArgumentError("only edge extractors that come with airw can be registered; pass your own to build()")
    json_value = _to_json(value, is_path=name in _PATH_PARAMS)
    # The value must come back equal: JSON turns integer keys into strings, for example.
    try:
        if json.loads(json.dumps(json_value, allow_nan=False)) == json_value:
            return json_value
    except (TypeError, ValueError, RecursionError):
        pass
    raise ArgumentError(f"{name}={short_repr(value)} cannot be registered, because it cannot be written as JSON")


def _to_json(value: Any, *, is_path: bool = False) -> Any:
    if isinstance(value, os.PathLike) or (is_path and isinstance(value, str)):
        return str(Path(value).expanduser().absolute())
    if isinstance(value, list | tuple):
        return [_to_json(item, is_path=is_path) for item in value]
    if isinstance(value, Mapping):
        return {key: _to_json(item) for key, item in value.items()}
    return value


def embedder_to_spec(embedder: object) -> str:
    """Return the specification of an embedder; a model folder becomes an absolute path.

    Raises:
        ArgumentError: If it is an object, which cannot be written as JSON.
    """
    if isinstance(embedder, os.PathLike):
        return str(Path(embedder).expanduser().absolute())
    if not isinstance(embedder, str):
        raise ArgumentError(
            f"a registered embedder must be a specification, such as 'default', 'light', a model's name or folder, or "
            f"'http://host:8080/v1#model', because an object cannot be written as JSON; not {short_repr(embedder)}"
        )
    if {os.sep, os.altsep}.isdisjoint(embedder):
        return embedder
    folder = Path(embedder).expanduser()
    return str(folder.absolute()) if folder.is_dir() else embedder


def _refuse_relative(spec: str) -> None:
    """Refuse a model folder whose place depends on the working folder.

    Raises:
        ArgumentError: If it is such a folder, or a name on the hub that is also a folder here.
    """
    if is_builtin(spec) or "://" in spec or Path(spec).is_absolute():
        return
    if not is_hub_name(spec) or is_folder(spec):
        raise ArgumentError(
            f"a registered embedder must not be a relative folder such as {short_repr(spec)}, which means another "
            "model in another working folder; register it with its whole path"
        )


def strategy_to_spec(strategy: Any) -> dict[str, Any] | None:
    """Return the specification of a strategy; a specification is returned as JSON, unchecked.

    Only a build needs the strategy itself.

    Raises:
        ArgumentError: If it is not a strategy that comes with airw, or cannot be written as JSON.
    """
    spec = _param_to_json("strategy", strategy) if isinstance(strategy, Mapping) else strategy_spec(strategy)
    if spec is None and strategy is not None:
        raise ArgumentError(
            "a registered strategy must be one that comes with airw, with settings that can be written as JSON; "
            f"not {short_repr(strategy)}"
        )
    return spec


Reindex: TypeAlias = Literal["source-change", "interval", "manual"]
Action: TypeAlias = Literal["built", "failed", "due", "not-due", "deferred", "manual"]

REINDEX: tuple[Reindex, ...] = ("source-change", "interval", "manual")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of maintenance about one corpus, and the reason."""

    action: Action
    reason: str


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The schedule by which `maintain` builds a corpus again.

    Args:
        reindex: `"source-change"`: at every run, which costs little if nothing changed. `"interval"`: if the last
            build is `every_hours` ago or there was none. `"manual"`: only if `maintain` is called with its name.
        every_hours: The hours between two builds, above 0; required by `"interval"`, and only allowed there.
        window: Two local times of day, such as `("22:00", "06:00")`. A corpus is built only from the first up to the
            second, past midnight if the second is earlier. Outside this window, a corpus that is due is deferred.

    Raises:
        ArgumentError: If a value cannot be used, or not together with the others.

    Example:
        >>> Maintenance("interval", every_hours=24, window=("22:00", "06:00")).to_dict()
        {'reindex': 'interval', 'every_hours': 24, 'window': ['22:00', '06:00']}
    """

    reindex: Reindex = "source-change"
    every_hours: float | None = None
    window: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        check_choice("reindex", self.reindex, REINDEX)
        if (self.every_hours is None) is (self.reindex == "interval"):
            raise ArgumentError(
                f"reindex={self.reindex!r} with every_hours={self.every_hours!r}: "
                "'interval' needs every_hours, such as 24, and the others take none"
            )
        if self.every_hours is not None and check_number("every_hours", self.every_hours, least=0) == 0:
            raise ArgumentError("every_hours must be above 0, not 0")
        if self.window is not None:
            object.__setattr__(self, "window", _check_window(self.window))

    def decide(self, last: datetime | None, now: datetime) -> Decision:
        """Decide at `now` whether a corpus is due.

        Args:
            last: The time of its last build, with a time zone; `None` if it was never built.
            now: The current time, with a time zone.

        Returns:
            The action and its reason.

        Example:
            >>> from datetime import UTC
            >>> nine, noon = (datetime(2026, 11, 21, hour, tzinfo=UTC) for hour in (9, 12))
            >>> Maintenance("interval", every_hours=24).decide(nine, noon)
            Decision(action='not-due', reason='built 3.0 hours ago, due every 24 hours')
        """
        if self.reindex == "manual":
            return Decision("manual", "built only when requested by name")
        if self.every_hours is not None and last is not None:
            age = now - last
            # A last build in the future means that the clock was set back: to wait for it could take years.
            if timedelta(0) <= age < timedelta(hours=self.every_hours):
                hours = age / timedelta(hours=1)
                return Decision("not-due", f"built {hours:.1f} hours ago, due every {self.every_hours:g} hours")
        if self.window is not None and not _is_within(self.window, now):
            return Decision("deferred", f"due, but built only from {self.window[0]} to {self.window[1]}")
        return Decision("due", self._describe_due(last))

    def _describe_due(self, last: datetime | None) -> str:
        if self.every_hours is None:
            return "builds what changed in the source"
        return "not built yet" if last is None else f"due every {self.every_hours:g} hours"

    def to_dict(self) -> dict[str, Any]:
        """Return the values that are set as JSON; `Maintenance(**maintenance.to_dict())` is equal."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        values["window"] = self.window and list(self.window)
        return {name: value for name, value in values.items() if value is not None}


def to_maintenance(value: object) -> Maintenance | None:
    """Return a `Maintenance` from the result of its `to_dict`.

    A `Maintenance` and `None` are returned as they are.

    Raises:
        ArgumentError: If the value is something else.
    """
    if value is None or isinstance(value, Maintenance):
        return value
    if not isinstance(value, Mapping):
        raise ArgumentError(f"maintenance must be a Maintenance, not {short_repr(value)}")
    names = [field.name for field in fields(Maintenance)]
    if unknown := [key for key in value if key not in names]:
        raise ArgumentError(f"maintenance takes {', '.join(names)}, not {short_repr(unknown[0])}")
    return Maintenance(**value)


def _check_window(window: object) -> tuple[str, str]:
    clocks = window if isinstance(window, tuple | list) else ()
    if len(clocks) == 2 and all(isinstance(clock, str) and _CLOCK.fullmatch(clock) for clock in clocks):
        start, end = clocks
        if start != end:
            return start, end
    raise ArgumentError(
        f"window must be two different times of day from '00:00' to '23:59', such as ('22:00', '06:00'), "
        f"not {short_repr(window)}"
    )


def _is_within(window: tuple[str, str], now: datetime) -> bool:
    start, end = window
    clock = now.astimezone().strftime("%H:%M")
    if start < end:
        return start <= clock < end
    return clock >= start or clock < end


_EVERY_DAY = Maintenance("interval", every_hours=24)


@dataclass(frozen=True, slots=True)
class Definition:
    """The registered definition of a corpus, as JSON with absolute paths.

    Args:
        name: The name of the corpus.
        kind: The kind of its source: `files`, `jsonl`, `notes`, `packages`, `records`, `reports` or `skills`.
        params: The parameters of that source: for `notes` those of `from_notes`, and so on.
        embedder: The specification of an embedder; a model folder with its whole path.
        strategy: An indexing strategy, or its specification, which is stored; `None` for the default of the kind.
        maintenance: The schedule of `maintain`; `None` for the default of the kind.
        store: The address of the corpus on a server, without a password; `None` for a file in the home folder.

    Raises:
        ArgumentError: If a value cannot be used, or cannot be stored.

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
    store: str | None = None

    def __post_init__(self) -> None:
        """Check the values and convert them to JSON."""
        check_name(self.name)
        if not isinstance(self.params, Mapping):
            raise ArgumentError(f"params must map names to values, not {short_repr(self.params)}")
        object.__setattr__(self, "params", params_to_json(self.params))
        # A string may come from the registry: the working folder must not decide what it means.
        if not isinstance(self.embedder, str):
            object.__setattr__(self, "embedder", embedder_to_spec(self.embedder))
        object.__setattr__(self, "strategy", strategy_to_spec(self.strategy))
        object.__setattr__(self, "maintenance", to_maintenance(self.maintenance))
        if self.store is not None:
            _check_store(self.store, self.name)

    @property
    def schedule(self) -> Maintenance:
        """Return the schedule by which `maintain` builds the corpus.

        That is its `maintenance` if set. The default is every 24 hours for `records`, and every run for other kinds.
        """
        return self.maintenance or (_EVERY_DAY if self.kind == "records" else Maintenance())

    def source(self) -> Source:
        """Make the source of the corpus; nothing is read yet.

        Raises:
            ArgumentError: If the kind or a parameter is unknown, a parameter is missing, or a value cannot be used; if
                its embedder is a relative folder; or if `AIRW_FETCHERS` does not allow to import its fetcher.
        """
        resolve_embedder(self.embedder)
        _refuse_relative(self.embedder)
        return make_source(self.kind, self.name, self.params, self.embedder, self.strategy)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "params": dict(self.params),
            "embedder": self.embedder,
            "strategy": None if self.strategy is None else dict(self.strategy),
            "maintenance": None if self.maintenance is None else self.maintenance.to_dict(),
            "store": self.store,
        }


def _check_store(store: object, name: str) -> None:
    """Refuse a store that cannot be registered.

    Raises:
        ArgumentError: If it is not the address of a server, or contains a password.
    """
    if not isinstance(store, str) or not is_server_address(store):
        given = hide_password(store) if isinstance(store, str) else store
        raise ArgumentError(
            "store must be the address of a server, such as 'postgresql://ada:$PASSWORD@db.example/kb', where PASSWORD "
            f"is an environment variable; not {short_repr(given)}"
        )
    refuse_password("a registered store", store)
    CorpusAddress.parse(store, name)


def check_name(name: object) -> str:
    """Return the name if a corpus can have it.

    Raises:
        ArgumentError: If it cannot.
    """
    if isinstance(name, str) and is_valid_name(name):
        return name
    shown = short_repr(hide_password(name) if isinstance(name, str) else name)
    raise ArgumentError(f"{shown} cannot name a corpus: use {NAME_RULE}")
