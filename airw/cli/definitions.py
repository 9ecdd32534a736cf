"""From arguments to definitions: what `register` and `build` mean by them."""

from __future__ import annotations

import argparse
import difflib
import json
import os
from pathlib import Path
from typing import Any

from airw import corpora, sources
from airw.corpora.registry import find_definition, match_name
from airw.errors import ArgumentError, CorpusNotFound

_JSON_LINES = (".jsonl", ".jsonl.gz")
_ROOTS = {"jsonl": "path", "skills": "roots", "reports": "projects_root"}
_OPTIONS = ("name", "kind", "embedder", "strategy", "maintenance")


def is_path(source: str) -> bool:
    """Tell a path from a name: it exists, or holds a separator.

    Example:
        >>> is_path("skills"), is_path("./skills"), is_path("~/skills"), is_path(".")
        (False, True, True, True)
    """
    return bool({os.sep, os.altsep}.intersection(source)) or os.path.exists(source)  # noqa: PTH110 - a Path's may raise


def definition_of_path(source: str, name: str | None) -> corpora.Definition:
    """Give the definition that a path stands for: a folder holds notes, a file lines of JSON.

    Raises:
        ArgumentError: It is a file of another kind, or nothing can be named so.
    """
    path = Path(_absolute(source))
    if path.name.endswith(_JSON_LINES) and not path.is_dir():
        return corpora.Definition(name or sources.from_jsonl(path).name, "jsonl", {"path": str(path)})
    if path.is_file():
        raise ArgumentError(f"{source!r} is a file; build takes a folder of notes or a .jsonl file")
    return corpora.Definition(name or sources.from_notes(path).name, "notes", {"root": str(path)})


def _absolute(path: str) -> str:
    return os.path.abspath(Path(path).expanduser())  # noqa: PTH100 - `resolve` would follow links


def registered_as(name: str) -> corpora.Definition | None:
    """Give the definition of a corpus, whatever the case of its letters; `None` where it is not registered."""
    known = corpora.list_corpora()
    return known.get(match_name(known, name) or "")


def registered_or_preset(name: str) -> corpora.Definition:
    """Give the definition of a registered corpus, or of a preset.

    Raises:
        CorpusNotFound: It is neither; the message lists those like it.
    """
    known = {each.casefold(): each for each in (*corpora.PRESETS, *corpora.list_corpora())}
    if name.casefold() in known:
        return find_definition(name)
    if name.casefold() in map(str.casefold, corpora.corpus_names()):
        raise CorpusNotFound(f"{name!r} is built, but not registered: build it from its path, with --name {name}")
    near = difflib.get_close_matches(name.casefold(), known) or sorted(known)
    raise CorpusNotFound(
        f"{name!r} is no path (a path exists, or holds a separator as {f'.{os.sep}{name}'!r} does) "
        f"and no registered corpus; known: {', '.join(known[each] for each in near)}"
    )


def given_params(arguments: argparse.Namespace) -> dict[str, Any]:
    """Give the parameters of a kind's source.

    Raises:
        ArgumentError: One is given twice, or is no `KEY=VALUE`.
    """
    root = _ROOTS.get(arguments.kind, "root")
    path = None if arguments.root is None else _absolute(arguments.root)
    given = [(root, path), ("pattern", arguments.pattern)]
    params = {key: value for key, value in given if value is not None}
    for text in arguments.param:
        key, value = _param(text)
        if key in params:
            raise ArgumentError(f"{key} is given twice, the second time as --param {text!r}")
        params[key] = value
    return params


def _param(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise ArgumentError(f"--param takes KEY=VALUE, such as text_key=body, not {text!r}")
    if key in _OPTIONS:
        raise ArgumentError(f"--param {key} is none of the source's; see `airw register --help`")
    return key, _json_or_text(value, f"--param {key}")


def given_strategy(text: str | None) -> dict[str, Any] | None:
    """Give a strategy's specification, from JSON or its mere name.

    Raises:
        ArgumentError: It is meant as JSON and is none.
    """
    spec = None if text is None else _json_or_text(text, "--strategy")
    return {"name": spec} if isinstance(spec, str) else spec


def _json_or_text(text: str, option: str) -> Any:
    """Read JSON; what does not even begin like a structure of it is meant as it stands."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        if text.startswith(("{", "[", '"')):
            raise ArgumentError(f"{option} is neither JSON nor plain text: {text!r}: {error}") from error
        return text


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def given_upkeep(arguments: argparse.Namespace) -> corpora.Maintenance | None:
    """Give when a corpus is to be maintained; what is not said is as for all of its kind, `None` where nothing is.

    Raises:
        ArgumentError: Hours, trigger or window cannot be used, or not together.
    """
    if arguments.reindex_on is arguments.every_hours is arguments.window is None:
        return None
    usual = corpora.Definition(arguments.name, arguments.kind).schedule
    reindex = arguments.reindex_on or (usual.reindex if arguments.every_hours is None else "interval")
    hours = usual.every_hours if arguments.every_hours is None and reindex == "interval" else arguments.every_hours
    window: Any = None if arguments.window is None else tuple(arguments.window.split("-"))
    return corpora.Maintenance(reindex, every_hours=hours, window=window)
