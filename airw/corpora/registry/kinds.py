"""The kinds of corpora that a registry can hold, and what each takes: everything JSON can say of a source."""

import inspect
import json
import os
from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

from airw import sources
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.indexing import strategy_from_spec, strategy_spec
from airw.links import extractor_from_spec, extractor_spec
from airw.protocols import Source
from airw.sources._fetching import split_reference

__all__ = ["PRESETS", "check_allowed", "make_source", "storable_embedder", "storable_params", "storable_strategy"]

PRESETS = ("packages", "reports", "skills")
"""The kinds that can be built under their own name without being registered first."""

_MAKERS: Mapping[str, Callable[..., Source]] = MappingProxyType(
    {
        "files": sources.from_files,
        "jsonl": sources.from_jsonl,
        "notes": sources.from_notes,
        "packages": sources.from_packages,
        "records": sources.from_records,
        "reports": sources.from_md_reports,
        "skills": sources.from_skills,
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
