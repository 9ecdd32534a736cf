"""The names, parameters and defaults that this library began with have a home in it.

`data/seeds.toml` lists them; its head says what the fields mean.
"""

import ast
import dataclasses
import inspect
import re
import tomllib
from collections.abc import Sized
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

import airw
from airw.cli import main
from airw.indexing import Chunked
from airw.links import MarkdownLinks
from airw.policies import Eager
from airw.stores import MemoryStore

SEEDS = tomllib.loads(Path(__file__).with_name("data").joinpath("seeds.toml").read_text(encoding="utf-8"))
every_seed = pytest.mark.parametrize("rows", SEEDS.values(), ids=SEEDS)
FIELDS = {"signature", "value", "home", "instead", "differs", "why"}
EMPTY = inspect.Parameter.empty
PLACE = re.compile(r"(?P<path>[\w.]+)(?:\((?P<parameter>\w+)(?:=(?P<default>.*))?\))?")


def find(path):
    """Return the object at a dotted path: of a module, of a class, or a field of one."""
    thing, parts = airw, path.split(".")
    for at, part in enumerate(parts[1:], 2):
        if hasattr(thing, part):
            thing = getattr(thing, part)
        elif inspect.isclass(thing) and part in {
            name for base in thing.__mro__ for name in inspect.get_annotations(base)
        }:
            return part
        else:
            thing = import_module(".".join(parts[:at]))
    return thing


def parameters_of(thing):
    return inspect.signature(thing).parameters


def default_of(thing, name):
    """Return the value of a parameter that is left out, as it is or as the name of a function."""
    fields = {each.name: each for each in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else {}
    if name in fields and fields[name].default_factory is not dataclasses.MISSING:
        return fields[name].default_factory()
    default = parameters_of(thing)[name].default
    return default.__name__ if inspect.isfunction(default) else default


def has_default(thing, name, text):
    """Return whether a parameter has the default of a text; an empty one stands for none."""
    default = default_of(thing, name)
    if text == "":
        return default is EMPTY
    if text == "FACTORY":
        return default is not EMPTY
    written = {"NEG_INF": "float('-inf')"}.get(text, text)
    value = written if written.isidentifier() and written not in ("None", "True", "False") else eval(written)
    return default == value or (isinstance(default, Sized) and isinstance(value, Sized) and not default and not value)


class SeedParameter(NamedTuple):
    """A parameter as a document writes it; without a position it must be named."""

    name: str
    default: str
    position: int | None


def seed_parameters(signature):
    arguments = ast.parse(f"def seed{signature}: pass").body[0].args
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    rows = [*zip(arguments.args, defaults, range(len(defaults)), strict=True)]
    rows += [(each, default, None) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    rows += [(arguments.kwarg, None, None)] if arguments.kwarg else []
    return [SeedParameter(each.arg, ast.unparse(default) if default else "", at) for each, default, at in rows]


def check_place(place, value=""):
    """Check that a place exists, with the parameter, default and value that a row says."""
    match = PLACE.fullmatch(place)
    thing = find(match["path"])
    if match["parameter"]:
        assert match["parameter"] in parameters_of(thing)
    if match["default"]:
        assert has_default(thing, match["parameter"], match["default"])
        assert value in ("", match["default"])
    elif value:
        assert thing == eval(value)


@cache
def help_of(command):
    with pytest.raises(SystemExit), redirect_stdout(StringIO()) as text:
        main([*command.split(), "--help"])
    return text.getvalue()


def check_option(command, option, value):
    """Check that the help of a command has an option, with the default that a row says."""
    text = help_of(command).partition("options:")[2]
    found = re.search(rf"(^|[ ,])--{option}\b.*?(?=\n  -|\n\n)", text, re.DOTALL | re.MULTILINE) if option else text
    assert found
    if value:
        assert f"default: {eval(value)}" in " ".join(found[0].split())


def schema_at(schema, path):
    """Return the part of a JSON schema that a path of keys leads to, through lists."""
    part = schema
    for key in path.split("."):
        part = part.get("items", part)
        part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        part = part["properties"][key]
    return part


@every_seed
def test_a_name_has_a_home_or_something_instead(rows):
    for name, row in rows.items():
        assert row.keys() <= FIELDS, name
        assert len({"home", "instead"} & row.keys()) == 1, name
        assert "why" in row or not {"differs", "instead"} & row.keys(), name
        place, value = row.get("home") or row["instead"], row.get("value", "")
        if place.startswith("airw "):
            check_option(*place.removeprefix("airw ").partition(" --")[::2], value)
        else:
            check_place(place, value)
        if name.startswith("format json: "):
            assert schema_at(find(place)(), name.removeprefix("format json: ")), name


@every_seed
def test_each_parameter_and_its_default_are_at_home_or_listed_as_different(rows):
    for name, row in rows.items():
        if "signature" not in row:
            continue
        place, differs = row.get("home") or row["instead"], row.get("differs", {})
        thing, seed = find(place), seed_parameters(row["signature"])
        ours = list(parameters_of(thing).values())
        kept = {each.name for each in seed if is_kept(thing, ours, each)}
        assert {each.name for each in seed} - kept == differs.keys(), name
        for there in differs.values():
            check_place(there if there.startswith("airw.") else f"{place}({there})")


def is_kept(thing, ours, seed):
    """Return whether a parameter is passed as in the seed, and has the same default."""
    names = [each.name for each in ours]
    if seed.name not in names or not has_default(thing, seed.name, seed.default):
        return False
    ours_kind = ours[names.index(seed.name)].kind
    return seed.position is None or (
        names.index(seed.name) == seed.position and ours_kind.name.startswith("POSITIONAL")
    )


async def test_the_metadata_that_the_seeds_name_is_written():
    notes = {"a": "Rotate the signing keys. See [[b]].", "b": "The keys lie in the vault.\n\nIt opens for two."}
    source = airw.from_mapping(notes, name="notes", strategy=Chunked(), edge_extractor=MarkdownLinks())
    async with airw.build(source, store=MemoryStore(), embedder="light") as corpus:
        walked = await airw.top_k(airw.traverse("rotate", corpus, policy=Eager(start_k=1)))
        hits = await airw.search(corpus, "keys")
    copies = [replace(hit, source="copy") for hit in hits]
    fused = airw.fuse_hits({"notes": hits, "copy": copies}, identity=lambda hit: hit.artifact_id)
    written = {key for hit in [*walked, *fused] for key in hit.metadata}
    named = {
        match[1] for names in SEEDS.values() for name in names if (match := re.fullmatch(r'metadata\["(.*)"\]', name))
    }
    assert len(named) == 7
    assert named <= written
