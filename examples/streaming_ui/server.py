"""A page of one's own whose hits appear while the walk runs: server.py [PORT]."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from fastapi.responses import FileResponse, Response

import airw
from airw.serving import sse

FOLDER = Path(__file__).parent


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Index the notes when the server starts."""
    source = airw.from_notes(FOLDER.parent / "data" / "eips", embedder="light")
    async with airw.build(source, store=airw.stores.MemoryStore()) as corpus:
        app.state.corpus = corpus
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def page() -> FileResponse:
    """Answer with the page."""
    return FileResponse(FOLDER / "page.html")


@app.get("/walk")
async def walk(question: str) -> Response:
    """Answer with the events of one walk; a browser that goes away stops it."""
    return sse(airw.traverse(question, app.state.corpus, node_budget=12, timeout=30))


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]) if sys.argv[1:] else 8000)
