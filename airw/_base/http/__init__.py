"""HTTP clients of model servers: keys, time-outs, retries, batches and errors."""

from airw._base.http.api import Api, ApiClient, Exchange, PerLoop, TextsRefused
from airw._base.http.calls import Server
from airw._base.http.replies import decode_json, describe_reply, read_items
from airw._base.http.urls import base_url, origin_of

__all__ = [
    "Api",
    "ApiClient",
    "Exchange",
    "PerLoop",
    "Server",
    "TextsRefused",
    "base_url",
    "decode_json",
    "describe_reply",
    "origin_of",
    "read_items",
]
