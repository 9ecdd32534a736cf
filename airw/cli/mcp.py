"""The command `mcp`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from airw.cli.printing import print_line, print_note
from airw.cli.serving import address_of, check_rights, choose_corpora, parse_limits
from airw.errors import ArgumentError


async def offer_tools(arguments: argparse.Namespace) -> int:
    """Offer corpora as tools of agents, until the client leaves or the process is stopped."""
    try:
        from airw.mcp.application import app
        from airw.mcp.calls import DEFAULT_LIMITS
        from airw.mcp.running import run_stdio
        from airw.serving import running
        from airw.serving.token_files import read_tokens
    except ModuleNotFoundError as error:
        raise ArgumentError(f"mcp needs the package {error.name}: pip install 'airw[mcp]'") from error
    names, limits = choose_corpora(arguments), parse_limits(arguments.limit, DEFAULT_LIMITS)
    if not arguments.http:
        _check_streams(arguments)
        if sys.stdin.isatty():
            print_note("waiting for a client that speaks MCP on standard input; Ctrl-C ends it")
        await run_stdio(names, limits=limits)
        return 0
    check_rights(arguments)
    application = app(
        names,
        tokens=() if arguments.tokens is None else read_tokens(Path(arguments.tokens)),
        limits=limits,
        hosts=arguments.hostname or None,
        origins=arguments.origin,
    )
    with running.listen(arguments.host, arguments.port) as listener:
        running.log_to_stderr()
        text = f"tools for {', '.join(names)} at {address_of(listener)}/mcp; Ctrl-C stops them"
        await running.run_server(application, listener, partial(print_line, text))
    return 0


def _check_streams(arguments: argparse.Namespace) -> None:
    """Refuse options that have no meaning without HTTP.

    Raises:
        ArgumentError: For the first such option.
    """
    given = {
        "--host": arguments.host != "127.0.0.1",
        "--port": arguments.port != 8000,
        "--tokens": arguments.tokens is not None,
        "--no-tokens": arguments.no_tokens,
        "--hostname": bool(arguments.hostname),
        "--origin": bool(arguments.origin),
    }
    for name, is_given in given.items():
        if is_given:
            raise ArgumentError(f"{name} is for a server over HTTP; add --http, or omit it")
