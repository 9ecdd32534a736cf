"""From command-line arguments to definitions of corpora, for `register` and `build`."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airw import corpora, sources
from airw.corpora.naming import list_similar_first
from airw.errors import ArgumentError, CorpusNotFound
from airw.stores import is_server_address

_JSON_LINES = (".jsonl", ".jsonl.gz")
_ROOTS = {"jsonl": "path", "skills": "roots", "reports": "projects_root"}
_OPTIONS = ("name", "kind", "embedder", "strategy", "maintenance", "store")


def is_path(source: str) -> bool:
    """Return True if a word is a path and not a name: it exists, or contains a separator.

    Example:
        >>> is_path("skills"), is_path("./skills"), is_path("~/skills"), is_path(".")
        (False, True, True, True)
    """
    return bool({os.sep, os.altsep}.intersection(source)) or os.path.exists(source)  # noqa: PTH110 - a Path's may raise


def definition_from_path(source: str, name: str | None, chosen: Mapping[str, Any]) -> corpora.Definition:
    """Return the definition for one path: a folder of notes, or a file of JSON lines.

    Args:
        source: The path.
        name: The name of the corpus; `None` for that of the path.
        chosen: The parameters that choose the files of a folder; `None` for the default.

    Raises:
        ArgumentError: If the path is another file, or no corpus can have this name.
    """
    files = {key: value for key, value in chosen.items() if value is not None}
    if is_server_address(source):
        raise ArgumentError(
            f"SOURCE is what to index, and --store is where the corpus is: `airw build FOLDER --store {source}`"
        )
    path = Path(_absolute_path(source))
    if path.name.endswith(_JSON_LINES) and not path.is_dir():
        if files:
            raise ArgumentError(f"--pattern and --hidden choose the files of a folder, but {source!r} is a file")
        return corpora.Definition(name or sources.from_jsonl(path).name, "jsonl", {"path": str(path)})
    if path.is_file():
        raise ArgumentError(f"cannot build from the file {source!r}; build takes a folder of notes or a .jsonl file")
    return corpora.Definition(name or sources.from_notes(path).name, "notes", {"root": str(path), **files})


def _absolute_path(path: str) -> str:
    return os.path.abspath(Path(path).expanduser())  # noqa: PTH100 - `resolve` would follow links


def extractor_of_site(definition: corpora.Definition, root: str) -> dict[str, Any]:
    """Return the specification of the link extractor of a folder, with the root of its site.

    Raises:
        ArgumentError: If there is no such folder, or the extractor reads no markdown.
    """
    folder = definition.params.get("root")
    if not folder or not Path(folder, root).is_dir():
        raise ArgumentError(f"--root must be a folder in the folder of notes to build, not {root!r}")
    relative = Path(os.path.relpath(Path(folder, root), folder)).as_posix()
    spec = definition.params.get("edge_extractor") or {"name": "MarkdownLinks"}
    return _add_root(spec, "" if relative == "." else relative)


def _add_root(spec: Mapping[str, Any], root: str) -> dict[str, Any]:
    params = {**spec.get("params", {})}
    if spec["name"] == "MarkdownLinks":
        params["root"] = root
    elif "inner" in params:
        params["inner"] = _add_root(params["inner"], root)
    else:
        raise ArgumentError(f"--root is for links of markdown, which {spec['name']} of the registration does not read")
    return {**spec, "params": params}


def find_registered(name: str) -> corpora.Definition | None:
    """Return the definition of a registered corpus, or None; case does not matter."""
    definitions = corpora.list_corpora()
    return definitions.get(corpora.registry.match_name(definitions, name) or "")


def find_registered_or_preset(name: str) -> corpora.Definition:
    """Return the definition of a registered corpus or of a preset.

    Raises:
        CorpusNotFound: If it is neither; the message lists similar names.
    """
    names = {name.casefold(): name for name in (*corpora.PRESETS, *corpora.list_corpora())}
    if name.casefold() in names:
        return corpora.registry.find_definition(name)
    if name.casefold() in map(str.casefold, corpora.corpus_names()):
        raise CorpusNotFound(f"corpus {name!r} is not registered; build it from its path, with --name {name}")
    raise CorpusNotFound(
        f"{name!r} is neither an existing path nor a registered corpus; registered: "
        f"{list_similar_first(name, names.values())}; write a path as {f'.{os.sep}{name}'!r}"
    )


def folders_of(name: str) -> list[str]:
    """Return the folders that a registered corpus or a preset is built from."""
    definition = find_registered(name)
    if definition is None and name.casefold() in corpora.PRESETS:
        definition = corpora.registry.find_definition(name)
    values = [] if definition is None else [definition.params.get(key) for key in ("root", "roots", "projects_root")]
    folders = [folder for value in values for folder in ([value] if isinstance(value, str) else value or ())]
    if definition is not None and definition.kind == "skills" and not folders:
        return [str(folder) for folder in sources.skills.SKILL_FOLDERS]
    return folders


def source_params(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of the source, from `--root`, `--pattern` and `--param`.

    Raises:
        ArgumentError: If a parameter appears twice, or a `--param` is not `KEY=VALUE`.
    """
    root_key = _ROOTS.get(arguments.kind, "root")
    root = None if arguments.root is None else _absolute_path(arguments.root)
    options = [(root_key, root), ("pattern", arguments.pattern)]
    params = {key: value for key, value in options if value is not None}
    for text in arguments.param:
        key, value = _parse_param(text)
        if key in params:
            raise ArgumentError(f"{key} is given twice, the second time as --param {text!r}; give it once")
        params[key] = value
    return params


def _parse_param(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise ArgumentError(f"--param takes KEY=VALUE, such as text_key=body, not {text!r}")
    if key in _OPTIONS:
        raise ArgumentError(f"--param {key} is not a parameter of a source; see `airw register --help`")
    return key, _parse_json_or_text(value, f"--param {key}")


def parse_strategy(text: str | None) -> dict[str, Any] | None:
    """Return the specification of a strategy, from JSON or from its name alone.

    Raises:
        ArgumentError: If the text begins like JSON and is not JSON.
    """
    spec = None if text is None else _parse_json_or_text(text, "--strategy")
    return {"name": spec} if isinstance(spec, str) else spec


def _parse_json_or_text(text: str, option: str) -> Any:
    """Parse JSON; return text unchanged if it does not begin like JSON."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        if text.startswith(("{", "[", '"')):
            raise ArgumentError(f"{option} is neither JSON nor plain text: {text!r}: {error}") from error
        return text


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number in JSON")


def maintenance_settings(arguments: argparse.Namespace) -> corpora.Maintenance | None:
    """Return when a corpus is to be maintained, or None if no option says so.

    Missing options are those of the kind.

    Raises:
        ArgumentError: If the hours, the trigger or the window cannot be used, alone or together.
    """
    if arguments.reindex_on is arguments.every_hours is arguments.window is None:
        return None
    defaults = corpora.Definition(arguments.name, arguments.kind).schedule
    reindex = arguments.reindex_on or (defaults.reindex if arguments.every_hours is None else "interval")
    hours = defaults.every_hours if arguments.every_hours is None and reindex == "interval" else arguments.every_hours
    window: Any = None if arguments.window is None else tuple(arguments.window.split("-"))
    return corpora.Maintenance(reindex, every_hours=hours, window=window)
