"""Agents: real clients of MCP, connected to a server in this process."""

from contextlib import asynccontextmanager

from mcp import Client

from airw.mcp.server import make_server
from airw.serving.application import make_service


@asynccontextmanager
async def connect(*corpora, mode="legacy", **options):
    """Yield a client of the tools of corpora; `legacy` sends messages, `auto` makes calls."""
    service = make_service(list(corpora), **options)
    async with service.running(), Client(make_server(service), mode=mode) as client:
        yield client


async def ask(client, tool, **arguments):
    """Return the structured answer of a tool."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def fail(client, tool, **arguments):
    """Return the message of a tool that fails."""
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    [content] = answer.content
    assert "\n" not in content.text
    return content.text
