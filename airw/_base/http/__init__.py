"""Asking a server over HTTP: keys, time, retries, batches and errors, for whatever it is asked for."""

from airw._base.http.api import Api, Exchange
from airw._base.http.calls import Server
from airw._base.http.replies import decoded, in_their_order, told
from airw._base.http.urls import base_url

__all__ = ["Api", "Exchange", "Server", "base_url", "decoded", "in_their_order", "told"]
