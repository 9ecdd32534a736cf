"""Asking a server over HTTP: keys, time, retries, batches and errors, for whatever it is asked for."""

from airw._base.http.api import Api, ApiClient, Exchange, PerLoop
from airw._base.http.calls import Server, base_url
from airw._base.http.replies import decoded, in_their_order, told

__all__ = ["Api", "ApiClient", "Exchange", "PerLoop", "Server", "base_url", "decoded", "in_their_order", "told"]
