"""The command `serve`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from airw import corpora
from airw.cli.printing import print_line
from airw.cli.resolve import choose_corpus
from airw.errors import ArgumentError
from airw.reranking import resolve_reranker

if TYPE_CHECKING:
    import socket

    from airw.serving import ServingLimits


async def serve(arguments: argparse.Namespace) -> int:
    """Serve corpora over HTTP until the process is told to stop."""
    try:
        from airw.serving import ServingLimits, running, workers
    except ModuleNotFoundError as error:
        raise ArgumentError(f"serve needs the package {error.name}: pip install 'airw[serve]'") from error
    names = choose_corpora(arguments)
    check_rights(arguments)
    for spec in arguments.rerank:
        resolve_reranker(spec)  # a model that is missing is an error now, and not for each client
    options = running.ServerOptions(
        corpora=names,
        tokens=None if arguments.tokens is None else Path(arguments.tokens),
        writable=arguments.write,
        roots=[Path(root) for root in arguments.root],
        rerankers=arguments.rerank,
        hosts=arguments.hostname,
        origins=arguments.origin,
        limits=parse_limits(arguments.limit, ServingLimits()),
    )
    application = options.make_app()
    with running.listen(arguments.host, arguments.port, max_stall=options.limits.max_stall) as listener:
        running.log_to_stderr()
        announce = partial(print_line, f"serving {', '.join(names)} at {address_of(listener)}/; Ctrl-C stops it")
        if arguments.workers > 1:
            await workers.run_workers(options, listener, arguments.workers, announce)
        else:
            await running.run_server(application, listener, announce)
    return 0


def choose_corpora(arguments: argparse.Namespace) -> list[str]:
    """Return the corpora that a command names, or the only one.

    Raises:
        CorpusNotFound: If one of them is not there, or none is named and there is not exactly one.
    """
    names = arguments.names or [choose_corpus(None)]
    for name in names:
        corpora.find_location(name)
    return names


def address_of(listener: socket.socket) -> str:
    """Return the address of a server as a URL without a path."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def check_rights(arguments: argparse.Namespace) -> None:
    """Refuse to let strangers in by accident.

    Raises:
        ArgumentError: If the options contradict each other, or everybody could read.
    """
    if arguments.tokens is not None:
        if getattr(arguments, "write", None):
            raise ArgumentError("with --tokens, the token file says who may write; omit --write")
        if arguments.no_tokens:
            raise ArgumentError("use --tokens or --no-tokens, not both")
    elif not arguments.no_tokens and not is_loopback(arguments.host):
        raise ArgumentError(
            f"--host {arguments.host!r} lets other machines in; add --tokens FILE, or --no-tokens to let everybody read"
        )


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches an address.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
        (True, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # the name of a machine
        return False


def parse_limits(settings: Sequence[str], limits: ServingLimits) -> ServingLimits:
    """Return limits with the values of `--limit` in place of some.

    Raises:
        ArgumentError: If a value does not name a limit, or is no number for it.
    """
    from dataclasses import fields, replace

    kinds = {field.name: type(getattr(limits, field.name)) for field in fields(limits)}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in kinds:
            raise ArgumentError(f"--limit {setting!r} must be NAME=NUMBER; the names: {', '.join(kinds)}")
        try:
            limits = replace(limits, **{name: kinds[name](text)})
        except ValueError as error:
            kind = "a whole number of at least 1" if kinds[name] is int else "a number of seconds above 0"
            raise ArgumentError(f"--limit {setting!r} must set {kind}") from error
    return limits
