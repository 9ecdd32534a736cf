"""Tools of agents: those of MCP, asked by its client, and those of `airw.tools`.

A row is a call. Its value is the structured answer, or of a wrong call whether the message has the name that it must.
"""

import json
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from airw import build, from_jsonl, from_notes, tools
from airw.serving import ServingLimits
from airw.stores import MemoryStore
from tests.support.agents import connect
from tests.support.dozen import write_library
from tests.support.plain_answers import find_name, plain, short

PARTS = ("functions", "held", "mcp", "schemas")
WAYS = ("asyncio", "trio")

KEYS = "rotate signing keys"

MCP = [
    ("discover", {"query": KEYS}),
    ("discover", {"query": KEYS, "corpus": "manuals", "k": 1}),
    ("discover", {"query": KEYS, "corpus": "notes", "k": 5}),
    ("discover", {"query": "zzz", "corpus": "manuals"}),
    ("traverse", {"query": KEYS, "k": 5}),
    ("traverse", {"query": KEYS, "corpus": "notes", "k": 3}),
    ("traverse", {"query": KEYS, "corpus": "notes", "k": 20, "max_depth": 0}),
    ("traverse", {"query": KEYS, "corpus": "notes", "k": 3, "node_budget": 2}),
    ("read", {"id": "keys.md", "corpus": "notes"}),
    ("read", {"id": "wallets.md", "corpus": "notes", "max_chars": 200}),
    ("read", {"id": "wallets.md", "corpus": "notes", "max_chars": 200, "offset": 200}),
    ("read", {"id": "m1", "corpus": "manuals"}),
    ("link_path", {"start": "index.md", "end": "food/soup.md", "corpus": "notes"}),
    ("link_path", {"start": "index.md", "end": "lone.md", "corpus": "notes"}),
    ("link_path", {"start": "index.md", "end": "vault.md", "corpus": "notes", "max_hops": 1}),
]
MCP_WRONG = [
    ("discover", {}, "query"),
    ("discover", {"query": 7}, "query"),
    ("discover", {"query": " "}, "query"),
    ("discover", {"query": "keys", "k": 0}, "k"),
    ("discover", {"query": "keys", "k": 21}, "k"),
    ("discover", {"query": "keys", "corpus": "drafts"}, "drafts"),
    ("discover", {"query": "keys", "filter": {}}, "filter"),
    ("traverse", {}, "query"),
    ("traverse", {"query": "keys", "node_budget": 0}, "node_budget"),
    ("traverse", {"query": "keys", "max_depth": -1}, "max_depth"),
    ("traverse", {"query": "keys", "timeout": -1}, "timeout"),
    ("read", {"id": "keys.md"}, "corpus"),
    ("read", {"corpus": "notes"}, "id"),
    ("read", {"id": "nope.md", "corpus": "notes"}, "nope.md"),
    ("read", {"id": "", "corpus": "notes"}, "id"),
    ("read", {"id": "m1", "corpus": "manuals", "offset": 1_000}, "offset"),
    ("read", {"id": "m1", "corpus": "manuals", "max_chars": 0}, "max_chars"),
    ("link_path", {"start": "keys.md", "corpus": "notes"}, "end"),
    ("link_path", {"start": "nope.md", "end": "keys.md", "corpus": "notes"}, "nope.md"),
    ("fly", {}, "fly"),
]

# A call, and what its answer must name if it is an error.
FUNCTIONS = [
    ("discover", {"query": KEYS}, None),
    ("discover", {"query": KEYS, "k": 1}, None),
    ("discover", "{}", "query"),
    ("discover", "not JSON", "JSON"),
    ("discover", "[]", "object"),
    ("discover", {"query": KEYS, "k": 0}, "k"),
    ("discover", {"query": KEYS, "k": 21}, "k"),
    ("discover", {"query": " "}, "query"),
    ("discover", {"question": KEYS}, "question"),
    ("walk", {"query": KEYS}, None),
    ("walk", {"query": KEYS, "k": 2}, None),
    ("walk", {"query": KEYS, "k": "two"}, "k"),
    ("read", {"id": "keys.md"}, None),
    ("read", {"id": "wallets.md", "offset": 200}, None),
    ("read", {"id": "wallets.md", "offset": 9_999}, "offset"),
    ("read", {"id": "nope.md"}, "nope.md"),
    ("read", {"id": 7}, "id"),
    ("read both", {"id": "m1", "corpus": "manuals"}, None),
    ("read both", {"id": "m1"}, "corpus"),
    ("read both", {"id": "m1", "corpus": "drafts"}, "drafts"),
]


def record(part, way, folder):
    write_library(folder)
    return anyio.run(globals()[f"record_{part}"], folder, backend=way)


@asynccontextmanager
async def open_corpora(folder):
    """Yield the corpora `notes` and `manuals`, in memory."""
    async with AsyncExitStack() as stack:
        sources = [
            from_notes(folder / "notes", embedder="light"),
            from_jsonl(folder / "manuals.jsonl", embedder="light"),
        ]
        yield [await stack.enter_async_context(build(source, store=MemoryStore())) for source in sources]


def name_of(tool, arguments):
    return f"{tool} {arguments if isinstance(arguments, str) else json.dumps(arguments)}"


async def record_mcp(folder):
    async with open_corpora(folder) as corpora, connect(*corpora) as agent:
        rows = {name_of(*call): await answer_row(agent, *call, folder) for call in MCP}
        for tool, arguments, culprit in MCP_WRONG:
            rows[name_of(tool, arguments)] = await mistake_row(agent, tool, arguments, culprit)
        rows["progress of traverse"] = await progress_row(agent)
    async with open_corpora(folder) as corpora, connect(corpora[0]) as agent:
        rows["read of the only corpus"] = await answer_row(agent, "read", {"id": "lone.md"}, folder)
    return rows


async def answer_row(agent, tool, arguments, folder):
    """Return the structured answer of a tool, without the token of a walk that waits."""
    answer = await agent.call_tool(tool, arguments)
    if answer.is_error:
        return answer.content[0].text
    assert json.loads(answer.content[0].text) == answer.structured_content
    fields = {name: value for name, value in answer.structured_content.items() if name != "continue"}
    return plain(fields, folder)


async def mistake_row(agent, tool, arguments, culprit):
    """Return how many lines the message of a wrong call has, and whether it has the name."""
    answer = await agent.call_tool(tool, arguments)
    [content] = answer.content
    return {
        "is_error": answer.is_error,
        "lines": len(content.text.splitlines()),
        "names": find_name(culprit, content.text),
    }


async def progress_row(agent):
    """Return the last progress of a walk, and whether the counts grew."""
    told = []

    async def tell(progress, total, message):
        told.append((progress, total))

    await agent.call_tool("traverse", {"query": KEYS, "corpus": "notes"}, progress_callback=tell)
    return {"last": told[-1], "grows": told == sorted(set(told))}


async def record_held(folder):
    """Return the rows of a walk that waits for its agent, which `continue` goes on with."""
    async with open_corpora(folder) as corpora, connect(*corpora) as agent:
        first = {"query": KEYS, "corpus": "notes", "k": 2, "node_budget": 2}
        answer = (await agent.call_tool("traverse", first)).structured_content
        further = await agent.call_tool("traverse", {"continue": answer["continue"], "node_budget": 5, "k": 5})
        rows = {"traverse and continue": [plain(each, folder) for each in (answer, further.structured_content)]}
        for each in rows["traverse and continue"]:
            each["continue"] = "*" if each["continue"] else None
        for arguments, culprit in [({"continue": "x", "query": KEYS}, "continue"), ({"continue": "x"}, "continue")]:
            rows[name_of("traverse", arguments)] = await mistake_row(agent, "traverse", arguments, culprit)
    return rows


async def record_schemas(folder):
    """Return the schemas of all tools, each argument and each field of an answer in a row."""
    rows = {}
    async with open_corpora(folder) as corpora:
        async with connect(*corpora, limits=ServingLimits(max_timeout=4)) as agent:
            for tool in (await agent.list_tools()).tools:
                schema = schema_row(tool.input_schema)
                held = schema["properties"].pop("continue", None)
                rows[f"mcp {tool.name}"] = {"title": tool.title, **tool.annotations.model_dump(exclude_none=True)}
                rows[f"mcp {tool.name}: arguments"] = schema
                rows[f"mcp {tool.name}: answer"] = sorted({*tool.output_schema["properties"]} - {"continue"})
                if held:
                    rows[f"mcp {tool.name}: argument continue"] = held
        for name, tool in make_tools(corpora).items():
            openai, anthropic = tool.to_openai(), tool.to_anthropic()
            rows[f"openai {name}"] = {**openai, "function": {**openai["function"], "parameters": None}}
            rows[f"openai {name}: parameters"] = schema_row(openai["function"]["parameters"])
            rows[f"anthropic {name}"] = [
                sorted(anthropic),
                anthropic["input_schema"] == openai["function"]["parameters"],
            ]
    return plain(rows, folder)


def schema_row(schema):
    """Return a schema of arguments without its words."""
    properties = {
        name: {key: value for key, value in each.items() if key not in ("description", "examples", "title")}
        for name, each in schema["properties"].items()
    }
    rest = {key: value for key, value in schema.items() if key in ("required", "additionalProperties", "type")}
    return {**rest, "properties": properties}


def make_tools(corpora):
    notes, _ = corpora
    return {
        "discover": tools.discover_tool(notes),
        "walk": tools.walk_tool(notes, node_budget=6),
        "read": tools.read_tool(notes, max_chars=450),
        "read both": tools.read_tool(corpora),
    }


async def record_functions(folder):
    """Return the texts that the tools of `airw.tools` answer; of an error, its beginning."""
    async with open_corpora(folder) as corpora:
        made = make_tools(corpora)
        rows = {}
        for name, arguments, culprit in FUNCTIONS:
            text = await made[name].call(arguments)
            if text.startswith("error:"):
                rows[name_of(name, arguments)] = {"is_error": True, "names": find_name(culprit, text)}
            else:
                rows[name_of(name, arguments)] = [short(line) for line in text.splitlines()]
    return rows
