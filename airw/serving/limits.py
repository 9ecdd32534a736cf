"""The limits of a server: what one request, one client and all clients may ask for."""

from dataclasses import dataclass, fields

from airw._base.checks import check_count, check_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    """The limits of a server, checked before those of the library.

    A request beyond a limit gets an answer that names the limit: 413 for a body or an answer, 429 for too many requests
    at once, 400 for all others.

    ```text
    max_body                 bytes in the body of a request
    max_answer               bytes in an answer that is no stream
    max_nesting              levels of nested lists and objects in it
    max_query_chars          characters in a query
    max_k                    hits of a search or discovery
    max_ids                  ids in one call
    max_conditions           conditions in a filter, each value of a list included
    max_node_budget          nodes of a walk
    max_hops                 hops of a walk or a path
    max_corpora              corpora in one discovery or walk
    max_timeout              seconds for one request; longer deadlines, and none, are cut to this
    max_requests             requests that work at the same time, streams not counted
    max_requests_per_client  those of one token, or without tokens of one address
    max_waiting              requests that wait for others; further ones get 429
    max_wait                 seconds that a request waits for others before it gets 429
    max_body_wait            seconds in which the body of a request must arrive
    max_unsent               bytes of long answers that clients have not taken yet; further answers get 429
    max_unsent_per_client    those of one token, or without tokens of one address
    max_streams              streams at the same time
    max_streams_per_client   streams of one token at the same time, or without tokens of one address
    max_held_walks           walks that wait for their clients to go on; of too many, the oldest is dropped
    max_held_per_client      those of one client
    max_held_nodes           nodes that such a walk has found at most; larger ones are not held
    max_hold                 seconds for which one is held
    heartbeat                seconds without an event after which a stream sends a comment
    max_stall                seconds that a client may take no data before its stream or answer is cut
    ```

    Raises:
        ArgumentError: If a limit is not a number above 0; counts are whole numbers.

    Example:
        >>> ServingLimits(max_k=50).max_k
        50
    """

    max_body: int = 1_000_000
    max_answer: int = 64_000_000
    max_nesting: int = 60
    max_query_chars: int = 10_000
    max_k: int = 1_000
    max_ids: int = 10_000
    max_conditions: int = 1_000
    max_node_budget: int = 10_000
    max_hops: int = 100
    max_corpora: int = 32
    max_timeout: float = 60.0
    max_requests: int = 32
    max_requests_per_client: int = 24
    max_waiting: int = 256
    max_wait: float = 5.0
    max_body_wait: float = 10.0
    max_unsent: int = 256_000_000
    max_unsent_per_client: int = 128_000_000
    max_streams: int = 256
    max_streams_per_client: int = 32
    max_held_walks: int = 64
    max_held_per_client: int = 16
    max_held_nodes: int = 20_000
    max_hold: float = 300.0
    heartbeat: float = 15.0
    max_stall: float = 60.0

    def __post_init__(self) -> None:
        """Check all limits."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(item.default, int):
                check_count(item.name, value, least=1)
            else:
                check_seconds(item.name, value)
