"""A short text that names a thing and everything that changes what it does."""

import copyreg
import hashlib
import types
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from airw._base.messages import short_repr
from airw.errors import ArgumentError

_SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented)})
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset, types.MappingProxyType})
_CODE = (  # of a code object, what changes what it does: neither its file nor its lines
    *("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_exceptiontable"),
)
_NAMELESS = "{} has no stable identity; give it, or what holds it, an `id`"
_ASKED: ContextVar[tuple[int, ...]] = ContextVar("_ASKED", default=())
"""The things whose own `id` is being asked for: one that comes back here is named by what it holds."""


def identity(thing: object) -> str:
    """Name a thing, and everything that changes what it does, the same in every process.

    What has an `id`, a string that is not empty, is named by it. Strings, numbers and containers are named by value;
    functions by their module, name, code, defaults and what they close over; classes, modules and what is built in by
    name; what is pickled in a way of its own, as `functools.partial`, by its parts; any other object by its class, the
    strings and numbers that its class sets, and all its attributes, private ones and slots too. The code of a class,
    and what a function takes from its module, are not looked into: let an attribute such as `version` tell them apart.

    A strategy gets an `id` that follows its settings by `id = property(identity)`.

    Raises:
        ArgumentError: Something in it has no stable identity, such as a generator, an open file or a lock.

    Example:
        >>> from dataclasses import dataclass
        >>> from airw.values import IndexPlan, Surface
        >>> @dataclass(frozen=True)
        ... class Pieces:
        ...     split: object
        ...     id = property(identity)
        ...
        ...     def decompose(self, artifact):
        ...         pieces = [Surface(artifact.id, "piece", piece) for piece in self.split(artifact.raw)]
        ...         return IndexPlan(artifact.metadata, pieces)
        >>> Pieces(str.split).id == Pieces(str.split).id, Pieces(str.split).id == Pieces(str.splitlines).id
        (True, False)
    """
    if own := _own_id(thing):
        return own
    try:
        digest = _Digests().of(thing)
    except RecursionError as error:
        raise ArgumentError(f"{short_repr(thing)} is nested too deeply to be named; give it an `id`") from error
    named = thing if isinstance(thing, (type, types.FunctionType)) else type(thing)
    return f"{named.__qualname__}-{digest.hex()[:16]}"


def _own_id(thing: object) -> str | None:
    if isinstance(thing, (type, types.ModuleType)) or type(thing) in _SCALARS or id(thing) in _ASKED.get():
        return None
    token = _ASKED.set((*_ASKED.get(), id(thing)))
    try:
        found = getattr(thing, "id", None)
    finally:
        _ASKED.reset(token)
    return found if isinstance(found, str) and found else None


class _Digests:
    """The digests of a thing and of what it holds, each computed once.

    What is met again inside itself is named by how long ago it was begun. A digest that depends on something begun
    before it holds at this place only, and is not kept.
    """

    def __init__(self) -> None:
        self._begun: dict[int, int] = {}
        self._done: dict[int, bytes] = {}
        self._kept: list[object] = []  # else another thing might be given the same address
        self._oldest = 0

    def of(self, thing: object) -> bytes:
        if type(thing) in _SCALARS:
            return _hashed(type(thing).__name__, hex(thing) if isinstance(thing, int) else repr(thing))
        key = id(thing)
        if key in self._done:
            return self._done[key]
        if key in self._begun:
            self._oldest = min(self._oldest, self._begun[key])
            return _hashed("again", str(len(self._begun) - self._begun[key]))
        return self._new(key, thing)

    def _new(self, key: int, thing: object) -> bytes:
        number = self._begun[key] = len(self._begun)
        self._kept.append(thing)
        outer, self._oldest = self._oldest, number
        digest = _hashed(_name(type(thing)), *self._parts(thing))
        if self._oldest >= number:
            self._done[key] = digest
        self._oldest = min(outer, self._oldest)
        return digest

    def _parts(self, thing: Any) -> Iterable[bytes | str]:
        if own := _own_id(thing):
            return [own]
        match thing:
            case type() | types.ModuleType():
                return [_name(thing)]
            case types.FunctionType():
                cells = [*map(_content, thing.__closure__ or ())]
                inside = [thing.__code__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__, cells]
                return [_name(thing), *map(self.of, inside)]
            case types.MethodType():
                return [self.of(thing.__func__), self.of(thing.__self__)]
            case types.BuiltinFunctionType():
                return [_name(thing), self.of(thing.__self__)]
            case types.CodeType():
                return [self.of(getattr(thing, name)) for name in _CODE]
            case dict() | types.MappingProxyType() if type(thing) in _CONTAINERS:
                return sorted(self.of(key) + self.of(value) for key, value in thing.items())
            case set() | frozenset():
                return [*sorted(map(self.of, thing)), *self._attributes(thing)]
            case list() | tuple() if type(thing) in _CONTAINERS:
                return map(self.of, thing)
        return self._made(thing)

    def _made(self, thing: object) -> Iterator[bytes | str]:
        """Yield how the thing would be made again, as `pickle` asks for it."""
        how = _recipe(thing)
        if isinstance(how, str):
            yield from (_name(thing), self.of(getattr(thing, "__wrapped__", None)))
            return
        make, arguments, state, listed, keyed = (*how, None, None, None)[:5]
        yield _name(make) if hasattr(make, "__qualname__") else self.of(make)
        yield from map(self.of, (arguments, state, list(listed or ()), list(keyed or ())))
        if make is copyreg.__newobj__:  # type: ignore[attr-defined]
            yield from self._attributes(thing)

    def _attributes(self, thing: object) -> Iterator[bytes]:
        """Yield the attributes of the thing, those that its pickle leaves out too, and what its classes set."""
        yield self.of(object.__getstate__(thing))
        yield from (self.of((name, getattr(thing, name))) for name in _settings(type(thing)))


def _recipe(thing: object) -> Any:
    """Return what `pickle` asks a thing for.

    Raises:
        ArgumentError: It cannot be asked, and so has a state that nobody sees; or there is nothing to it but that it is
            another one than the next.
    """
    kind = type(thing)
    try:
        if kind is not object:
            return copyreg.dispatch_table[kind](thing) if kind in copyreg.dispatch_table else thing.__reduce_ex__(2)
    except RecursionError:
        raise
    except Exception as error:
        raise ArgumentError(_NAMELESS.format(short_repr(thing))) from error
    raise ArgumentError(_NAMELESS.format(short_repr(thing)))


def _settings(kind: type) -> list[str]:
    """Return the names under which a class or its bases set a string, a number, or another value without parts."""
    attributes = ((name, value) for each in kind.__mro__ for name, value in vars(each).items())
    return sorted({name for name, value in attributes if type(value) in _SCALARS and not name.startswith("__")})


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # nothing in it yet
        return types.CellType


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', None)}.{getattr(thing, '__qualname__', None) or thing.__name__}"


def _hashed(*parts: bytes | str) -> bytes:
    raw = [part.encode(errors="surrogatepass") if isinstance(part, str) else part for part in parts]
    return hashlib.sha256(b"".join(b"%d:%s" % (len(part), part) for part in raw)).digest()
