"""The server of the Model Context Protocol: four tools over the corpora of a service."""

from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent

from airw._base.json import dump_json
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.mcp.calls import ToolCall
from airw.mcp.finding import find_documents, read_document
from airw.mcp.links import find_path
from airw.mcp.schemas import INSTRUCTIONS, describe_tools
from airw.mcp.walks import walk_documents
from airw.serving.access import Caller, client_of
from airw.serving.problems import describe_problem
from airw.serving.service import Service, log_failure

_Answer = Callable[[ToolCall], Awaitable[dict[str, Any]]]


def make_server(service: Service) -> Server[Any]:
    """Return a server whose tools ask the corpora of a service.

    The corpora should be open for as long as it runs: `async with service.running()`.
    """
    tools: Mapping[str, _Answer] = {
        "discover": find_documents,
        "traverse": walk_documents,
        "read": read_document,
        "link_path": find_path,
    }

    async def list_tools(context: ServerRequestContext[Any], _: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=describe_tools(_identify(service, context).readable, service.limits))

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        try:
            value = await _answer(service, tools, context, params)
        except Exception as error:  # noqa: BLE001 - each error is an answer, which the model can act on
            log_failure(error)
            content = [TextContent(text=describe_problem(error)["detail"])]
            return CallToolResult(content=content, is_error=True)
        # Clients that know no structured answers show the text to the model.
        return CallToolResult(content=[TextContent(text=dump_json(value))], structured_content=value)

    return Server(
        "airw",
        version=version("airw"),
        title="airw",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _answer(
    service: Service,
    tools: Mapping[str, _Answer],
    context: ServerRequestContext[Any],
    params: CallToolRequestParams,
) -> dict[str, Any]:
    """Return the answer of a tool.

    Raises:
        AirwError: If there is no such tool, its arguments cannot be used, or its work fails.
    """
    caller = _identify(service, context)
    if params.name not in tools:
        raise ArgumentError(f"there is no tool {short_repr(params.name)}; the tools: {', '.join(tools)}")

    async def report(found: int, most: int, latest: str) -> None:
        await context.session.report_progress(found, most, latest)

    # Models write null for what they leave out.
    arguments = {name: value for name, value in (params.arguments or {}).items() if value is not None}
    client = "" if context.request is None else client_of(caller, context.request.scope)
    began = anyio.current_time()
    async with service.admission.request(client):
        call = ToolCall(service, caller, arguments, params.name, report, began)
        answer: dict[str, Any] = call.hide_paths(await tools[params.name](call))
    return answer


def _identify(service: Service, context: ServerRequestContext[Any]) -> Caller:
    """Return who calls; over standard streams, it is whoever started the server.

    Raises:
        AccessDenied: If tokens are needed, and the request has none.
    """
    request = context.request
    return service.access.identify(None if request is None else request.headers.get("authorization"))
