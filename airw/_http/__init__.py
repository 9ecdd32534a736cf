"""Asking a server over HTTP: keys, time, retries, batches and errors, for whatever it is asked for."""

from airw._http.api import Api, Exchange
from airw._http.calls import Server
from airw._http.replies import decoded, in_their_order, told
from airw._http.urls import base_url

__all__ = ["Api", "Exchange", "Server", "base_url", "decoded", "in_their_order", "told"]
