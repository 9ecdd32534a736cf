"""Discovery in sync code."""

from typing import Final

from airw._base.signatures import convert_result
from airw.discovery import DiscoveryResult, DiscoveryStream, SourceAnswered, disclosure, discovery, expansion
from airw.sync._wrapping import blocking
from airw.sync.walking import SyncStream


def _to_sync(stream: DiscoveryStream) -> SyncStream[SourceAnswered | DiscoveryResult]:
    return SyncStream(stream)


discover: Final = blocking(discovery.discover)
discover_stream: Final = convert_result(discovery.discover_stream, _to_sync)
disclose: Final = blocking(disclosure.disclose)
expand: Final = blocking(expansion.expand)
