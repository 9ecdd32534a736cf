"""An agent that uses the tools of `airw mcp` until it knows enough: mcp_agent.py [TEXT]."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

import airw

NOTES = Path(__file__).parent / "data" / "eips"


def knows_enough(documents: list[dict[str, Any]]) -> bool:
    """Return whether to stop. A real agent would ask a model here."""
    return len(documents) >= 6


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer of a tool; print how far a long call is."""

    async def tell(found: float, most: float | None, latest: str | None) -> None:
        print(f"  {latest}, {found:g} of at most {most:g}")

    answer = await client.call_tool(tool, arguments, progress_callback=tell)
    if answer.structured_content is None:
        raise SystemExit(f"{tool}: {answer.content}")
    return dict(answer.structured_content)


async def ask(client: Client, question: str) -> None:
    """Find a document, follow links in parts until there is enough, and read the best one."""
    found = await call(client, "discover", query=question, k=1)
    print("discovered", *(hit["title"] for hit in found["hits"]))
    part = await call(client, "traverse", query=question, k=3, node_budget=3, timeout=30)
    documents: list[dict[str, Any]] = part["hits"]
    while part["continue"] and not knows_enough(documents):
        part = await call(client, "traverse", **{"continue": part["continue"], "k": 3, "node_budget": 3})
        documents += part["hits"]
    for hit in documents:
        print(" > ".join(node["id"] for node in [*hit["path"], hit]))
    text = await call(client, "read", id=documents[0]["id"], max_chars=200)
    print(f"read {text['next_offset'] or text['total']} of {text['total']} characters of {text['id']}")


async def main(question: str) -> None:
    """Build a corpus, and start the server as an agent does."""
    with tempfile.TemporaryDirectory() as folder:
        async with airw.build(airw.from_notes(NOTES, embedder="light"), store=Path(folder, "eips.airw")):
            print("built")
        command = ["-m", "airw", "mcp", f"{folder}/eips.airw"]
        server = StdioServerParameters(command=sys.executable, args=command)
        async with Client(server) as client:
            await ask(client, question)


if __name__ == "__main__":
    anyio.run(main, " ".join(sys.argv[1:]) or "how do wallets sign typed structured data")
