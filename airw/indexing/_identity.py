"""Stable names of objects: a name changes as soon as the behaviour of its object can."""

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
# The parts of a code object that decide its behaviour. File name and line numbers do not: moving a function in its
# file must not index a corpus again.
_CODE_PARTS = (
    *("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_exceptiontable"),
)
_NO_IDENTITY = "{} has no stable identity; add an `id` attribute to it or to the object that contains it"
_READING_ID: ContextVar[tuple[int, ...]] = ContextVar("_READING_ID", default=())
"""Addresses of the objects whose `id` is being read: an `id` may call `identity` on its own object."""


def identity(thing: object) -> str:
    """Return a name of an object that changes if the object's behaviour can change.

    The name is the same in every process. Builds compare names to notice a change of a strategy or an extractor. The
    name of an object depends on:

    - its `id`, if it has one that is a non-empty string; then on nothing else;
    - strings, numbers and containers: their value;
    - functions: module, name, code, defaults and the values of their closures;
    - classes, modules and built-in functions: their name;
    - objects with their own way of pickling, such as `functools.partial`: the parts that `pickle` would store;
    - any other object: its class, the strings and numbers set on its class, and all its attributes, including private
      attributes and slots.

    Two changes go unnoticed: the code of methods, and module globals that a function uses. Change an attribute such as
    `version` with them.

    A strategy gets an `id` that follows its settings by `id = property(identity)`.

    Raises:
        ArgumentError: If a part has no stable identity, such as a generator, an open file or a lock.

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
    if explicit := _explicit_id(thing):
        return explicit
    try:
        digest = _Digests().digest(thing)
    except RecursionError as error:
        raise ArgumentError(f"{short_repr(thing)} is nested too deeply for an identity; add an `id` to it") from error
    definition = thing if isinstance(thing, (type, types.FunctionType)) else type(thing)
    return f"{definition.__qualname__}-{digest.hex()[:16]}"


def _explicit_id(thing: object) -> str | None:
    """Return the `id` of an object if it is a non-empty string and not being read already."""
    if isinstance(thing, (type, types.ModuleType)) or type(thing) in _SCALARS or id(thing) in _READING_ID.get():
        return None
    token = _READING_ID.set((*_READING_ID.get(), id(thing)))
    try:
        explicit = getattr(thing, "id", None)
    finally:
        _READING_ID.reset(token)
    return explicit if isinstance(explicit, str) and explicit else None


class _Digests:
    """The digests of an object and of its parts, each computed once.

    Objects can contain themselves. An object that is met again before its digest is cached is described by a distance:
    the number of objects started since it was. A digest that contains the distance to an object further out is valid
    only in this place, so it is not cached.
    """

    def __init__(self) -> None:
        self._order: dict[int, int] = {}  # address -> number of objects started before this one
        self._cache: dict[int, bytes] = {}
        self._alive: list[object] = []  # keeps temporary objects alive, so that no address is used twice
        self._outermost = 0  # the lowest number that the current digest refers to

    def digest(self, thing: object) -> bytes:
        if type(thing) in _SCALARS:
            return _hash(type(thing).__name__, hex(thing) if isinstance(thing, int) else repr(thing))
        address = id(thing)
        if address in self._cache:
            return self._cache[address]
        if address in self._order:
            self._outermost = min(self._outermost, self._order[address])
            return _hash("again", str(len(self._order) - self._order[address]))
        return self._compute(address, thing)

    def _compute(self, address: int, thing: object) -> bytes:
        number = self._order[address] = len(self._order)
        self._alive.append(thing)
        outer, self._outermost = self._outermost, number
        digest = _hash(_full_name(type(thing)), *self._parts(thing))
        # A digest that refers to nothing further out is the same wherever the object occurs.
        if self._outermost >= number:
            self._cache[address] = digest
        self._outermost = min(outer, self._outermost)
        return digest

    def _parts(self, thing: Any) -> Iterable[bytes | str]:
        if explicit := _explicit_id(thing):
            return [explicit]
        match thing:
            case type() | types.ModuleType():
                return [_full_name(thing)]
            case types.FunctionType():
                cells = [*map(_cell_content, thing.__closure__ or ())]
                contents = [thing.__code__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__, cells]
                return [_full_name(thing), *map(self.digest, contents)]
            case types.MethodType():
                return [self.digest(thing.__func__), self.digest(thing.__self__)]
            case types.BuiltinFunctionType():
                return [_full_name(thing), self.digest(thing.__self__)]
            case types.CodeType():
                return [self.digest(getattr(thing, name)) for name in _CODE_PARTS]
            # Dicts and sets are sorted by digest: their order of insertion must not matter.
            case dict() | types.MappingProxyType() if type(thing) in _CONTAINERS:
                return sorted(self.digest(key) + self.digest(value) for key, value in thing.items())
            case set() | frozenset():
                return [*sorted(map(self.digest, thing)), *self._attribute_digests(thing)]
            case list() | tuple() if type(thing) in _CONTAINERS:
                return map(self.digest, thing)
        return self._pickle_parts(thing)

    def _pickle_parts(self, thing: object) -> Iterator[bytes | str]:
        """Yield the parts from which `pickle` would make the object again."""
        reduced = _reduce(thing)
        if isinstance(reduced, str):  # pickled by its global name
            yield from (_full_name(thing), self.digest(getattr(thing, "__wrapped__", None)))
            return
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        yield _full_name(make) if hasattr(make, "__qualname__") else self.digest(make)
        yield from map(self.digest, (arguments, state, list(items or ()), list(pairs or ())))
        # The default way of pickling lets a class leave attributes out (`__getstate__`), but they may decide behaviour.
        if make is copyreg.__newobj__:  # type: ignore[attr-defined]
            yield from self._attribute_digests(thing)

    def _attribute_digests(self, thing: object) -> Iterator[bytes]:
        """Yield digests of all attributes, pickled or not, and of constants of the classes."""
        yield self.digest(object.__getstate__(thing))
        yield from (self.digest((name, getattr(thing, name))) for name in _class_constants(type(thing)))


def _reduce(thing: object) -> Any:
    """Return the description of an object that `pickle` would use.

    Raises:
        ArgumentError: If the object cannot be pickled, as it may have state that cannot be read. Also for a bare
            `object()`, which differs from the next one by nothing but its address.
    """
    kind = type(thing)
    try:
        if kind is not object:
            return copyreg.dispatch_table[kind](thing) if kind in copyreg.dispatch_table else thing.__reduce_ex__(2)
    except RecursionError:
        raise
    except Exception as error:
        raise ArgumentError(_NO_IDENTITY.format(short_repr(thing))) from error
    raise ArgumentError(_NO_IDENTITY.format(short_repr(thing)))


def _class_constants(kind: type) -> list[str]:
    """Return the names of scalar attributes that are set on a class or its bases."""
    attributes = ((name, value) for base in kind.__mro__ for name, value in vars(base).items())
    return sorted({name for name, value in attributes if type(value) in _SCALARS and not name.startswith("__")})


def _cell_content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the closure's variable is not assigned yet
        return types.CellType


def _full_name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', None)}.{getattr(thing, '__qualname__', None) or thing.__name__}"


def _hash(*parts: bytes | str) -> bytes:
    raw = [part.encode(errors="surrogatepass") if isinstance(part, str) else part for part in parts]
    # Each part is preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
    return hashlib.sha256(b"".join(b"%d:%s" % (len(part), part) for part in raw)).digest()
