"""`RemoteCorpus`: a corpus on another machine, used like one on this machine."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, Unpack

import anyio

from airw._base.checks import (
    NAME_RULE,
    check_choice,
    check_kind,
    check_number,
    check_strings,
    check_text_query,
    is_valid_name,
)
from airw._base.messages import short_repr
from airw._base.signatures import check_option_names, shows_options
from airw.corpora import BuildReport, OnError, Opening
from airw.errors import ArgumentError, EmbedderMismatch, RemoteError, SourceError, StoreBusy
from airw.policies.specs import policy_spec
from airw.protocols import CAPABILITIES, Capability, Embedder
from airw.protocols.wire import COUNT, OBJECT, TEXT, TEXTS, MessageSize, WireFault, list_of, map_of, unpack_hit
from airw.remote.calls import CorpusServer, Timeouts, encode_json
from airw.remote.embedder import RemoteEmbedder
from airw.remote.messages import MessageLimits
from airw.remote.store import RemoteStore
from airw.remote.walk import RemoteWalk
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions, SearchQuery, answer_query
from airw.traversal import traverse
from airw.values import ItemProblem, Limits, SearchHit
from airw.values.filters import parse_filter, to_mapping
from airw.walking import Walk, WalkPolicy

if TYPE_CHECKING:
    import httpx

_LIMITS_OF_WALK = asdict(Limits())
_COUNTS = ("added", "updated", "unchanged", "deleted")
_PAUSE = 0.25  # seconds between two attempts to change a corpus that others change
_SIZES = ("max_together", "max_ids", "max_rows", "max_fields")  # of a message, in the order of `MessageSize`
_LIMITS = (*_SIZES, "max_body", "max_texts")


class RemoteCorpus:
    """A corpus on another machine, served there by `airw serve` or `airw.serving.app`.

    It can be used wherever an open corpus can: in `search`, `discover`, `traverse` and `FederatedCorpus`. The ids,
    their order and the scores are those that the corpus has on its own machine.

    Enter it with `async with`, or await `RemoteCorpus.open(...)` and close it yourself. It holds one HTTP client for
    all calls. Calls that read are sent again, at most twice, if the connection was lost or the server was busy.
    Redirects are never followed, so the token goes to this server only.

    Args:
        url: The base URL of the server, such as `"http://127.0.0.1:8000"`.
        name: The name of the corpus there; hits carry it as their source.
        token: The token to send; `None` if the server needs none.
        client: An `httpx.AsyncClient` of your own, which stays open; `None` for one that belongs to this object.
        timeouts: The time that each phase of a request may take.
        embedder: An embedder on this machine with the same id as that of the corpus; `None` to embed on the server.

    Raises:
        ArgumentError: If an argument cannot be used.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        token: str | None = None,
        client: "httpx.AsyncClient | None" = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - immutable
        embedder: Embedder | None = None,
    ) -> None:
        if not is_valid_name(name):
            raise ArgumentError(f"{short_repr(name)} cannot name a corpus: use {NAME_RULE}")
        self.name = name
        self._server = CorpusServer(url, token=token, client=client, timeouts=timeouts)
        self._own_embedder = embedder
        self._parts: tuple[RemoteStore, Embedder] | None = None
        self._policies: Mapping[str, Collection[str]] = {}  # those of the server, with their parameters
        self._holds_walks = False

    @classmethod
    def open(
        cls,
        url: str,
        name: str,
        *,
        token: str | None = None,
        client: "httpx.AsyncClient | None" = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - immutable
        embedder: Embedder | None = None,
    ) -> Opening[Self]:
        """Connect to a corpus; `await` it, or use `async with` to close it again.

        The parameters are those of `RemoteCorpus`.

        Raises:
            ArgumentError: If an argument cannot be used.
            CorpusNotFound: If the server has no such corpus, or none that the token may read.
            EmbedderMismatch: If the corpus was built with another embedder than the one passed.
            RemoteError: If the server cannot be reached, or speaks another version.
        """
        corpus = cls(url, name, token=token, client=client, timeouts=timeouts, embedder=embedder)
        return Opening(corpus.__aenter__())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._server.url!r}, {self.name!r})"

    @property
    def store(self) -> RemoteStore:
        """Return the store of the corpus.

        Raises:
            RemoteError: If the corpus was not opened.
        """
        return self._require_open()[0]

    @property
    def embedder(self) -> Embedder:
        """Return the embedder of queries.

        Raises:
            RemoteError: If the corpus was not opened.
        """
        return self._require_open()[1]

    @property
    def embedder_id(self) -> str:
        """Return the id of the embedder that made the vectors: its model and weights.

        Raises:
            RemoteError: If the corpus was not opened.
        """
        return self.embedder.id

    def _require_open(self) -> tuple[RemoteStore, Embedder]:
        if self._parts is None:
            raise RemoteError(f"{self!r} is not open; enter it with `async with`, or await RemoteCorpus.open(...)")
        return self._parts

    @shows_options(SearchOptions, SEARCH_DEFAULTS)
    async def search(self, query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
        """Search the corpus on its server, in one request; see `airw.search` for the options.

        A search with a function among its options, such as a reranker of your own, ranks here instead. It then takes
        a request for each ranking.

        Raises:
            ArgumentError: If a value cannot be used, or the server does not allow it.
            AirwError: What went wrong on the server.
            RemoteError: If the server cannot be reached, or its answer cannot be used.
        """
        check_option_names("search", options, SEARCH_DEFAULTS)
        fields = _express_options(options)
        if fields is None:
            return await answer_query(self, SearchQuery.parse("search", query, options))
        body = await encode_json({"corpus": self.name, "query": check_text_query(query), **fields})

        def read(answer: Any) -> list[SearchHit]:
            return [unpack_hit(hit, source=self.name) for hit in list_of(OBJECT)(OBJECT(answer).get("hits"))]

        return await self._server.call("POST", "/search", of=self.name, body=body, read=read)

    def traverse(
        self,
        query: str,
        *,
        policy: WalkPolicy | None = None,
        max_depth: int | EllipsisType | None = ...,
        node_budget: int = 64,
        timeout: float | None = None,
        limits: Limits | None = None,
    ) -> Walk:
        """Walk the corpus on its server, whose hits arrive as they are committed.

        The parameters are those of `airw.traverse`, and so are the hits. A walk with a policy that the server does not
        know is walked here instead, with a request for each step: one of your own, one that JSON cannot express, or one
        with a parameter that the release of airw on the server does not have.

        Raises:
            ArgumentError: If an argument cannot be used; raised by this call, before the walk starts.
            RemoteError: If the corpus is not open.
        """
        here = traverse(
            query, self, policy=policy, max_depth=max_depth, node_budget=node_budget, timeout=timeout, limits=limits
        )
        try:
            spec = policy_spec(here.policy)
        except ArgumentError:
            return here
        known = self._policies.get(spec["name"])
        if known is None or not spec["params"].keys() <= {*known}:
            return here
        fields: dict[str, Any] = {"query": query, "policy": spec, "node_budget": node_budget}
        if max_depth is not ...:
            fields["max_depth"] = max_depth
        if timeout is not None and timeout != math.inf:
            fields["timeout"] = timeout
        if limits is not None:
            fields["limits"] = {name: value for name, value in asdict(limits).items() if value != _LIMITS_OF_WALK[name]}
        if self._holds_walks:
            fields["hold"] = True
        return RemoteWalk(self._server, self.name, here.policy, fields)

    async def upsert(
        self, items: Mapping[str, Any], *, on_error: OnError = "raise", lock_timeout: float = 30.0
    ) -> BuildReport:
        """Insert artifacts, or replace those with the same ids, one request each.

        Unlike `Corpus.upsert`, it takes no `Artifact`s: the server makes them of the values. The artifacts before one
        that fails stay. What a change survives is `store.durability`.

        Args:
            items: Raw values by id, each a text or a mapping of fields.
            on_error: `"raise"`: stop at the first item that cannot be indexed. `"skip"`: leave it out and report it.
            lock_timeout: How many seconds each artifact may wait for a build or another change.

        Returns:
            The counts and the problems.

        Raises:
            ArgumentError: If the items are of another kind, or the server refuses one.
            SourceError: If an item cannot be indexed.
            StoreBusy: If others change the corpus for longer than `lock_timeout`.
            RemoteError: If the token may not change the corpus, or the server cannot be reached. After a lost
                connection it is not known whether the artifact was stored; insert it again.
        """
        check_kind("items", items, Mapping, "be a mapping of id to value", error=ArgumentError)
        check_choice("on_error", on_error, ("raise", "skip"))
        check_number("lock_timeout", lock_timeout, least=0)
        start, totals, problems = anyio.current_time(), Counter[str](), list[ItemProblem]()
        for id, value in items.items():
            body = await encode_json({"corpus": self.name, "id": id, "value": value})
            try:
                totals.update(await self._change("PUT", lock_timeout, body=body))
            except SourceError as error:
                if on_error == "raise":
                    raise
                problems.append(ItemProblem(id, str(error)))
        return BuildReport(
            added=totals["added"],
            updated=totals["updated"],
            unchanged=totals["unchanged"],
            problems=tuple(problems),
            seconds=anyio.current_time() - start,
        )

    async def delete(self, artifact_ids: Iterable[str], *, lock_timeout: float = 30.0) -> int:
        """Delete artifacts, one request each, and return how many were deleted.

        An id that is not in the corpus is ignored.

        Args:
            artifact_ids: The ids.
            lock_timeout: How many seconds each artifact may wait for a build or another change.

        Raises:
            ArgumentError: If `artifact_ids` is not a list of ids.
            StoreBusy: If others change the corpus for longer than `lock_timeout`.
            RemoteError: If the token may not change the corpus, or the server cannot be reached.
        """
        check_number("lock_timeout", lock_timeout, least=0)
        deleted = 0
        for id in check_strings("artifact_ids", artifact_ids):
            counts = await self._change("DELETE", lock_timeout, params={"corpus": self.name, "id": id})
            deleted += counts.get("deleted", 0)
        return deleted

    async def _change(
        self, method: str, lock_timeout: float, *, body: bytes | None = None, params: Mapping[str, str] | None = None
    ) -> dict[str, int]:
        """Send a change until the server does it or refuses it.

        After a lost connection it is not sent again: a second one might undo what others did meanwhile.
        """
        self._require_open()
        end = anyio.current_time() + lock_timeout
        while True:
            try:
                return await self._server.call(
                    method, "/artifact", of=self.name, body=body, params=params, read=_read_counts, may_repeat=False
                )
            except StoreBusy:  # nothing was changed
                if anyio.current_time() >= end:
                    raise
            await anyio.sleep(_PAUSE)

    async def aclose(self) -> None:
        """Close the connections; closing twice is harmless."""
        await self._server.aclose()

    async def __aenter__(self) -> Self:
        return self if self._parts is not None else await self._connect()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def _connect(self) -> Self:
        try:
            body = await encode_json({"corpus": self.name})
            found = await self._server.call("POST", "/store/describe", of=self.name, body=body, read=_read_description)
            self._parts = self._make_parts(found)
        except BaseException:
            await self._server.aclose()
            raise
        return self

    def _make_parts(self, found: "_Description") -> tuple[RemoteStore, Embedder]:
        label = self._server.label(self.name)
        embedder = self._own_embedder
        if embedder is None:
            embedder = RemoteEmbedder(
                self._server, self.name, id=found.embedder_id, dim=found.dim, max_texts=found.limits["max_texts"]
            )
        elif embedder.id != found.embedder_id:
            raise EmbedderMismatch(
                f"{label} was built with the embedder {short_repr(found.embedder_id)}, not {short_repr(embedder.id)}"
            )
        limits = MessageLimits(
            MessageSize(*(found.limits[name] for name in _SIZES)),
            found.limits["max_body"],
            found.limits.get("max_messages", 1),  # an older server takes each alone
        )
        self._policies, self._holds_walks = found.policies, found.holds_walks
        store = RemoteStore(
            self._server, self.name, found.capabilities, limits, dim=found.dim, durability=found.durability
        )
        return store, embedder


@dataclass(frozen=True, slots=True)
class _Description:
    """What a server says about a corpus."""

    embedder_id: str
    dim: int
    capabilities: Collection[Capability]
    policies: Mapping[str, list[str]]
    durability: str
    limits: Mapping[str, int]
    holds_walks: bool


def _express_options(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options of a search as JSON; `None` if that cannot express them."""
    fields = {name: value for name, value in options.items() if value != SEARCH_DEFAULTS[name]}
    if "filter" in fields:
        fields["filter"] = to_mapping(parse_filter(fields["filter"]))
    if "surfaces" in fields:
        fields["surfaces"] = [*check_strings("surfaces", fields["surfaces"])]
    is_plain = all(isinstance(value, str | int | float | list | dict | None) for value in fields.values())
    return fields if is_plain and "formulate" not in fields else None


def _read_counts(answer: Any) -> dict[str, int]:
    fields = OBJECT(answer)
    return {name: COUNT(value) for name, value in fields.items() if name in _COUNTS}


def _read_description(answer: Any) -> _Description:
    if not isinstance(answer, dict) or not isinstance(answer.get("embedder"), dict):
        raise WireFault("it does not describe a corpus")
    limits = map_of(COUNT)(answer.get("limits"))
    if not all(limits.get(name, 0) > 0 for name in _LIMITS):
        raise WireFault("its limits are missing")
    embedder = answer["embedder"]
    return _Description(
        TEXT(embedder.get("id")),
        COUNT(embedder.get("dim")),
        (CAPABILITIES - {"writing"}).intersection(TEXTS(answer.get("capabilities"))),
        map_of(TEXTS)(answer.get("policies")),
        TEXT(answer.get("durability")),
        limits,
        answer.get("holds_walks") is True,
    )
