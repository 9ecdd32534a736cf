"""`RemoteCorpus`: a corpus on another machine, used like one on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from airw._base.checks import NAME_RULE, is_valid_name
from airw._base.messages import short_repr
from airw.corpora import Opening
from airw.errors import ArgumentError, EmbedderMismatch, RemoteError
from airw.protocols import Embedder
from airw.remote.calls import CorpusServer, Timeouts, encode_json
from airw.remote.embedder import RemoteEmbedder
from airw.remote.store import CallLimits, RemoteStore
from airw.remote.wire import API_VERSIONS, COUNT, TEXT, TEXTS, WireFault, list_of, map_of

if TYPE_CHECKING:
    import httpx

_LIMITS = ("max_ids", "max_rows", "max_body", "max_texts")


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

    @classmethod
    def open(cls, url: str, name: str, **options: Any) -> Opening[Self]:
        """Connect to a corpus; `await` it, or use `async with` to close it again.

        Args:
            url: The base URL of the server.
            name: The name of the corpus.
            options: Those of `RemoteCorpus`.

        Raises:
            ArgumentError: If an argument cannot be used.
            CorpusNotFound: If the server has no such corpus, or none that the token may read.
            EmbedderMismatch: If the corpus was built with another embedder than the one passed.
            RemoteError: If the server cannot be reached, or speaks another version.
        """
        return Opening(cls(url, name, **options).__aenter__())

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

    def _require_open(self) -> tuple[RemoteStore, Embedder]:
        if self._parts is None:
            raise RemoteError(f"{self!r} is not open; enter it with `async with`, or await RemoteCorpus.open(...)")
        return self._parts

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
        if not {*API_VERSIONS}.intersection(found.versions):
            theirs, ours = (", ".join(map(str, versions)) for versions in (found.versions[:9], API_VERSIONS))
            raise RemoteError(f"{label} speaks version {theirs or 'none'} of the API, and this library {ours}")
        embedder = self._own_embedder
        if embedder is None:
            embedder = RemoteEmbedder(
                self._server, self.name, id=found.embedder_id, dim=found.dim, max_texts=found.limits["max_texts"]
            )
        elif embedder.id != found.embedder_id:
            raise EmbedderMismatch(
                f"{label} was built with the embedder {short_repr(found.embedder_id)}, not {short_repr(embedder.id)}"
            )
        limits = CallLimits(*(found.limits[name] for name in ("max_ids", "max_rows", "max_body")))
        return RemoteStore(self._server, self.name, limits), embedder


@dataclass(frozen=True, slots=True)
class _Description:
    """What a server says about a corpus."""

    versions: list[int]
    embedder_id: str
    dim: int
    methods: list[str]
    limits: Mapping[str, int]


def _read_description(answer: Any) -> _Description:
    if not isinstance(answer, dict) or not isinstance(answer.get("embedder"), dict):
        raise WireFault("it does not describe a corpus")
    limits = map_of(COUNT).unpack(answer.get("limits"))
    if not all(limits.get(name, 0) > 0 for name in _LIMITS):
        raise WireFault("its limits are missing")
    embedder = answer["embedder"]
    return _Description(
        list_of(COUNT).unpack(answer.get("api")),
        TEXT.unpack(embedder.get("id")),
        COUNT.unpack(embedder.get("dim")),
        TEXTS.unpack(answer.get("methods")),
        limits,
    )
