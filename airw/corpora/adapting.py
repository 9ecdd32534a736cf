"""`adapt`: a corpus made of two or three functions."""

from airw._base.checks import NAME_RULE, is_valid_name
from airw._base.messages import short_repr
from airw.corpora.opening import Corpus
from airw.embedders import resolve_embedder
from airw.errors import ArgumentError
from airw.protocols import EmbedderLike
from airw.stores import FunctionStore
from airw.stores.function_store import UserFunction


def adapt(
    *,
    search: UserFunction | None = None,
    get: UserFunction | None = None,
    neighbors: UserFunction | None = None,
    name: str = "adapted",
    embedder: EmbedderLike = "light",
) -> Corpus:
    """Return a corpus made of functions, which can be searched and walked.

    The functions are sync or async; sync ones run in worker threads. Each is called once for many ids.

    A search for a query calls `search` and keeps its order and scores. A walk starts from such a search, or from
    `roots`; it follows `neighbors` and reads texts with `get`. It scores artifacts by the cosine of their texts to the
    query, which `embedder` computes. What needs a function that is missing raises an error that names it. An artifact
    that `get` does not know is walked through, but is no hit. Links lead out only, so `direction="in"` is an error, and
    so is a filter of a search.

    Args:
        search: `search(query, k)` returns at most `k` ids as `(id, score)` pairs, best first. It may also return ids
            alone, dicts with `id` and perhaps `score`, `text` and other fields, or `Record`, `SearchHit` and
            `Artifact` objects.
        get: `get(ids)` returns, for each id, its text, a dict with `text` and other fields, a `Record`, an `Artifact`,
            or `None` if it does not exist: a list in the order of `ids`, or a dict by id. Without `get`, a search and
            a walk have the texts that `search` has returned for their query. Of other artifacts, a walk has the text
            that any call has returned last, or an empty one.
        neighbors: `neighbors(ids)` returns, for each id, a list of ids, of `(id, type)` pairs or of `Edge` objects; or
            a dict of such lists by id.
        name: The name of the corpus; hits carry it as their source. Corpora that are searched together have different
            names.
        embedder: The embedder that compares texts in a walk, or its name. The default knows words, not meanings.
            `CachedEmbedder` remembers vectors between walks.

    Raises:
        ArgumentError: If no function is given, or something else than a function, or the name is not valid.

    Searches and walks raise a `StoreError` if a function fails or returns something else; it names the function.

    Example:
        >>> import anyio
        >>> from airw import search, traverse
        >>> from airw.policies import Eager
        >>> pages = {"a": "Rotate the signing keys.", "b": "Keys are in the vault.", "c": "The vault has two doors."}
        >>> links = {"a": ["b"], "b": ["c"]}
        >>> def find(query, k):
        ...     words = query.split()
        ...     found = [(id, sum(word in text for word in words)) for id, text in pages.items()]
        ...     return sorted(found, key=lambda row: -row[1])[:k]
        >>> def read(ids):
        ...     return [pages.get(id) for id in ids]
        >>> def follow(ids):
        ...     return [links.get(id) for id in ids]
        >>> corpus = adapt(search=find, get=read, neighbors=follow)
        >>> async def main():
        ...     print([(hit.artifact_id, hit.score) for hit in await search(corpus, "signing keys", k=1)])
        ...     walk = traverse("signing keys", corpus, policy=Eager(start_k=1))
        ...     print([hit.metadata["walk_path"] async for hit in walk])
        >>> anyio.run(main)
        [('a', 2.0)]
        [['a'], ['a', 'b'], ['a', 'b', 'c']]
    """
    functions = {"search": search, "get": get, "neighbors": neighbors}
    if all(function is None for function in functions.values()):
        raise ArgumentError("adapt needs a function: pass search=..., get=... or neighbors=...")
    for parameter, function in functions.items():
        if function is not None and not callable(function):
            raise ArgumentError(f"{parameter} must be a function, not {short_repr(function)}")
    if not is_valid_name(name):
        raise ArgumentError(f"{short_repr(name)} cannot name a corpus: use {NAME_RULE}")
    chosen = resolve_embedder(embedder)
    return Corpus(name, FunctionStore(search, get, neighbors, chosen), chosen)
