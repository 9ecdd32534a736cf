"""The parser of serve."""

from airw.cli.options import CommandParser, Commands, add_command, parse_whole_number

_LIMITS = "a limit of the server, such as max_k=100; may be repeated; docs/serving.md lists them"


def add_serving(sub: Commands) -> None:
    """Add serve."""
    epilog = """Without options, programs and pages on this machine may read, and nobody may write.
The token file is a JSON list, which only you may read (chmod 600):
  [{"value": "$ADA_TOKEN", "label": "ada", "read": ["notes"], "write": ["notes"]}]

  airw serve notes                             then open http://127.0.0.1:8000/ in a browser
  airw serve notes drafts --write drafts       programs on this machine may change drafts
  airw serve notes --host 0.0.0.0 --tokens tokens.json --workers 4

Ctrl-C or SIGTERM stops the server: running requests end first. With --workers, SIGHUP replaces the processes one after
another, and each reads the token file again."""
    serve = add_command(sub, "serve", "serving.serve", "answer searches and walks over HTTP", epilog=epilog)
    _add_door(serve)
    serve.add_argument(
        "--write", metavar="CORPUS", action="append", default=[], help="everybody may change this corpus; repeatable"
    )
    serve.add_argument(
        "--root",
        metavar="FOLDER",
        action="append",
        default=[],
        help="files in this folder may be read, if a hit names them; repeatable",
    )
    serve.add_argument(
        "--rerank",
        metavar="SPEC",
        action="append",
        default=[],
        help="clients may choose this reranker: cross-encoder, or cross-encoder:MODEL; repeatable",
    )
    _add_names(serve)
    serve.add_argument(
        "--workers", type=parse_whole_number, default=1, metavar="N", help="serve with N processes; default: 1"
    )
    _add_limit(serve)


def add_mcp(sub: Commands) -> None:
    """Add mcp."""
    epilog = """The tools are discover, traverse, read and link_path; they only read. An agent starts the command
itself and talks over its standard streams. The entry in its configuration:
  {"mcpServers": {"notes": {"command": "airw", "args": ["mcp", "notes"]}}}

  airw mcp notes                               for an agent that starts it
  airw mcp notes --limit max_timeout=4         for an agent that gives up a call after 5 seconds
  airw mcp notes drafts --http --port 8001     for agents on this machine, at http://127.0.0.1:8001/mcp

The token file is that of airw serve."""
    mcp = add_command(sub, "mcp", "mcp.offer_tools", "offer corpora as tools of agents (MCP)", epilog=epilog)
    mcp.add_argument("--http", action="store_true", help="answer over HTTP at /mcp; all but --limit belong to it")
    _add_door(mcp)
    _add_names(mcp)
    _add_limit(mcp)


def _add_door(serve: CommandParser) -> None:
    """Add the corpora, the address, and who may read."""
    serve.add_argument(
        "names", metavar="CORPUS", nargs="*", help="the corpora; default: $AIRW_CORPUS, or the only corpus"
    )
    serve.add_argument(
        "--host", metavar="ADDRESS", default="127.0.0.1", help="the address to listen at; default: 127.0.0.1"
    )
    serve.add_argument("--port", type=_parse_port, default=8000, help="the port; 0: any free one; default: 8000")
    serve.add_argument("--tokens", metavar="FILE", help="who may read and write; requests then need a token")
    serve.add_argument(
        "--no-tokens", action="store_true", help="allow another --host without tokens: everybody may read"
    )


def _add_names(serve: CommandParser) -> None:
    """Add the names that the server answers to, and the pages that may ask."""
    serve.add_argument(
        "--hostname",
        metavar="NAME",
        action="append",
        default=[],
        help="answer to this name, too, such as that of a proxy; default: addresses, localhost, and with --tokens any; "
        "repeatable",
    )
    serve.add_argument(
        "--origin",
        metavar="URL",
        action="append",
        default=[],
        help="pages of this origin may ask, such as https://kb.example; repeatable",
    )


def _add_limit(serve: CommandParser) -> None:
    serve.add_argument("--limit", metavar="NAME=NUMBER", action="append", default=[], help=_LIMITS)


def _parse_port(text: str) -> int:
    """Parse the number of a port, for argparse."""
    port = 0 if text == "0" else parse_whole_number(text)
    if port > 65_535:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"must be at most 65535, not {text!r}")
    return port
