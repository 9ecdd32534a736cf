"""The public names with their signatures: functions, classes, methods, constants.

A row is a name, such as `airw.search` or `airw.Corpus.search`. A name that several packages list has its row at the
shortest place; the others say so. Parameters are written as Python writes them, with `/` and `*` between their kinds.
A type is written only if it is plain, such as `int` or `Sequence[str]`: it is what a user passes. Members of a class
that a public base has with the same signature have no row of their own.
"""

import collections.abc
import dataclasses
import hashlib
import inspect
import pkgutil
import re
import typing
from importlib import import_module
from types import FunctionType, UnionType

import airw

PARTS = ["library"]
WAYS = ["python"]
DOORS = ("airw.serving", "airw.mcp", "airw.cli", "airw.integrations")
"""Packages that import other large libraries; `names_doors` has their rows."""

SPECIAL = ["__aenter__", "__aiter__", "__await__", "__call__", "__enter__", "__getitem__", "__iter__", "__len__"]
PLAIN = {"None", "bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple"}
PLAIN |= {"AsyncIterator", "Collection", "Iterable", "Iterator", "Mapping", "PathLike", "Sequence", "datetime"}
WORD = re.compile(r"[A-Za-z_]\w*")


def record(part, way, folder):
    return rows_of(public_names(with_doors=False))


def public_names(with_doors):
    """Return the public names with their objects; the shortest names come first."""
    found = {}
    for package in sorted(public_packages(with_doors), key=lambda name: (name.count("."), name)):
        module = import_module(package)
        found |= {f"{package}.{name}": getattr(module, name) for name in sorted(module.__all__)}
    return found


def public_packages(with_doors):
    yield "airw"
    for found in pkgutil.walk_packages(airw.__path__, "airw."):
        is_door = found.name.startswith(DOORS)
        if "._" not in found.name and (with_doors or not is_door) and hasattr(import_module(found.name), "__all__"):
            yield found.name


def rows_of(names):
    """Return the row of each name, and of the members of its classes."""
    first = {id(thing): name for name, thing in reversed(names.items()) if has_identity(thing)}
    rows = {}
    for name, thing in names.items():
        if first.get(id(thing), name) != name:
            rows[name] = {"same as": first[id(thing)]}
        elif inspect.isclass(thing):
            rows |= rows_of_class(name, thing, first)
        else:
            rows[name] = row_of(thing)
    return rows


def has_identity(thing):
    return inspect.isclass(thing) or isinstance(thing, FunctionType)


def row_of(thing):
    """Return the row of a function, a constant or an alias of types."""
    if callable(thing) and has_identity(thing):
        return {"kind": kind_of(thing)} | signature_of(thing)
    if typing.get_origin(thing) is typing.Literal:
        return {"kind": "alias", "words": list(typing.get_args(thing))}
    if typing.get_origin(thing) is not None or isinstance(thing, UnionType):
        return {"kind": "alias"}
    return {"kind": "constant", "value": text_of(thing)}


def kind_of(function):
    """Return whether a caller awaits a function, goes through it, or neither."""
    if inspect.iscoroutinefunction(function):
        return "async function"
    if inspect.isasyncgenfunction(function):
        return "async generator"
    return "async context manager" if inspect.isasyncgenfunction(inspect.unwrap(function)) else "function"


def rows_of_class(name, thing, public):
    """Return the rows of a class and of its methods."""
    members = members_of(thing)
    rows = {each: row_of_method(member) for each, member in members.items() if is_method(member)}
    inherited = [each for each, row in rows.items() if is_inherited(each, row, thing, public)]
    row = {
        "bases": [public.get(id(base), base.__name__) for base in nearest_bases(thing, public)],
        "constructor": signature_of(thing)["parameters"] if has_constructor(thing) else [],
        "attributes": [each for each in members if each not in rows],
        "inherits": inherited,
        "serves": [each for each in SPECIAL if any(each in vars(base) for base in thing.__mro__ if is_own(base))],
    }
    row = {"kind": kind_of_class(thing)} | {key: value for key, value in row.items() if value}
    return {name: row} | {f"{name}.{each}": own for each, own in rows.items() if each not in inherited}


def kind_of_class(thing):
    if issubclass(thing, BaseException):
        return "exception"
    if getattr(thing, "_is_protocol", False):
        return "protocol"
    if typing.is_typeddict(thing):
        return "typed dict"
    return "dataclass" if dataclasses.is_dataclass(thing) else "class"


def nearest_bases(thing, public):
    """Return the nearest bases of a class that are public or of Python."""
    bases = []
    for base in thing.__bases__:
        is_python = base.__module__ == "builtins" and base is not object
        bases += [base] if id(base) in public or is_python else nearest_bases(base, public)
    return list(dict.fromkeys(bases))


def is_own(thing):
    return thing.__module__.split(".")[0] in ("airw", "collections", "contextlib")


def members_of(thing):
    """Return the public members of a class that are no parameters of its constructor."""
    owners = [base for base in reversed(thing.__mro__) if is_own(base)]
    found = {each: None for base in owners for each in vars(base).get("__annotations__", {})}
    found |= {each: member for base in owners for each, member in vars(base).items()}
    given = inspect.signature(thing).parameters if has_constructor(thing) else ()
    return {each: found[each] for each in sorted(found) if each[0] != "_" and each not in given}


def is_method(member):
    return isinstance(member, (FunctionType, staticmethod, classmethod))


def is_inherited(name, row, thing, public):
    """Return whether a public base has a method with the same parameters."""
    bases = [base for base in thing.__mro__[1:] if id(base) in public and name in members_of(base)]
    rows = [row_of_method(members_of(base)[name]) for base in bases if is_method(members_of(base)[name])]
    return any({**each, "returns": ""} == {**row, "returns": ""} for each in rows[:1])


def row_of_method(member):
    if isinstance(member, FunctionType):
        return {"kind": kind_of(member).replace("function", "method")} | signature_of(member)
    return {"kind": f"{type(member).__name__[:-6]} {kind_of(member.__func__)}"} | signature_of(member.__func__)


def has_constructor(thing):
    """Return whether users make objects of a class, by parameters that are ours."""
    makers = [base for base in thing.__mro__ if {"__init__", "__new__"} & vars(base).keys()]
    is_made = kind_of_class(thing) in ("class", "dataclass", "exception")
    return is_made and makers[0].__module__.split(".")[0] == "airw"


def signature_of(function):
    """Return the parameters of a callable, and what it returns if that is plain."""
    signature = inspect.signature(function)
    parameters, kind = [], None
    for each in signature.parameters.values():
        if each.name[0] == "_" or (each.name in ("self", "cls") and not parameters):
            continue
        if kind is each.POSITIONAL_ONLY and each.kind is not kind:
            parameters.append("/")
        if each.kind is each.KEYWORD_ONLY and kind not in (each.VAR_POSITIONAL, each.KEYWORD_ONLY):
            parameters.append("*")
        parameters.append(parameter_text(each, factories(function)))
        kind = each.kind
    returns = plain_type(signature.return_annotation, PLAIN | public_classes())
    return {"parameters": parameters} | ({"returns": returns} if returns else {})


def parameter_text(parameter, made):
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    plain = plain_type(parameter.annotation, PLAIN | {*airw.values.__all__})
    text += f": {plain}" if plain else ""
    default = made.get(parameter.name, parameter.default)
    if parameter.name in made and isinstance(default, float):
        return f"{text} = <float>"  # a clock
    return text if default is parameter.empty else f"{text} = {text_of(default)}"


def factories(thing):
    """Return the default values that a dataclass makes anew for each object."""
    fields = dataclasses.fields(thing) if inspect.isclass(thing) and dataclasses.is_dataclass(thing) else ()
    return {each.name: each.default_factory() for each in fields if each.default_factory is not dataclasses.MISSING}


def public_classes():
    return {*airw.__all__, *airw.values.__all__, *airw.walking.__all__, *airw.corpora.__all__, *airw.links.__all__}


def plain_type(annotation, words):
    """Return the text of a type that consists of some words, or an empty text."""
    if annotation in (inspect.Parameter.empty, inspect.Signature.empty):
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"(?:\w+\.)+(?=\w)", "", text.strip("'")).replace("NoneType", "None")
    return text if {*WORD.findall(text)} <= words else ""


def text_of(value):
    """Return a value as text: small plain ones as they are written, others by their type."""
    if isinstance(value, str) and len(value) > 60:
        return f"{value[:40]!r}… {len(value)} characters, {hashlib.sha256(value.encode()).hexdigest()[:8]}"
    if value is None or value is ... or isinstance(value, (bool, int, float, str, bytes)):
        return "..." if value is ... else repr(value)
    if isinstance(value, (tuple, list)):
        brackets = "[]" if isinstance(value, list) else "()"
        return brackets[0] + ", ".join(map(text_of, value)) + brackets[1]
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(text_of, value))) + "}"
    if isinstance(value, collections.abc.Mapping):
        return "{" + ", ".join(f"{text_of(key)}: {text_of(each)}" for key, each in value.items()) + "}"
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__qualname__.replace("<lambda>", "lambda")
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}()"
    return f"<{type(value).__name__}>"
